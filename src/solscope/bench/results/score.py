"""The score: what share of production's GPU time runs at the hardware's limit.

    S of a shape      = bound / median
    S where passed    = sum(n bound) / sum(n median)    n: calls of the shape
    S of an operator  = S where passed x share of the operator's time in shapes that passed
    S over all        = sum(importance S) over all operators of the suite
    recoverable       = sum(importance covered (1 - S where passed))

A shape that is missing, failed or is not supported counts as 0, and so does an operator without
any; `covered` says for how much of the time there is a measurement. Where some operators are asked
for, S, `covered` and `s_covered` are of their time alone, instead of the suite's. Of several
solutions the fastest counts for each shape, and of a solution whose files changed the last version.
Sizes must be full. Where a suite gives shares of time instead of calls, n is share / median.
Weights and bounds are the suite's, not those that a results file states (`restate.py`).
Nothing is clipped: S above 1 means that the bound is wrong, and `faster_than_bound` never passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from solscope.bench.base import ShapeResult, is_called
from solscope.bench.results.files import latest
from solscope.bench.results.restate import restate
from solscope.bench.workloads import DEFAULT_SUITE, workloads
from solscope.errors import InputError, UsageError
from solscope.text import in_words

_ONE_OF = {"device": "--on DEVICE", "suite": "--suite NAME"}
"""What results that are scored together have in common, and what chooses it."""


class OperatorScore(msgspec.Struct, frozen=True):
    """One operator over its shapes."""

    operator: str
    importance: float
    """Share in production's GPU time; all operators of the suite are 1."""
    s: float | None
    """With 0 for the shapes that did not pass; null when no shape with a bound passed."""
    s_passed: float | None
    """Over the shapes that passed."""
    shapes_passed: int
    shapes: int
    """All shapes of the suite."""
    covered_weight: float
    """Share of the operator's time in production in the shapes that passed."""
    bound_us: float | None
    """Mean over calls of the bound."""
    median_us: float | None
    """Mean over calls of the time."""
    published_s: float | None
    """S against the bound that the public suite states."""
    recoverable: float | None
    """importance covered_weight (1 - s_passed)."""
    best: dict[str, int]
    """How many shapes each solution is the fastest on."""


class ResultSet(msgspec.Struct, frozen=True):
    """Results that belong together: one device, one suite, one method of timing."""

    device: str
    suite: str
    method: str
    only: list[str]
    """The operators that were asked for, to which all sums are limited; empty: the whole suite."""


class Score(ResultSet, frozen=True):
    """All operators of a suite."""

    solutions: list[str]
    weighted_s: float | None
    """Over the whole suite, or `only` some operators of it, with 0 for what did not pass or was not
    run; null without any S."""
    s_covered: float | None
    """Over what passed."""
    covered: float
    """Share of production's time, by importance and weight, in the shapes that passed; of the time
    of the operators that were asked for, where some were."""
    recoverable: float | None
    """Share of production's GPU time that would be saved at the bound, over what passed."""
    operators: list[OperatorScore]


def score(
    results: Sequence[ShapeResult],
    solution: str | None = None,
    device: str | None = None,
    method: str | None = None,
    suite: str | None = None,
    operators: Sequence[str] = (),
) -> Score:
    """Score results: the fastest of their solutions per shape, or one solution alone.

    `device` and `suite` choose where there are several, and `operators` those that count, instead
    of all. `method` takes another of the methods that
    were run, by its id or its name, e.g. `graph`; its times are compared to the same bound, which
    is for cold caches.
    """
    chosen = select(results, solution, device, method, suite, operators)
    suite = chosen[0].suite
    listed = workloads(suite)
    scores = [
        _operator(name, shapes[0].importance, len(shapes), best_per_shape(chosen, name))
        for name, shapes in listed.items()
        if any(r.operator == name for r in chosen)
    ]
    scored = [operator for operator in scores if operator.s is not None]
    whole = 1.0
    if operators:
        whole = sum(listed[name][0].importance for name in operators if name in listed) or 1.0
    covered = sum(operator.importance * operator.covered_weight for operator in scored) / whole
    total = sum(operator.importance * (operator.s or 0.0) for operator in scored) / whole
    return Score(
        device=chosen[0].device,
        suite=suite,
        method=", ".join(sorted({r.method for r in chosen if r.median_us})) or chosen[0].method,
        only=list(dict.fromkeys(operators)),
        solutions=sorted({r.solution for r in chosen}),
        weighted_s=total if scored else None,
        s_covered=total / covered if covered else None,
        covered=covered,
        recoverable=sum(operator.recoverable or 0.0 for operator in scored) if scored else None,
        operators=scores,
    )


def usual(
    results: Sequence[ShapeResult], suite: str | None = None, device: str | None = None
) -> tuple[str | None, str | None]:
    """The suite and the device to show where one must be, and they are not named.

    Of several suites that is the public one, of several devices the one with most lines.
    """
    lines = [line for line in results if line.scale == 1]
    if suite is None:
        suites = dict.fromkeys(line.suite for line in lines)
        suite = DEFAULT_SUITE if DEFAULT_SUITE in suites else next(iter(suites), None)
    if device is None:
        devices = Counter(line.device for line in lines if line.suite == suite)
        device = next((name for name, _ in devices.most_common(1)), None)
    return suite, device


def select(
    results: Sequence[ShapeResult],
    solution: str | None = None,
    device: str | None = None,
    method: str | None = None,
    suite: str | None = None,
    operators: Sequence[str] = (),
) -> list[ShapeResult]:
    """The lines of one device and suite at full size, the last of each shape."""
    full = [r for r in latest(results) if r.scale == 1]
    if not full:
        raise InputError(
            "every result is of a scaled shape (--scale, --small); only full sizes are scored"
        )
    lines, among = _asked(full, "", suite=suite, device=device)
    if operators:
        lines = _of(operators, lines, among)
        among += f" for {in_words(operators)}"
    lines, _ = _asked(lines, among, solution=solution)
    full = restate(lines)
    for what, option in _ONE_OF.items():
        values = sorted({getattr(r, what) for r in full})
        if len(values) > 1:
            several = ", ".join(values)
            raise UsageError(f"results of several {what}s ({several}); choose one with {option}")
    if method is None:
        return full
    methods = sorted({name for r in full for name in (r.method, *r.methods)})
    if not any(is_called(name, method) for name in methods):
        raise UsageError(f"no times by {method!r} (available: {', '.join(methods)})")
    return [_with_method(r, method) for r in full]


def _asked(
    lines: list[ShapeResult], among: str, **asked: str | None
) -> tuple[list[ShapeResult], str]:
    """The lines whose fields are as asked; null asks for nothing.

    `among` says what was asked for before, for errors; it comes back with what is asked here.
    """
    for what, value in asked.items():
        if value is None:
            continue
        values = sorted({getattr(line, what) for line in lines})
        meant = [name for name in values if what == "device" and value.lower() in name.lower()]
        if value not in values and len(meant) == 1:
            value = meant[0]  # H200 for NVIDIA H200
        if value not in values:
            there = ", ".join(values)
            raise UsageError(f"no results of {what} {value!r}{among} (available: {there})")
        lines = [line for line in lines if getattr(line, what) == value]
        among += f" for {what} {value}"
    return lines, among


def _of(operators: Sequence[str], lines: list[ShapeResult], among: str) -> list[ShapeResult]:
    """The lines of these operators, each of which must have some."""
    names = sorted({line.operator for line in lines})
    for name in operators:
        if name not in names:
            near = [repr(one) for one in get_close_matches(name, names)]
            hint = f" (available: {', '.join(names)})"
            if near:
                hint = f"; did you mean {' or '.join(near)}?"
            raise UsageError(f"no results of operator {name!r}{among}{hint}")
    return [line for line in lines if line.operator in operators]


def _with_method(result: ShapeResult, method: str) -> ShapeResult:
    """The line with the times of another method; it did not pass where that has none."""
    if is_called(result.method, method):
        return result
    full, timing = result.by(method) or (method, None)
    if timing is None or not timing.median_us:
        return msgspec.structs.replace(result, median_us=None, s=None, method=full)
    s = None if result.bound_us is None else result.bound_us / timing.median_us
    return msgspec.structs.replace(result, method=full, s=s, **timing.as_main())


def best_per_shape(results: Sequence[ShapeResult], operator: str) -> list[ShapeResult]:
    """The fastest passed line of each shape."""
    best: dict[str, ShapeResult] = {}
    for result in results:
        if result.operator != operator or result.status != "passed" or not result.median_us:
            continue
        before = best.get(result.shape)
        if before is None or result.median_us < (before.median_us or 0):
            best[result.shape] = result
    return list(best.values())


def _operator(name: str, importance: float, shapes: int, best: list[ShapeResult]) -> OperatorScore:
    bounded = [r for r in best if r.bound_us is not None and r.median_us]
    calls = call_counts(bounded)
    spent = sum(n * (r.median_us or 0.0) for n, r in zip(calls, bounded, strict=True))
    least = sum(n * (r.bound_us or 0.0) for n, r in zip(calls, bounded, strict=True))
    stated = sum(n * (r.published_us or 0.0) for n, r in zip(calls, bounded, strict=True))
    has_stated = bool(bounded) and all(r.published_us is not None for r in bounded)
    s_passed = least / spent if spent else None
    covered = min(1.0, sum(r.weight for r in bounded))
    winners: dict[str, int] = {}
    for result in best:
        winners[result.solution] = winners.get(result.solution, 0) + 1
    return OperatorScore(
        operator=name,
        importance=importance,
        s=None if s_passed is None else s_passed * covered,
        s_passed=s_passed,
        shapes_passed=len(best),
        shapes=shapes,
        covered_weight=covered,
        bound_us=least / sum(calls) if any(calls) else None,
        median_us=spent / sum(calls) if any(calls) else None,
        published_s=stated / spent if spent and has_stated else None,
        recoverable=None if s_passed is None else covered * importance * (1 - s_passed),
        best=dict(sorted(winners.items(), key=lambda pair: -pair[1])),
    )


def call_counts(results: Sequence[ShapeResult]) -> list[float]:
    """How often each of these shapes is called, relative to the others."""
    if all(r.calls is not None for r in results):
        return [r.calls or 0.0 for r in results]
    return [r.weight / (r.median_us or 1.0) for r in results]
