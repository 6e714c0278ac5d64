"""Parts of a report and how they become lines: wrapped, aligned, with or without colors.

Lines break where rich would break them. Reports do without rich, because importing it and laying
out one page with it takes longer than reading a small profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from solscope.patterns import lazy_pattern

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_NARROW = lazy_pattern("[ -~\xa1-\xac\xae-\u02ff\u2010-\u2027\u2190-\u22ff\u2500-\u259f]*")
"""Text of characters that each take one cell; all other text is measured by a table."""
_WORD = lazy_pattern(r"\s*\S+\s*")


class Printable(Protocol):
    """Something that can be printed."""

    def lines(self, width: int, color: bool, /) -> list[str]:
        """Its lines, for a terminal of this width."""


class Text:
    """A paragraph, wrapped between words."""

    def __init__(self, text: str = "", style: str = "", *, wrap: bool = True, indent: int = 0):
        self.pieces = [(text, style)]
        self.style = style
        self.wrap = wrap
        self.indent = indent
        """Spaces before every line."""

    @classmethod
    def assemble(cls, *pieces: str | tuple[str, str]) -> Text:
        """A paragraph of pieces with styles of their own."""
        text = cls()
        text.pieces = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        return text

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def lines(self, width: int, color: bool, /) -> list[str]:
        """Its lines, for a terminal of this width."""
        plain = str(self)
        wrapped, first = [], 0
        for line in plain.split("\n"):
            for start, end in self._cut(line, width - self.indent):
                wrapped.append(self._line(first + start, first + end, color))
            first += len(line) + 1
        return wrapped

    def _cut(self, line: str, width: int) -> Iterator[tuple[int, int]]:
        breaks = _breaks(line, width) if self.wrap else []
        for start, end in zip([0, *breaks], [*breaks, len(line)], strict=True):
            yield start, start + len(line[start:end].rstrip())

    def _line(self, start: int, end: int, color: bool) -> str:
        line, offset = " " * self.indent if end > start else "", 0
        for text, style in self.pieces:
            line += styled(text[max(start - offset, 0) : max(end - offset, 0)], style, color)
            offset += len(text)
        return line


class Group:
    """Parts one below the other."""

    def __init__(self, *parts: Printable) -> None:
        self.parts = parts

    def lines(self, width: int, color: bool, /) -> list[str]:
        """The lines of all parts."""
        return [line for printable in self.parts for line in printable.lines(width, color)]


class Cell:
    """Text in a column: cut with an ellipsis where it is too long, or wrapped."""

    def __init__(self, text: str, style: str, width: int, *, left: bool, wrap: bool) -> None:
        self.width = width
        self.style = style
        self.left = left
        self.texts = _folded(text, width) if wrap else [_cut_off(text, width)]

    def line(self, row: int, color: bool) -> str:
        """Line `at` of the cell, as wide as the column."""
        text = self.texts[row] if row < len(self.texts) else ""
        text = text if self.left else text.rstrip()
        pad = " " * (self.width - cell_width(text))
        shown = styled(text, self.style, color)
        return shown + pad if self.left else pad + shown


def row_lines(cells: Sequence[Cell], color: bool) -> list[str]:
    """The lines of a row: as many as its highest cell has."""
    height = max((len(cell.texts) for cell in cells), default=1)
    return ["  ".join(cell.line(row, color) for cell in cells).rstrip(" ") for row in range(height)]


def styled(text: str, style: str, color: bool) -> str:
    """`text` with the codes of a style such as `bold yellow`."""
    if not (text and style and color):
        return text
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def cell_width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    if _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cut_off(text: str, width: int) -> str:
    if cell_width(text) <= width:
        return text
    if _NARROW.fullmatch(text):
        return f"{text[: width - 1]}…"
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1)}…"


def _chopped(word: str, width: int) -> list[str]:
    if _NARROW.fullmatch(word):
        return [word[start : start + width] for start in range(0, len(word), width)]
    from rich.cells import chop_cells

    return chop_cells(word, width)


def _folded(text: str, width: int) -> list[str]:
    breaks = _breaks(text, width)
    return [
        text[start:end].rstrip()
        for start, end in zip([0, *breaks], [*breaks, len(text)], strict=True)
    ]


def _breaks(text: str, width: int) -> list[int]:
    """Where to break a line: between words, and in words that are longer than a line."""
    breaks: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        start, word = match.start(), match[0]
        needed = cell_width(word.rstrip())
        if needed <= width - used:
            used += cell_width(word)
        elif needed > width:
            *full, last = _chopped(word, width)
            for piece in full:
                breaks.append(start)
                start += len(piece)
            breaks.append(start)
            used = cell_width(last)
        elif used and start:
            breaks.append(start)
            used = cell_width(word)
    return [position for position in breaks if position]
