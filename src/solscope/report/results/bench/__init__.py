"""`solscope bench`: in the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from solscope.bench.audit import Audit
from solscope.bench.base import FAILURES, SCALED, ShapeResult
from solscope.bench.results import words
from solscope.bench.results.contrast import (
    ONE_PROCESS,
    OTHER_MACHINE,
    RESOLUTION,
    Contrast,
    ShapeContrast,
)
from solscope.bench.results.leaderboard import Leaderboard
from solscope.bench.results.score import ResultSet, Score
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted, number, pct
from solscope.report.layout.tables import WIDE, Column, heading, numbers, table
from solscope.report.results.bench import counters as counters
from solscope.report.results.bench import tune as tune
from solscope.text import clean, in_words

MOST_FINDINGS = 40
"""How many findings of `verify` are printed; JSON has them all."""
ROOMY = 150
"""Columns from which on all solutions that are fastest somewhere are named, not the first one."""
MOST_UNDECIDED = 20
"""How many shapes of `compare` are printed that are neither faster nor slower."""
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
        *numbers("median µs", ("p20", 4), ("p80", 4), ("graph µs", 3), ("bound µs", 2), "S"),
        Column("why", text=True),
    )
    cells = [
        (
            r.operator,
            shape,
            r.solution,
            r.status,
            _us(r.median_us),
            _us(r.p20_us),
            _us(r.p80_us),
            _us(graph[1].median_us if (graph := r.by("graph")) else None),
            _us(r.bound_us),
            _share(r.s),
            r.reason or "; ".join(r.notes),
        )
        for shape, r in _declined_once(results)
    ]
    filled = [
        index
        for index, column in enumerate(columns)
        if column.text or any(row[index] != "-" for row in cells)
    ]
    shown = table(
        [columns[index] for index in filled],
        [[row[index] for index in filled] for row in cells],
        screen.width,
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
        notes.append(Text(SCALED))
    return [shown, Text(""), *_reasons(results), *notes]


def _declined_once(results: Sequence[ShapeResult]) -> list[tuple[str, ShapeResult]]:
    """The results, each with its shape; those that are unsupported for one reason once."""
    alike: dict[tuple[str, str, str | None], list[ShapeResult]] = {}
    for result in results:
        if result.status == "unsupported":
            alike.setdefault((result.operator, result.solution, result.reason), []).append(result)
    once = {id(same[0]): f"{len(same)} shapes" for same in alike.values() if len(same) > 1}
    again = {id(result) for same in alike.values() for result in same[1:]}
    return [(once.get(id(r), r.shape), r) for r in results if id(r) not in again]


def _reasons(results: Sequence[ShapeResult]) -> list[Printable]:
    """Why each solution failed at an operator, in full, where the table has no room for it."""
    first: dict[tuple[str, str], ShapeResult] = {}
    for result in results:
        if result.status in FAILURES and result.reason:
            first.setdefault((result.operator, result.solution), result)
    lines = [
        clean(f"{result.solution} at {result.operator}, shape {result.shape}: {result.reason}")
        for result in list(first.values())[:REASONS]
    ]
    return [*map(Text, lines), Text("")] if lines else []


@form("bench_score", Score)
def score_parts(score: Score, screen: Screen) -> list[Printable]:
    """S per operator, and over all."""
    columns = (
        *numbers("importance", "S", ("bound µs", 3), ("best µs", 2)),
        *numbers("above bound", "passed", ("published S", 4)),
        Column("operator", text=True),
        Column("fastest", text=True, spare=1),
    )
    every = screen.width >= ROOMY
    cells = [
        (
            _share(row.importance),
            _share(row.s),
            _us(row.bound_us),
            _us(row.median_us),
            _share(row.recoverable),
            f"{row.shapes_passed}/{row.shapes}",
            _share(row.published_s),
            row.operator,
            ", ".join([f"{name} {n}" for name, n in row.best.items()][: None if every else 1]),
        )
        for row in score.operators
    ]
    title = f"{_set(score)}: {', '.join(score.solutions)}"
    notes = [_no_score(score)]
    if score.weighted_s is not None:
        where = "these operators" if score.only else "all"
        notes = [*_said(score), f"above the bound in {where}: {_share(score.recoverable)}"]
        notes.append(words.legend(score))
    shown = table(columns, cells, screen.width)
    return [heading(title), shown, Text(""), *map(Text, notes)]


def _set(results: ResultSet) -> str:
    """What results are of."""
    only = f", only {in_words(results.only)}" if results.only else ""
    return f"{results.device}, suite {results.suite}{only}, {results.method}"


def _said(score: Score) -> list[str]:
    """The answer, and where to work first."""
    return [line for line in (words.sentence(score), words.advice(score)) if line is not None]


def _no_score(score: Score) -> str:
    """Why there is no S."""
    if not any(operator.shapes_passed for operator in score.operators):
        return "no S: no shape passed and was timed"
    return (
        f"no S: no bound is known for {score.device} (solscope hardware lists the GPUs that have "
        "one); bench compare sets two solutions side by side without"
    )


@form("bench_verify", Audit)
def audit_parts(audit: Audit, screen: Screen) -> list[Printable]:
    """What is wrong, line by line, and how many lines could be checked."""
    columns = (
        Column("line"),
        Column("what", text=True),
        Column("operator", text=True),
        Column("shape", text=True),
        Column("solution", text=True, spare=1),
        Column("file", text=True, spare=2),
    )
    cells = [
        (
            str(finding.line),
            clean(finding.what),
            finding.operator,
            finding.shape,
            finding.solution,
            finding.file,
        )
        for finding in audit.findings[:MOST_FINDINGS]
    ]
    parts: list[Printable] = [table(columns, cells, screen.width), Text("")] if cells else []
    left = len(audit.findings) - len(cells)
    notes = [f"and {left} more; --json has them all"] if left else []
    notes.append(
        f"{counted(audit.lines, 'line')}: {audit.intact:,} as written, {audit.no_digest:,} with no "
        f"digest, {len({(finding.file, finding.line) for finding in audit.findings})} with findings"
    )
    if audit.other_solution:
        notes.append(
            f"{counted(audit.other_solution, 'line')} of a built-in solution that has changed since"
        )
    return [*parts, *map(Text, notes)]


@form("bench_compare", Contrast)
def contrast_parts(contrast: Contrast, screen: Screen) -> list[Printable]:
    """B against A: the verdict over all, then by shape, then what the numbers cannot say."""
    several = len(contrast.a) + len(contrast.b) > 2
    shown_shapes, left = _decided_first(contrast, screen)
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
            f"{shape.ratio:.3f}",
            f"{shape.low:.3f} to {shape.high:.3f}",
            _us(shape.a_us),
            _us(shape.b_us),
            shape.verdict,
            shape.shape,
            shape.operator,
            *((shape.a_solution, shape.b_solution) if several else ()),
        )
        for shape in shown_shapes
    ]
    title = f"{_set(contrast)}: A {', '.join(contrast.a)}; B {', '.join(contrast.b)}"
    notes = []
    if left:
        notes.append(f"and {counted(left, 'shape')} that cannot be told; --json has them all")
    if contrast.uneven:
        notes.append(
            f"on {counted(contrast.uneven, 'shape')} A and B have other solutions, and the best of "
            "more is faster: --solution-a and --solution-b compare single ones"
        )
    if contrast.cannot_tell:
        notes.append(f"cannot tell: the interval reaches into 1 ± {RESOLUTION:.2f}")
    single = sum(min(shape.processes) == 1 for shape in contrast.shapes)
    if single:
        notes.append(
            f"{counted(single, 'shape')} timed in one process on a side: intervals are "
            f"{100 * ONE_PROCESS:.0f} % wider; --restarts 3 makes them narrow"
        )
    apart = sum(shape.other_machine and min(shape.processes) > 1 for shape in contrast.shapes)
    if apart:
        notes.append(
            f"{counted(apart, 'shape')} timed in two runs that may be of two machines: intervals "
            f"are {100 * OTHER_MACHINE:.1f} % wider; one run of both solutions makes them narrow"
        )
    shown = table(columns, cells, screen.width)
    below = [Text(""), *map(Text, notes)] if notes else []
    return [heading(title), Text(contrast.sentence), Text(""), shown, *below]


def _decided_first(contrast: Contrast, screen: Screen) -> tuple[list[ShapeContrast], int]:
    """Shapes that are faster or slower, then others, the heaviest; and how many are left out."""
    decided = [shape for shape in contrast.shapes if shape.verdict != "cannot tell"]
    others = [shape for shape in contrast.shapes if shape.verdict == "cannot tell"]
    most = len(others) if screen.width >= WIDE else MOST_UNDECIDED
    return [*decided, *others[:most]], max(0, len(others) - most)


_WHO = tuple(
    column for name in ("first", "next") for column in (Column(name, text=True), Column("its S"))
)


def _first_two(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """The two solutions with the highest S, each with its own."""
    two = (*ranked, ("-", None), ("-", None))[:2]
    return [cell for name, s in two for cell in (name, _share(s))]


@form("bench_leaderboard", Leaderboard)
def leaderboard_parts(board: Leaderboard, screen: Screen) -> list[Printable]:
    """Solutions over all, then S by operator."""
    overall = table(
        (
            *numbers("S", "covered", "S covered", "passed", "failed"),
            Column("declined", spare=2),
            Column("fastest on", spare=1),
            Column("solution", text=True),
        ),
        [
            (
                _share(entry.weighted_s),
                _share(entry.covered),
                _share(entry.s_covered),
                str(entry.shapes_passed),
                str(entry.shapes_failed),
                str(entry.shapes_unsupported + entry.declined),
                str(entry.wins),
                entry.solution,
            )
            for entry in board.entries
        ],
        screen.width,
    )
    names = [entry.solution for entry in board.entries]
    several = len(names) > 1
    by_operator = table(
        (
            *numbers("importance", ("best", 1)),
            *(_WHO if several else ()),
            *(Column(name, spare=index) for index, name in enumerate(names, start=2)),
            Column("operator", text=True),
        ),
        [
            (
                _share(scored.importance),
                _share(scored.s),
                *(_first_two(board.ranked(scored.operator)) if several else ()),
                *(_share(entry.operators.get(scored.operator)) for entry in board.entries),
                scored.operator,
            )
            for scored in board.best.operators
        ],
        screen.width,
    )
    whole = f"{in_words(board.only)} alone" if board.only else "the whole suite"
    notes = [
        *_said(board.best),
        f"S: over {whole}, 0 for what did not pass; S covered: over what passed",
    ]
    if several:
        notes.append(
            "first, next: the solutions with the highest S of their own; best: S of the fastest "
            "solution of each shape, which may be another on each"
        )
    if any(entry.shapes_unsupported or entry.declined for entry in board.entries):
        notes.append("declined: shapes and extra cases that a solution does not take")
    lines = [*map(Text, notes)]
    return [heading(_set(board)), overall, Text(""), by_operator, Text(""), *lines]
