"""Compare two sets of results: faster, slower, or cannot tell.

The ratio of medians gets a 95 % interval from a bootstrap over processes first and samples within
them second, because samples of one process resemble each other. Where a side was timed in one
process, how processes differ cannot be seen, and the interval is wider by as much as two processes
of one card were seen to differ. Where A and B may be of two machines, it is wider by as much as
machines with one model of GPU were. A ratio within 1 % of 1 is never called a difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from solscope.bench.base import ShapeResult
from solscope.bench.results.score import ResultSet, best_per_shape, select
from solscope.bench.results.words import time_of
from solscope.errors import InputError
from solscope.text import in_words

if TYPE_CHECKING:
    from numpy.random import Generator

    from solscope.resample import Floats

RESOLUTION = 0.01
"""Smaller differences are not reported."""
ONE_PROCESS = 0.08
"""By how much medians of single processes of one solution may differ, on whatever machine. With it
95 % of over 1,000 pairs of two runs show no difference (docs/reference/results.md)."""
OTHER_MACHINE = 0.035
"""By how much medians of several processes may differ between runs that may be of two machines with
one model of GPU; fitted to 82 pairs, held by 81 of 82 others (docs/reference/results.md)."""

Verdict = Literal["faster", "slower", "cannot tell"]
_Key = tuple[str, str]
"""Operator and shape."""


class ShapeContrast(msgspec.Struct, frozen=True):
    """One shape in both."""

    operator: str
    shape: str
    a_solution: str
    """The fastest of A, whose time counts."""
    b_solution: str
    a_us: float
    b_us: float
    ratio: float
    """b / a: below 1, B is faster."""
    low: float
    high: float
    verdict: Annotated[
        Verdict, msgspec.Meta(description="Whether B is faster than A on this shape.")
    ]
    """About B."""
    processes: tuple[int, int]
    """In which A and B were timed."""
    other_machine: bool
    """Whether A and B may be of two machines: they are of two runs that do not name the same."""


class OperatorContrast(msgspec.Struct, frozen=True):
    """The shapes of one operator that both have, each with its share in production's time."""

    operator: str
    shapes: int
    faster: int
    slower: int
    """Shapes; it cannot be told of the others."""
    share_pct: float
    """Of A's time; all operators are 100."""
    ratio: float
    """Time of B over time of A."""
    change_pct: float
    """What the operator adds to the time, in percent of A's; all operators are `ratio` - 1."""


class Contrast(ResultSet, frozen=True):
    """All shapes that both have, and what only one has."""

    a: list[str]
    """Solutions of A."""
    b: list[str]
    ratio: float
    """Time of B over time of A, each shape with the share that it has in production's time."""
    low: float
    high: float
    verdict: Annotated[
        Verdict,
        msgspec.Meta(description="Whether B is faster than A over all shapes that both have."),
    ]
    sentence: str
    """The verdict in words: by how much, which operator decides, and what only one side has."""
    faster: int
    slower: int
    cannot_tell: int
    only_a: int
    """Shapes that passed in A alone."""
    only_b: int
    uneven: int
    """Shapes that other solutions were timed on in A than in B: the best of more is faster."""
    operators: list[OperatorContrast]
    """Those that change the time most first: the first one decides."""
    shapes: list[ShapeContrast]


def contrast(
    a: Sequence[ShapeResult],
    b: Sequence[ShapeResult],
    solution_a: str | None = None,
    solution_b: str | None = None,
    device: str | None = None,
    method: str | None = None,
    suite: str | None = None,
    operators: Sequence[str] = (),
) -> Contrast:
    """Compare the passed shapes of two sets; the fastest solution of each counts per shape.

    `device`, `suite`, `method` and `operators` choose among those of the results, and the methods
    that were run.
    """
    from solscope.resample import generator

    lines_a = select(a, solution_a, device, method, suite, operators)
    lines_b = select(b, solution_b, device, method, suite, operators)
    _require_alike(lines_a[0], lines_b[0])
    best_a, best_b = _passed(lines_a), _passed(lines_b)
    pairs = _pairs(best_a, best_b)
    draw = generator()
    medians = [(_medians(before, draw), _medians(other, draw)) for before, other in pairs]
    contrasts = [_shape(*pair, *both) for pair, both in zip(pairs, medians, strict=True)]
    ratio, low, high = _overall(pairs, contrasts, medians)
    verdicts = [contrasted.verdict for contrasted in contrasts]
    found = Contrast(
        device=lines_a[0].device,
        suite=lines_a[0].suite,
        method=", ".join(sorted({before.method for before, _ in pairs})),
        only=list(dict.fromkeys(operators)),
        a=sorted({r.solution for r in lines_a}),
        b=sorted({r.solution for r in lines_b}),
        ratio=ratio,
        low=low,
        high=high,
        verdict=_verdict(low, high),
        sentence="",
        faster=verdicts.count("faster"),
        slower=verdicts.count("slower"),
        cannot_tell=verdicts.count("cannot tell"),
        only_a=len(best_a) - len(pairs),
        only_b=len(best_b) - len(pairs),
        uneven=_uneven(pairs, lines_a, lines_b),
        operators=_operators(contrasts, _shares([before for before, _ in pairs])),
        shapes=contrasts,
    )
    return msgspec.structs.replace(found, sentence=_sentence(found))


def _sentence(found: Contrast) -> str:
    """Weighted by the suite's time first; counts of shapes, which may say otherwise, after it."""
    a, b = (
        names[0] if len(names) == 1 and found.a != found.b else side
        for names, side in ((found.a, "A"), (found.b, "B"))
    )
    if found.verdict == "cannot tell":
        said = f"Whether {b} is faster than {a} cannot be told: it takes"
    else:
        said = f"{b} is {found.verdict} than {a}: it takes"
    shapes_of = f"shapes of {in_words(found.only)} alone" if found.only else "shapes"
    said += (
        f" {_times_as_long(found)}, {shapes_of} weighted by their share of the "
        f"{time_of(found.suite)}"
    )
    same_way = [one for one in found.operators if one.change_pct * (found.ratio - 1) > 0]
    if same_way and found.verdict != "cannot tell":
        most = same_way[0]
        decides = 2 * abs(most.change_pct) >= 100 * abs(found.ratio - 1)
        part = "decides" if decides else "has the largest part"
        said += f"; {most.operator} {part} ({most.change_pct:+.1f} % of the time of {a})"
    shapes = _shapes(len(found.shapes))
    counts = {"faster": found.faster, "slower": found.slower}
    other = {"faster": "slower", "slower": "faster"}.get(found.verdict)
    if other and counts[other] > counts[found.verdict]:
        # Shapes are not alike: many that take little lose against few that take much.
        said += (
            f". Counting shapes alike, it is the other way round: {other} on {counts[other]} of "
            f"{shapes}, {found.verdict} on {counts[found.verdict]}"
        )
    else:
        said += (
            f". Of {shapes} it is faster on {found.faster} and slower on {found.slower}; for "
            f"{found.cannot_tell} it cannot be told"
        )
    alone = [
        f"{_shapes(count)} passed with {name} alone"
        for count, name in ((found.only_a, a), (found.only_b, b))
        if count
    ]
    return f"{said}.{' ' if alone else ''}{', '.join(alone)}{'.' if alone else ''}"


def _times_as_long(found: Contrast) -> str:
    """The ratio and its interval; nothing takes `1 times as long`."""
    ratio, interval = f"{found.ratio:.3g}", f"{found.low:.3g} to {found.high:.3g}"
    return f"as long ({interval} times)" if ratio == "1" else f"{ratio} times as long ({interval})"


def _shapes(count: int) -> str:
    return f"{count:,} shape{'' if count == 1 else 's'}"


def contrast_lines(a: ShapeResult, b: ShapeResult) -> ShapeContrast | None:
    """Two lines of one shape, of whatever scale; null where one has no time."""
    from solscope.resample import generator

    if not all(r.status == "passed" and r.samples and min(r.samples) > 0 for r in (a, b)):
        return None
    draw = generator()
    return _shape(a, b, _medians(a, draw), _medians(b, draw))


def _operators(
    contrasts: Sequence[ShapeContrast], shares: Sequence[float]
) -> list[OperatorContrast]:
    by_name: defaultdict[str, list[tuple[ShapeContrast, float]]] = defaultdict(list)
    for shape, share in zip(contrasts, shares, strict=True):
        by_name[shape.operator].append((shape, share))
    total = sum(share * shape.a_us for shape, share in zip(contrasts, shares, strict=True))
    contrasted = []
    for operator, rows in by_name.items():
        a_us = sum(share * shape.a_us for shape, share in rows)
        b_us = sum(share * shape.b_us for shape, share in rows)
        verdicts = [shape.verdict for shape, _ in rows]
        contrasted.append(
            OperatorContrast(
                operator=operator,
                shapes=len(rows),
                faster=verdicts.count("faster"),
                slower=verdicts.count("slower"),
                share_pct=100 * a_us / total,
                ratio=b_us / a_us if a_us else 1.0,
                change_pct=100 * (b_us - a_us) / total,
            )
        )
    return sorted(contrasted, key=lambda row: -abs(row.change_pct))


def _require_alike(a: ShapeResult, b: ShapeResult) -> None:
    """Refuse sets of another device or suite than each other's."""
    if a.device != b.device:
        raise InputError(f"A was measured on {a.device}, B on {b.device}: not comparable")
    if a.suite != b.suite:
        raise InputError(f"A is of the suite {a.suite}, B of {b.suite}")


def _pairs(
    best_a: Mapping[_Key, ShapeResult], best_b: Mapping[_Key, ShapeResult]
) -> list[tuple[ShapeResult, ShapeResult]]:
    """The results of A and B for every shape that passed in both."""
    pairs = [(before, best_b[key]) for key, before in best_a.items() if key in best_b]
    if not pairs:
        raise InputError("no shape passed in both")
    for before, other in pairs:
        if before.method != other.method:
            where = f"{before.operator} shape {before.shape}"
            both = sorted(before.methods.keys() & other.methods.keys())
            raise InputError(
                f"{where}: A was timed by {before.method}, B by {other.method}, which cannot "
                f"be compared (both have: {', '.join(both) or 'no method'})"
            )
    return pairs


def _uneven(
    pairs: Sequence[tuple[ShapeResult, ShapeResult]],
    lines_a: Sequence[ShapeResult],
    lines_b: Sequence[ShapeResult],
) -> int:
    """Shapes with other solutions in A than in B; one against one is meant to be so."""
    if all(len({line.solution for line in lines}) == 1 for lines in (lines_a, lines_b)):
        return 0
    timed_a, timed_b = _solutions(lines_a), _solutions(lines_b)
    keys = [(line.operator, line.shape) for line, _ in pairs]
    return sum(timed_a[key] != timed_b[key] for key in keys)


def _solutions(lines: Sequence[ShapeResult]) -> dict[_Key, set[str]]:
    """The solutions that passed on each shape and have a time."""
    solutions: defaultdict[_Key, set[str]] = defaultdict(set)
    for line in lines:
        if line.status == "passed" and line.median_us:
            solutions[line.operator, line.shape].add(line.solution)
    return solutions


def _overall(
    pairs: Sequence[tuple[ShapeResult, ShapeResult]],
    contrasts: Sequence[ShapeContrast],
    medians: Sequence[tuple[Floats, Floats]],
) -> tuple[float, float, float]:
    """Time of B over time of A, all shapes together, and the interval of that ratio."""
    import numpy as np

    shares = _shares([contrasted for contrasted, _ in pairs])
    weights = np.array(shares)[:, None]
    drawn_a, drawn_b = (
        (weights * np.array([both[side] for both in medians])).sum(0) for side in (0, 1)
    )
    spent_a = sum(w * contrasted.a_us for w, contrasted in zip(shares, contrasts, strict=True))
    spent_b = sum(w * contrasted.b_us for w, contrasted in zip(shares, contrasts, strict=True))
    low, high = _interval(drawn_b / drawn_a, _together(contrasts, shares, spent_a))
    return spent_b / spent_a, low, high


def _shares(lines: Sequence[ShapeResult]) -> list[float]:
    """Calls of each shape, relative to the others, by its share of production's time."""
    spent = [r.weight * (1.0 if r.importance is None else r.importance) for r in lines]
    if not any(spent):
        spent = [r.weight for r in lines]
    return [time / (r.median_us or 1.0) for time, r in zip(spent, lines, strict=True)]


def _passed(lines: Sequence[ShapeResult]) -> dict[_Key, ShapeResult]:
    names = dict.fromkeys(r.operator for r in lines)
    return {
        (name, result.shape): result
        for name in names
        for result in sorted(best_per_shape(lines, name), key=lambda r: -r.weight)
        if result.samples and min(result.samples) > 0
    }


def _shape(a: ShapeResult, b: ShapeResult, medians_a: Floats, medians_b: Floats) -> ShapeContrast:
    processes = (len(_processes(a)), len(_processes(b)))
    other_machine = _on_other_machine(a, b)
    unseen = ONE_PROCESS if min(processes) == 1 else OTHER_MACHINE * other_machine
    low, high = _interval(medians_b / medians_a, unseen)
    a_us, b_us = a.median_us or 0.0, b.median_us or 0.0
    return ShapeContrast(
        operator=a.operator,
        shape=a.shape,
        a_solution=a.solution,
        b_solution=b.solution,
        a_us=a_us,
        b_us=b_us,
        ratio=b_us / a_us,
        low=low,
        high=high,
        verdict=_verdict(low, high),
        processes=processes,
        other_machine=other_machine,
    )


def _on_other_machine(a: ShapeResult, b: ShapeResult) -> bool:
    """Whether two lines may be of two machines, or of one that was started anew in between."""
    machines = (a.run.get("machine"), b.run.get("machine"))
    if None in machines:
        return a.run.get("id") is None or bool(a.run["id"] != b.run.get("id"))
    return bool(machines[0] != machines[1])


def _together(contrasts: Sequence[ShapeContrast], shares: Sequence[float], spent: float) -> float:
    """What processes and machines may differ by over all shapes.

    One process times all shapes of an operator, so those may be off by the same share; chance of
    one operator is made up for by others. A machine that is slower is slower at all of them.
    """
    parts: defaultdict[str, float] = defaultdict(float)
    elsewhere = 0.0
    for contrasted, share in zip(contrasts, shares, strict=True):
        part = share * contrasted.a_us / spent
        if min(contrasted.processes) == 1:
            parts[contrasted.operator] += ONE_PROCESS * part
        elif contrasted.other_machine:
            elsewhere += OTHER_MACHINE * part
    return elsewhere + math.hypot(*parts.values())


def _processes(result: ShapeResult) -> list[int]:
    """Samples of each process that gave any; one process where the counts do not add up."""
    counts = [count for count in result.samples_per_restart if count]
    return counts if sum(counts) == len(result.samples) else [len(result.samples)]


def _medians(result: ShapeResult, draw: Generator) -> Floats:
    """Medians of resamples of the samples of each process."""
    import numpy as np

    from solscope.resample import nested_medians

    parts, start = [], 0
    for count in _processes(result):
        parts.append(np.array(result.samples[start : start + count]))
        start += count
    return nested_medians(parts, draw)


def _interval(ratios: Floats, unseen: float) -> tuple[float, float]:
    """The middle of the ratios, widened by a share that they cannot show."""
    from solscope.resample import bounds

    low, high = bounds(ratios)
    return low / (1 + unseen), high * (1 + unseen)


def _verdict(low: float, high: float) -> Verdict:
    if high < 1 - RESOLUTION:
        return "faster"
    return "slower" if low > 1 + RESOLUTION else "cannot tell"
