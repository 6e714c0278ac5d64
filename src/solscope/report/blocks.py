"""Tables that can be printed in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from solscope.report.terminal import Column, heading, table
from solscope.text import clean


class Block(NamedTuple):
    """One table, whatever it is printed as."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def block_text(block: Block, width: int) -> list[RenderableType]:
    """The block for the terminal, after an empty line."""
    return [Text(""), heading(block.title), table(block.columns, block.rows, width)]


def block_markdown(block: Block) -> list[str]:
    """The block as lines of Markdown, after an empty line."""
    heads = " | ".join(markdown_cell(column.heading) for column in block.columns)
    rule = "|".join("---" if column.text else "--:" for column in block.columns)
    rows = ["| " + " | ".join(map(markdown_cell, row)) + " |" for row in block.rows]
    return ["", f"**{markdown_cell(block.title)}**", "", f"| {heads} |", f"|{rule}|", *rows]


def markdown_cell(text: str) -> str:
    """Text that cannot end its cell or start a tag."""
    return clean(text).replace("|", "\\|").replace("<", "&lt;")
