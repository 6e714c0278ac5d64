"""Whether results files are as they were written: `solscope bench verify`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from solscope.bench.base import FAILURES, ShapeResult
from solscope.bench.bounds import MIN_SHARE_OF_BOUND
from solscope.bench.catalog import built_in
from solscope.bench.results.digest import (
    chained,
    digest_of,
    lacks_digest,
    lines_and_digested_runs,
    run_of,
)
from solscope.bench.results.files import is_cut_off
from solscope.bench.results.restate import (
    stated_or_less,
    suite_bound,
    suite_shapes,
    true_median,
)
from solscope.errors import InputError

SAME = 1e-6
"""Relative difference of two numbers that were computed in the same way."""
LEAST_US = 0.01
"""A call takes longer than this by any method; a launch takes 0.5 us."""
CLOCKS = 1.1
"""By how much bounds of the first evaluator, with tensor rates at a lower clock, may be larger."""

Kind = Literal["edited", "broken_run", "inconsistent"]


class Finding(msgspec.Struct, frozen=True):
    """Something wrong with a line."""

    file: str
    line: int
    """Counted from 1."""
    kind: Kind
    """`edited`: its digest does not fit, or was taken off. `broken_run`: a line before it is
    missing, added or moved. `inconsistent`: its numbers contradict each other, the suite or the
    bound."""
    what: str
    operator: str
    shape: str
    solution: str


class Audit(msgspec.Struct, frozen=True):
    """What was found in some results files."""

    files: list[str]
    lines: int
    intact: int
    """Lines whose digest fits."""
    no_digest: int
    """Lines that were written without one."""
    other_solution: int
    """Lines of a built-in solution whose files have changed since."""
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts the files."""
        return not self.findings


def audit(paths: Iterable[Path | str]) -> Audit:
    """Compare every line with its digest, its run, the suite and itself."""
    files = [str(path) for path in paths]
    findings: list[Finding] = []
    total = intact = bare = others = 0
    shipped = _shipped()
    for file in files:
        running: dict[str, str] = {}
        number = 0
        lines, digested = lines_and_digested_runs(file)
        for number, raw, result in lines:
            total += 1
            others += shipped(result) not in (None, result.solution_hash)
            document: dict[str, Any] = json.loads(raw)
            own = digest_of(document)
            bare += not result.digest
            intact += result.digest == own
            problems = [*_digest_problems(result, own, digested, running), *inconsistencies(result)]
            findings += [
                Finding(file, number, kind, what, result.operator, result.shape, result.solution)
                for kind, what in problems
            ]
        if is_cut_off(Path(file)):
            what = "the last line was cut off"
            findings.append(Finding(file, number + 1, "broken_run", what, "", "", ""))
    if not total:
        raise InputError(f"{', '.join(files)}: no results")
    return Audit(files, total, intact, bare, others, findings)


def _digest_problems(
    result: ShapeResult, own: str, digested: set[str], running: dict[str, str]
) -> Iterator[tuple[Kind, str]]:
    """`running` holds the digest of each run so far, and is brought up to date."""
    if lacks_digest(result, digested):
        yield "edited", "it has no digest, and its evaluator gave it one"
    if not result.digest:
        return
    if result.digest != own:
        yield "edited", "its digest does not fit what it says"
    run = run_of(result)
    if result.run_digest != chained(running.get(run, ""), result.digest):
        yield "broken_run", f"lines of run {run or '?'} before it are missing, added or moved"
    running[run] = result.run_digest


def inconsistencies(result: ShapeResult) -> Iterator[tuple[Kind, str]]:
    """Contradictions between the numbers of a line, and with the suite."""
    if result.median_us and true_median(result) != result.median_us:
        yield "inconsistent", f"its median is {result.median_us:g} us, its samples say otherwise"
    if result.s and not _same(result.s, (result.bound_us or 0.0) / (result.median_us or 1.0)):
        yield "inconsistent", "s is not bound_us / median_us"
    yield from _impossible_times(result)
    if result.status in FAILURES and not result.reason:
        yield "inconsistent", "failed without a reason"
    shapes = suite_shapes(result.suite)
    listed = shapes.get((result.operator, result.shape))
    if shapes and listed is None:
        yield "inconsistent", f"{result.suite} has no shape {result.shape} of {result.operator}"
    if result.scale != 1 or listed is None:
        return
    if result.axes != listed.axes:
        yield "inconsistent", f"its axes are not those of shape {result.shape} of {result.suite}"
        return
    for name in ("weight", "calls", "importance"):
        if not _same(getattr(result, name) or 0.0, getattr(listed, name) or 0.0):
            yield "inconsistent", f"its {name} is not the suite's"
    bound = suite_bound(result.suite, result.operator, result.shape, result.device).bound_us
    room = CLOCKS if result.evaluator < 2 else 1.0
    if bound and (result.bound_us or 0.0) > bound * room * (1 + SAME):
        yield "inconsistent", f"its bound is {result.bound_us:g} us, the suite gives {bound:g}"


def _impossible_times(result: ShapeResult) -> Iterator[tuple[Kind, str]]:
    """Times that no measurement gives, whatever S the line states."""
    if not (result.median_us and result.status == "passed"):
        return
    bound = result.bound_us
    if result.scale == 1 and (result.operator, result.shape) in suite_shapes(result.suite):
        computed = suite_bound(result.suite, result.operator, result.shape, result.device)
        bound = stated_or_less(result, computed) or computed.bound_us
    s = max(result.s or 0.0, (bound or 0.0) / result.median_us)
    if s > 1 / MIN_SHARE_OF_BOUND:
        yield "inconsistent", f"passed with S = {s:.4g}, faster than the bound"
    if not result.samples:
        yield "inconsistent", "it has a time, and no samples of it"
    for name, timing in result.methods.items():
        if not timing.median_us:
            continue
        if timing.median_us < LEAST_US:
            yield "inconsistent", f"{timing.median_us:g} us by {name}: no call takes so little"
        if name == result.method:
            continue  # Its samples are those of the line.
        if not timing.samples:
            yield "inconsistent", f"it has a time by {name}, and no samples of it"
        elif true_median(timing) != timing.median_us:
            yield "inconsistent", f"its median by {name} is not that of its samples"


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= SAME * max(abs(value), abs(other))


def _shipped() -> Callable[[ShapeResult], str | None]:
    """A function that gives the hash that a line's solution has now; null if it does not ship."""
    solutions = built_in()

    @cache
    def current(name: str, operator: str) -> str | None:
        return solutions.get(name).hash(operator) if name in solutions.names() else None

    return lambda result: current(result.solution, result.operator)
