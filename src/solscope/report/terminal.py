"""What all terminal reports share: safe text, short names, numbers with units, tables, bars.

The same parts become Markdown (`report/markdown.py`), rendered with `WIDE` so that nothing is cut.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solscope.text import clean, percent, shorten

if TYPE_CHECKING:
    from solscope.profile import ProfileWarning


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separators; `-` for what does not exist."""
    return "-" if value is None else f"{value:,.{digits}f}"


def pct(value: float | None) -> str:
    """A percentage with one decimal; `-` for what does not exist."""
    return "-" if value is None else percent(value)


def share_known(value: float | None) -> str:
    """A share of what is known: "100.0 %" only when nothing at all is missing."""
    return pct(value if value is None or value == 100 else min(value, 99.9))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 step`, `2 steps`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def mean_count(value: float | None) -> str:
    """A mean of counts: whole numbers without decimals."""
    return number(value, 0 if value is not None and float(value).is_integer() else 1)


def micro(value_ns: float | None) -> str:
    """Nanoseconds as microseconds."""
    return "-" if value_ns is None else f"{value_ns / 1e3:,.2f}"


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    text: bool = False
    """Left-aligned text; else a right-aligned number."""
    spare: int = 0
    """Columns with the highest number here are left out first when the terminal is too narrow."""
    style: str | Callable[[str], str] = ""
    """Style of its cells, or of a cell with this text, where there are colors."""
    code: bool = False
    """Names from a profile: code in Markdown, where nothing in them means anything."""


class Sheet(Table):
    """A table without lines that keeps its source rows."""

    def __init__(
        self, described: Sequence[Column], given: Sequence[Sequence[str]], hidden: Sequence[str]
    ) -> None:
        super().__init__(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False
        )
        self.described = described
        self.given = given
        self.hidden = hidden
        """Headings of the columns that the terminal has no room for."""


ROOM_FOR_NAMES = 28
"""Columns are left out until the one that gives way has at least this much room."""
LEAST = 8
"""No text is made shorter than this."""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, *, whole: bool = False
) -> Sheet:
    """A table without lines that fits `width`: one column gives way, shortened in its middle.

    That is the last one with text (numbers are never cut), or the last one where none has text.
    `whole` wraps it instead of shortening it. Other texts give way only where nothing else is left.
    """
    given = [list(row) for row in rows]
    cells = [[clean(cell) for cell in row] for row in given]
    texts = (at for at, column in enumerate(columns) if column.text and not column.spare)
    giving = max(texts, default=len(columns) - 1)
    widths = _fitting(columns, cells, giving, width)
    shown = [[row[at] for at in widths] for row in given]
    hidden = [column.heading for at, column in enumerate(columns) if at not in widths]
    out = Sheet([columns[at] for at in widths], shown, hidden)
    for at, size in widths.items():
        wraps = whole and at == giving
        out.add_column(
            Text(clean(columns[at].heading)),
            justify="left" if columns[at].text else "right",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            min_width=size,
            max_width=size,
        )
    for row in cells:
        for at, size in widths.items():
            if cell_len(row[at]) > size and not (whole and at == giving):
                row[at] = shorten(row[at], size)
        out.add_row(*(Text(row[at], style=_style(columns[at], row[at])) for at in widths))
    return out


def no_room(*tables: Sheet) -> list[Text]:
    """What was asked for and is not shown, for tables whose columns are what is compared."""
    hidden = dict.fromkeys(name for one in tables for name in one.hidden)
    return (
        [Text(f"columns that do not fit: {', '.join(hidden)} (widen the terminal)")]
        if hidden
        else []
    )


def _style(column: Column, cell: str) -> str:
    return column.style if isinstance(column.style, str) else column.style(cell)


def _column_width(columns: Sequence[Column], cells: list[list[str]], at: int) -> int:
    return max([cell_len(columns[at].heading), *(cell_len(row[at]) for row in cells)])


def _fitting(
    columns: Sequence[Column], cells: list[list[str]], giving: int, width: int
) -> dict[int, int]:
    """Indices of the columns that fit, with their widths; the column `giving` gives way first."""
    widths = {at: _column_width(columns, cells, at) for at in range(len(columns))}
    while True:
        room = width - sum(size + 2 for at, size in widths.items() if at != giving)
        spare = max(widths, key=lambda at: columns[at].spare)
        if room >= min(ROOM_FOR_NAMES, widths[giving]) or not columns[spare].spare:
            break
        del widths[spare]
    texts = [at for at in widths if columns[at].text and at != giving]
    while texts and room < min(LEAST, widths[giving]):
        widest = max(texts, key=lambda at: widths[at])
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
        room += 1
    return widths | {giving: min(widths[giving], max(room, LEAST))}


def listing(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Group:
    """Like `table`, but the last column of each row gets its own line, in full."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [_column_width(columns, cells, at) for at in range(len(columns) - 1)]

    def line(row: Sequence[str]) -> str:
        pairs = zip(columns[:-1], row[:-1], widths, strict=True)
        return "  ".join(c.ljust(w) if col.text else c.rjust(w) for col, c, w in pairs).rstrip()

    parts = [Text(line([column.heading for column in columns]), style="bold")]
    for row in cells:
        name = Text(f"    {row[-1]}", no_wrap=True, overflow="ignore")
        parts += [Text(line(row), style="bold"), name]
    return Group(*parts)


BAR_WIDTH = 12
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float | None, cells: int = BAR_WIDTH) -> str:
    """A share in percent as a bar of up to `cells` cells, to an eighth of one."""
    eighths = round(8 * cells * min(max(share or 0.0, 0.0), 100.0) / 100)
    whole, part = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[part] if part else "")


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
    one = Column("", text=True, spare=spare, style="cyan")
    return (
        [*columns[:at], one, *columns[at:]],
        [[*row[:at], drawn, *row[at:]] for row, drawn in zip(rows, bars, strict=True)],
    )


def heading(text: str) -> Text:
    """A line above a table."""
    return Text(clean(text), style="bold cyan")


def warning_lines(warnings: Sequence[ProfileWarning]) -> list[RenderableType]:
    """One line per warning, wrapped by the console."""
    return [
        Text.assemble(
            ("warning ", "bold yellow"), (f"{clean(w.code)}: ", "yellow"), clean(w.message)
        )
        for w in warnings
    ]


WIDE = 100_000
"""A width at which nothing is shortened or left out."""


def to_text(parts: Iterable[RenderableType], width: int, color: bool) -> str:
    """Render to a string of the given width, with or without colors."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        color_system="standard" if color else None,
        legacy_windows=False,
    )
    console.print(Group(*parts), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
