"""Tables that can be printed in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import markdown_cell, markdown_table
from solscope.report.layout.tables import Column, heading, table


class Block(NamedTuple):
    """One table, whatever it is printed as."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def block_text(block: Block, width: int) -> list[Printable]:
    """The block for the terminal, after an empty line."""
    return [Text(""), heading(block.title), table(block.columns, block.rows, width)]


def block_markdown(block: Block) -> list[str]:
    """The block as lines of Markdown, after an empty line."""
    lines = markdown_table(block.columns, block.rows)
    return ["", f"**{markdown_cell(block.title)}**", "", *lines]
