"""`solscope bench`: in the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from solscope.bench.base import FAILURES, ShapeResult
from solscope.bench.results.contrast import ONE_PROCESS, RESOLUTION, Contrast
from solscope.bench.results.leaderboard import Leaderboard
from solscope.bench.results.score import Score
from solscope.bench.workloads import DEFAULT_SUITE
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, counted, heading, number, numbers, pct, table
from solscope.text import clean

REASONS = 8
"""How many reasons are printed in full; JSON has them all."""


def _us(value: float | None) -> str:
    return "-" if value is None else number(value, 2 if value < 1000 else 0)


def _share(value: float | None) -> str:
    return pct(None if value is None else 100 * value)


class BenchResults(TypedDict):
    """Results of `solscope bench run` and `check`."""

    results: list[ShapeResult]


class NewSolution(TypedDict):
    """The files of `solscope bench new`."""

    files: list[str]


@form("bench_new", NewSolution)
def new_solution(result: NewSolution, _: Screen) -> str:
    """The files that were written."""
    return "\n".join(result["files"])


@form("bench_run", BenchResults)
@form("bench_check", BenchResults)
def results_parts(document: BenchResults, screen: Screen) -> list[Printable]:
    """One row per shape and solution, with the reason where it did not pass.

    On a narrow terminal the names go that are the same in every row, never those that tell rows
    apart.
    """
    results = document["results"]
    one_operator = len({r.operator for r in results}) < 2
    one_solution = len({r.solution for r in results}) < 2
    columns = (
        Column("operator", text=True, spare=1 if one_operator else 0),
        Column("shape", text=True),
        Column("solution", text=True, spare=2 if one_solution else 0),
        Column("status", text=True),
        Column("median µs"),
        Column("p20", spare=4),
        Column("p80", spare=4),
        Column("graph µs", spare=3),
        Column("bound µs", spare=2),
        Column("S"),
        Column("why", text=True),
    )
    cells = [
        (
            r.operator,
            r.shape,
            r.solution,
            r.status,
            _us(r.median_us),
            _us(r.p20_us),
            _us(r.p80_us),
            _us(graph[1].median_us if (graph := r.by("graph")) else None),
            _us(r.bound_us),
            _share(r.s),
            r.reason or ("noisy" if any(t.noisy for t in r.methods.values()) else ""),
        )
        for r in results
    ]
    known = [
        at for at, one in enumerate(columns) if one.text or any(row[at] != "-" for row in cells)
    ]
    shown = table(
        [columns[at] for at in known], [[row[at] for at in known] for row in cells], screen.width
    )
    count = Counter(r.status for r in results)
    total = ", ".join(f"{n} {status}" for status, n in count.most_common()) or "nothing to run"
    notes = [Text(f"{counted(len(results), 'result')}: {total}")]
    if results:
        first = results[0]
        scored = any(r.s is not None for r in results)
        notes.append(
            Text(f"{first.device}, method {first.method}{'; S = bound / median' * scored}")
        )
    if any(r.status == "passed" and r.scale != 1 for r in results):
        notes.append(Text("sizes were scaled: what goes wrong at full size alone was not seen"))
    return [shown, Text(""), *_reasons(results), *notes]


def _reasons(results: Sequence[ShapeResult]) -> list[Printable]:
    """Why each solution failed at an operator, in full, where the table has no room for it."""
    first: dict[tuple[str, str], ShapeResult] = {}
    for one in results:
        if one.status in FAILURES and one.reason:
            first.setdefault((one.operator, one.solution), one)
    lines = [
        clean(f"{one.solution} at {one.operator}, shape {one.shape}: {one.reason}")
        for one in list(first.values())[:REASONS]
    ]
    return [*map(Text, lines), Text("")] if lines else []


@form("bench_score", Score)
def score_parts(found: Score, screen: Screen) -> list[Printable]:
    """S per operator, and over all."""
    columns = (
        *numbers("importance", "S"),
        Column("bound µs", spare=2),
        Column("best µs", spare=1),
        *numbers("recoverable", "passed"),
        Column("published S", spare=3),
        Column("operator", text=True),
        Column("best", text=True, spare=4),
    )
    cells = [
        (
            _share(one.importance),
            _share(one.s),
            _us(one.bound_us),
            _us(one.median_us),
            _share(one.recoverable),
            f"{one.shapes_passed}/{one.shapes}",
            _share(one.published_s),
            one.operator,
            ", ".join(f"{name} {n}" for name, n in one.best.items()),
        )
        for one in found.operators
    ]
    title = f"{found.device}, suite {found.suite}, {found.method}: {', '.join(found.solutions)}"
    public = found.suite == DEFAULT_SUITE
    whose = "production's GPU time" if public else "the time that the suite's weights represent"
    notes = [
        f"S over {_share(found.covered)} of the importance: {_share(found.weighted_s)}; "
        f"with 0 for the rest {_share(found.weighted_s_all)}",
        f"recoverable: {_share(found.recoverable)} of {whose} at the bound",
    ]
    if found.weighted_s is None:
        notes = [_no_score(found)]
    shown = table(columns, cells, screen.width)
    return [heading(title), shown, Text(""), *map(Text, notes)]


def _no_score(found: Score) -> str:
    """Why there is no S."""
    if not any(one.shapes_passed for one in found.operators):
        return "no S: no shape passed and was timed"
    return (
        f"no S: no bound is known for {found.device} (solscope hardware lists the GPUs that have "
        "one); bench compare sets two solutions side by side without"
    )


@form("bench_compare", Contrast)
def contrast_parts(found: Contrast, screen: Screen) -> list[Printable]:
    """B against A: over all, and by shape."""
    several = len(found.a) + len(found.b) > 2
    columns = (
        Column("B / A"),
        Column("95 %", text=True, spare=1),
        Column("A µs", spare=2),
        Column("B µs", spare=2),
        Column("B is", text=True),
        Column("shape"),
        Column("operator", text=True),
        *(Column(name, text=True, spare=3) for name in ("A by", "B by") if several),
    )
    cells = [
        (
            f"{one.ratio:.3f}",
            f"{one.low:.3f} to {one.high:.3f}",
            _us(one.a_us),
            _us(one.b_us),
            one.verdict,
            one.shape,
            one.operator,
            *((one.a_solution, one.b_solution) if several else ()),
        )
        for one in found.shapes
    ]
    what = f"{found.device}, suite {found.suite}, {found.method}"
    title = f"{what}: A {', '.join(found.a)}; B {', '.join(found.b)}"
    notes = [
        f"over all, by importance: B / A = {found.ratio:.3f} ({found.low:.3f} to "
        f"{found.high:.3f}): {found.verdict}",
        f"{counted(len(found.shapes), 'shape')}: {found.faster} faster, {found.slower} slower, "
        f"{found.cannot_tell} cannot tell; only in A {found.only_a}, only in B {found.only_b}",
    ]
    if found.uneven:
        notes.append(
            f"on {counted(found.uneven, 'shape')} A and B have other solutions, and the best of "
            "more is faster: --solution-a and --solution-b compare single ones"
        )
    if found.cannot_tell:
        notes.append(f"cannot tell: the interval reaches into 1 ± {RESOLUTION:.2f}")
    single = sum(min(one.processes) == 1 for one in found.shapes)
    if single:
        notes.append(
            f"{counted(single, 'shape')} timed in one process on a side: intervals are "
            f"{100 * ONE_PROCESS:.0f} % wider; --restarts 3 makes them narrow"
        )
    shown = table(columns, cells, screen.width)
    return [heading(title), shown, Text(""), *map(Text, notes)]


@form("bench_leaderboard", Leaderboard)
def leaderboard_parts(found: Leaderboard, screen: Screen) -> list[Printable]:
    """Solutions over all, then S by operator."""
    overall = table(
        (
            *numbers("S", "of importance", "passed", "failed", "fastest on"),
            Column("solution", text=True),
        ),
        [
            (
                _share(one.weighted_s),
                _share(one.covered),
                str(one.shapes_passed),
                str(one.shapes_failed),
                str(one.wins),
                one.solution,
            )
            for one in found.entries
        ],
        screen.width,
    )
    names = [one.solution for one in found.entries]
    by_operator = table(
        (
            *numbers("importance", "best"),
            *(Column(name, spare=at) for at, name in enumerate(names)),
            Column("operator", text=True),
        ),
        [
            (
                _share(one.importance),
                _share(one.s),
                *(_share(entry.operators.get(one.operator)) for entry in found.entries),
                one.operator,
            )
            for one in found.best.operators
        ],
        screen.width,
    )
    title = f"{found.device}, suite {found.suite}, {found.method}"
    notes = [
        f"best of all per shape: S {_share(found.best.weighted_s)}",
        "in the order of S times the importance it covers",
    ]
    if any(
        (entry.operators.get(one.operator) or 0.0) > (one.s or 0.0)
        for one in found.best.operators
        for entry in found.entries
    ):
        notes.append("S of a solution is over the shapes it passed: best, over more, can be lower")
    lines = [*map(Text, notes)]
    return [heading(title), overall, Text(""), by_operator, Text(""), *lines]
