"""Parts of a report as Markdown that can be pasted into an issue: as GitHub reads it.

Text from a profile stays text: what would be a link, an entity, a tag, emphasis or the end of a
cell is escaped, and names are code, in which nothing means anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from solscope.patterns import lazy_pattern
from solscope.report.layout.lines import Group, Printable, Text
from solscope.report.layout.tables import Column, Sheet
from solscope.text import clean

_SPAN = lazy_pattern(r"(`[^`]+`)")
_MEANS = lazy_pattern(r"[\\`*~$|]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=[#\w])")
"""What means something in a line: an underscore only at the edge of a word."""
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


class Ready(str):
    """A cell that is Markdown already."""

    __slots__ = ()


def markdown_cell(text: str) -> str:
    """Text as the content of a cell or a line; indentation stays, and so does `code` in it."""
    if isinstance(text, Ready):
        return text
    plain = clean(text).rstrip()
    body = plain.lstrip()
    pieces = _SPAN.split(body)
    pieces[::2] = [_escaped(piece) for piece in pieces[::2]]
    pieces[1::2] = [_piped(piece) or _escaped(piece) for piece in pieces[1::2]]
    return "&nbsp;" * (len(plain) - len(body)) + "".join(pieces)


def markdown_code(name: str) -> Ready:
    """A name from a profile as code, whatever is in it."""
    plain = clean(name).strip()
    fence = "`" * (1 + _longest_fence(plain))
    pad = " " if "`" in (plain[:1], plain[-1:]) else ""
    span = _piped(f"{fence}{pad}{plain}{pad}{fence}")
    return Ready(_escaped(plain) if not plain or span is None else span)


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _block(text: str) -> list[str]:
    lines = [clean(line).rstrip() for line in text.strip().splitlines()]
    fence = "`" * max(3, 1 + _longest_fence(text))
    return [fence, *lines, fence]


def _escaped(text: str) -> str:
    escaped = _MEANS.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
    return escaped.replace("<", _ENTITIES["<"])


def _piped(code: str) -> str | None:
    """Code for a cell; null if it could end the cell."""
    return None if "\\|" in code else code.replace("|", "\\|")


def markdown_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    heads = " | ".join(markdown_cell(column.heading) for column in columns)
    rule = "|".join("---" if column.text else "--:" for column in columns)
    return [f"| {heads} |", f"|{rule}|", *(_row(columns, row) for row in rows)]


def _row(columns: Sequence[Column], row: Sequence[str]) -> str:
    cells = [
        markdown_code(cell) if column.code and not isinstance(cell, Ready) else markdown_cell(cell)
        for column, cell in zip(columns, row, strict=True)
    ]
    return "| " + " | ".join(cells) + " |"


def to_markdown(parts: Iterable[Printable]) -> str:
    """The parts of a report as Markdown: tables as tables, every other line as a paragraph.

    A text of several lines is laid out, and stays so as a block of code.
    """
    out: list[str] = []
    for printable in parts:
        if isinstance(printable, Sheet):
            out += ["", *markdown_table(printable.described, printable.given), ""]
        elif isinstance(printable, Group):
            out += ["", to_markdown(printable.parts), ""]
        elif "\n" in str(printable).strip():
            out += ["", *_block(str(printable)), ""]
        else:
            line = markdown_cell(str(printable))
            bold = isinstance(printable, Text) and "bold" in str(printable.style) and line
            out += [f"**{line}**" if bold else line, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"
