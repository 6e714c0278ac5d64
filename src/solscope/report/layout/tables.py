"""What all terminal reports share: safe text, short names, tables, bars.

The same parts become Markdown (`report/markdown.py`), rendered with `WIDE` so that nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from solscope.report.layout.lines import Cell, Group, Printable, Text, cell_width, row_lines
from solscope.text import clean, shorten

if TYPE_CHECKING:
    from solscope.profile import ProfileWarning


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    text: bool = False
    """Left-aligned text; else a right-aligned number."""
    spare: int = 0
    """Where the terminal is too narrow, columns with the highest number here are left out first.

    Those with 0 stay. Those with 1 are worth more than a few more letters of a name: they leave
    only when names have less than `LEAST_FOR_NAMES`. A note below the table says what is missing.
    """
    style: str | Callable[[str], str] = ""
    """Style of its cells, or of a cell with this text, where there are colors."""
    code: bool = False
    """Names from a profile: code in Markdown, where nothing in them means anything."""
    gives: bool = False
    """This column gives way, wherever it stands; with `spare`, it leaves before it is too short."""
    label: bool = False
    """The heading names a profile and may be longer than the numbers below: it is shortened before
    any other text."""


def numbers(*headings: str | tuple[str, int]) -> list[Column]:
    """Columns of numbers; a heading with a number has that `spare`, and others stay."""
    described = ((heading, 0) if isinstance(heading, str) else heading for heading in headings)
    return [Column(heading, spare=spare) for heading, spare in described]


class Sheet:
    """A table without lines that keeps its source rows."""

    def __init__(
        self,
        described: Sequence[Column],
        given: Sequence[Sequence[str]],
        hidden: Sequence[str],
        rows: Sequence[Sequence[Cell]],
    ) -> None:
        self.described = described
        self.given = given
        self.hidden = hidden
        """Headings of the columns that the terminal has no room for."""
        self.rows = rows
        """Headings and rows as they are shown."""
        self.show_header = True

    def lines(self, _width: int, color: bool) -> list[str]:
        """Its lines; `table` has made them fit."""
        shown = self.rows if self.show_header else self.rows[1:]
        return [line for row in shown for line in row_lines(row, color)]


ROOM_FOR_NAMES = 28
"""Columns are left out until the one that gives way has at least this much room."""
LEAST_FOR_NAMES = 16
"""The same for columns that are left out last."""
LEAST = 8
"""No text is made shorter than this."""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, *, whole: bool = False
) -> Sheet:
    """A table without lines that fits `width`: one column gives way, shortened in its middle.

    That is the one that says so, or the last one with text (numbers are never cut), or the last one
    where none has text.
    `whole` wraps it instead of shortening it. Other texts give way only where nothing else is left.
    """
    given = [list(row) for row in rows]
    cells = [[clean(cell) for cell in row] for row in given]
    widths, giving = _fitting(columns, cells, width)
    shown = [[row[index] for index in widths] for row in given]
    hidden = [column.heading for index, column in enumerate(columns) if index not in widths]
    wrapped = giving if whole else None
    heads = [
        Cell(
            _heading(columns[index], size),
            "bold",
            size,
            left=columns[index].text,
            wrap=index == wrapped,
        )
        for index, size in widths.items()
    ]
    body = [
        [
            _cell(columns[index], row[index], size, wrap=index == wrapped)
            for index, size in widths.items()
        ]
        for row in cells
    ]
    return Sheet([columns[index] for index in widths], shown, hidden, [heads, *body])


def _heading(column: Column, size: int) -> str:
    text = clean(column.heading)
    return shorten(text, size) if column.label and cell_width(text) > size else text


def _cell(column: Column, text: str, size: int, *, wrap: bool) -> Cell:
    if cell_width(text) > size and not wrap:
        text = shorten(text, size)
    return Cell(text, _style(column, text), size, left=column.text, wrap=wrap)


def _style(column: Column, cell: str) -> str:
    return column.style if isinstance(column.style, str) else column.style(cell)


def _column_width(columns: Sequence[Column], cells: list[list[str]], index: int) -> int:
    return max([cell_width(columns[index].heading), *(cell_width(row[index]) for row in cells)])


def _giving(columns: Sequence[Column], left: Iterable[int]) -> int:
    """The column that gives way first."""
    there = list(left)
    texts = [index for index in there if columns[index].text and not columns[index].spare]
    return next((index for index in there if columns[index].gives), (texts or there)[-1])


def _fitting(
    columns: Sequence[Column], cells: list[list[str]], width: int
) -> tuple[dict[int, int], int]:
    """Indices of the columns that fit, with their widths; and which of them gave way."""
    widths = {index: _column_width(columns, cells, index) for index in range(len(columns))}
    while True:
        giving = _giving(columns, widths)
        room = width - sum(size + 2 for index, size in widths.items() if index != giving)
        spare = max(widths, key=lambda index: columns[index].spare)
        wanted = LEAST_FOR_NAMES if columns[spare].spare == 1 else ROOM_FOR_NAMES
        if room >= min(wanted, widths[giving]) or not columns[spare].spare:
            break
        # Columns of one heading, as the shares of two profiles, leave together.
        for index in [index for index in widths if columns[index] == columns[spare]]:
            del widths[index]
    room += _shorten_labels(columns, cells, widths, min(ROOM_FOR_NAMES, widths[giving]) - room)
    texts = [index for index in widths if columns[index].text and index != giving]
    while texts and room < min(LEAST, widths[giving]):
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
        room += 1
    return widths | {giving: min(widths[giving], max(room, LEAST))}, giving


def _shorten_labels(
    columns: Sequence[Column], cells: list[list[str]], widths: dict[int, int], wanted: int
) -> int:
    """Narrow columns whose heading is a label, evenly, down to their cells; the room it gives."""
    least = {
        index: max([LEAST, *(cell_width(row[index]) for row in cells)])
        for index in widths
        if columns[index].label
    }
    given = 0
    while given < wanted and (wide := [index for index in least if widths[index] > least[index]]):
        index = max(wide, key=lambda index: widths[index])
        widths[index] -= 1
        if len({_heading(columns[index], widths[index]) for index in least}) < len(least):
            widths[index] += 1  # Labels that look the same say nothing.
            break
        given += 1
    return given


def listing(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Group:
    """Like `table`, but the last column of each row gets its own line, in full."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [_column_width(columns, cells, index) for index in range(len(columns) - 1)]

    def line(row: Sequence[str]) -> str:
        pairs = zip(columns[:-1], row[:-1], widths, strict=True)
        return "  ".join(c.ljust(w) if col.text else c.rjust(w) for col, c, w in pairs).rstrip()

    parts = [Text(line([column.heading for column in columns]), style="bold")]
    for row in cells:
        name = Text(f"    {row[-1]}", wrap=False)
        parts += [Text(line(row), style="bold"), name]
    return Group(*parts)


BAR_WIDTH = 12
"""Cells of a bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float | None, cells: int = BAR_WIDTH) -> str:
    """A share in percent as a bar of up to `cells` cells, to an eighth of one."""
    eighths = round(8 * cells * min(max(share or 0.0, 0.0), 100.0) / 100)
    whole, eighth = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[eighth] if eighth else "")


def with_bars(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    shares: Sequence[float | None],
    *,
    at: int,
    draw: bool,
    cells: int = BAR_WIDTH,
    spare: int = 3,
) -> tuple[list[Column], list[list[str]]]:
    """The same with a column of bars before column `at`; as it is where nothing can be drawn.

    Rows beyond the last share have no bar.
    """
    if not draw:
        return list(columns), [list(row) for row in rows]
    bars = [bar(share, cells) for share in shares] + [""] * (len(rows) - len(shares))
    bar_column = Column("", text=True, spare=spare, style="cyan")
    return (
        [*columns[:at], bar_column, *columns[at:]],
        [[*row[:at], drawn, *row[at:]] for row, drawn in zip(rows, bars, strict=True)],
    )


def heading(text: str) -> Text:
    """A line above a table."""
    return Text(clean(text), style="bold cyan")


def warning_lines(warnings: Sequence[ProfileWarning]) -> list[Printable]:
    """One line per warning, wrapped by the console."""
    return [
        Text.assemble(
            ("warning ", "bold yellow"), (f"{clean(w.code)}: ", "yellow"), clean(w.message)
        )
        for w in warnings
    ]


def _with_notes(parts: Iterable[Printable], width: int) -> Iterator[Printable]:
    """The parts, with a line below each table that says which columns have no room."""
    for printable in parts:
        yield printable
        hidden = (
            dict.fromkeys(filter(None, printable.hidden)) if isinstance(printable, Sheet) else ()
        )
        if hidden:
            yield Text(f"columns left out at {width}: {clean(', '.join(hidden))}", style="dim")


WIDE = 100_000
"""A width at which nothing is shortened or left out."""


def to_text(parts: Iterable[Printable], width: int, color: bool) -> str:
    """Render to a string of the given width, with or without colors."""
    lines = Group(*_with_notes(parts, width)).lines(width, color)
    return "\n".join(lines) + "\n"
