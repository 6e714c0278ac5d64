"""`solscope bench tune`: the newest attempt by shape, and the attempts before it."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.bench.results.attempts import Attempt, TunedShape, Tuning
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.text import clean


@form("bench_tune", Tuning)
def tuning_parts(tuning: Tuning, screen: Screen) -> list[Printable]:
    """The newest attempt by shape, then the last attempts, then what the numbers cannot say."""
    covered = pct(100 * tuning.covered_weight)
    title = (
        f"{tuning.operator} by {tuning.solution} on {tuning.device}, {tuning.method}: "
        f"{len(tuning.shapes)} shape{'s' * (len(tuning.shapes) != 1)}, {covered} of its time"
    )
    newest = tuning.attempts[0]
    reasons = [] if newest.reason is None else [Text(clean(newest.reason)), Text("")]
    return [
        heading(title),
        _shapes(tuning, screen),
        Text(""),
        *reasons,
        _attempts(tuning, screen),
        Text(""),
        *(Text(note) for note in (*_means(tuning), *tuning.notes)),
    ]


def _shapes(tuning: Tuning, screen: Screen) -> Printable:
    columns = (
        Column("shape", text=True),
        *numbers(("weight", 3), "now µs", ("bound µs", 2), "S", ("best µs", 1), "now / best"),
        Column("by", text=True, spare=4),
        Column("now / last"),
        Column("status", text=True),
    )
    return _known(columns, [_shape_cells(shape) for shape in tuning.shapes], screen)


def _known(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: Screen) -> Printable:
    """A table without the columns of which nothing is known, as bounds of a CPU."""
    kept = [index for index in range(len(columns)) if any(row[index] != "-" for row in rows)]
    return table(
        [columns[index] for index in kept],
        [[row[index] for index in kept] for row in rows],
        screen.width,
    )


def _shape_cells(shape: TunedShape) -> tuple[str, ...]:
    last = _ratio(shape.of_last)
    if shape.change == "cannot tell":
        last = f"~{last}"
    return (
        shape.shape,
        _share(shape.weight),
        _us(shape.median_us),
        _us(shape.bound_us),
        _share(shape.s),
        _us(shape.best_us),
        _ratio(shape.of_best),
        shape.best_by or "-",
        last,
        shape.status,
    )


def _attempts(tuning: Tuning, screen: Screen) -> Printable:
    columns = (
        Column("attempt"),
        Column("UTC", text=True, spare=1),
        *numbers("S", "mean µs"),
        Column("result", text=True),
    )
    cells = [
        (
            str(attempt.number),
            attempt.time[11:19],
            _share(attempt.s),
            _us(attempt.mean_us),
            _result(attempt),
        )
        for attempt in tuning.attempts
    ]
    return _known(columns, cells, screen)


def _means(tuning: Tuning) -> list[str]:
    """What the mean of an attempt is over, where that is not a single shape."""
    if len(tuning.shapes) == 1 or all(attempt.mean_us is None for attempt in tuning.attempts):
        return []
    return ["mean µs: over these shapes, weighted by their calls"]


def _result(attempt: Attempt) -> str:
    """The status; of one that passed, what changed."""
    if attempt.status != "passed" or attempt.change is None:
        return attempt.status
    said = {"mixed": "faster on some shapes, slower on others, than"}
    words = said.get(attempt.change, f"{attempt.change} than")
    if attempt.change == "cannot tell":
        words = "no difference can be told from"
    return f"passed, {words} {attempt.against}"


def _us(value: float | None) -> str:
    return "-" if value is None else number(value, 2 if value < 1000 else 0)


def _share(value: float | None) -> str:
    return pct(None if value is None else 100 * value)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
