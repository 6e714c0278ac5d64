"""Paragraphs and rows are laid out as rich lays them out, also where characters are wide."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as RichText

from solscope.report.layout.lines import (
    _NARROW,
    Cell,
    Group,
    Text,
    cell_width,
    row_lines,
    styled,
)

WORDS = st.text(alphabet="ab c-·µ…█漢é\u0301", max_size=80)
ESCAPES = re.compile("\x1b\\[[0-9;]*m")


def by_rich(part: RenderableType, width: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False, color_system=None)
    console.print(part, crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@given(WORDS, st.integers(2, 40), st.integers(0, 6))
def test_paragraphs_break_where_rich_breaks_them(text: str, width: int, indent: int) -> None:
    padded = Padding(RichText(text), (0, 0, 0, indent))
    assert Text(text, indent=indent).lines(width + indent, False) == by_rich(padded, width + indent)


@given(WORDS, WORDS, st.integers(2, 30), st.booleans(), st.booleans())
def test_rows_are_as_rich_makes_them(
    first: str, second: str, width: int, left: bool, wrap: bool
) -> None:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for wraps in (wrap, False):
        grid.add_column(
            justify="left" if left else "right",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            min_width=width,
            max_width=width,
        )
    grid.add_row(RichText(first), RichText(second))
    cells = [
        Cell(first, "", width, left=left, wrap=wrap),
        Cell(second, "", width, left=left, wrap=False),
    ]
    lines = [line.rstrip() for line in row_lines(cells, False)]
    assert lines == by_rich(grid, 200)


def test_narrow_characters_take_one_cell() -> None:
    narrow = [chr(code) for code in range(0x10000) if _NARROW.fullmatch(chr(code))]
    assert {"a", "µ", "…", "█", "≥"} <= set(narrow)
    assert [character for character in narrow if cell_len(character) != 1] == []


@pytest.mark.parametrize(("text", "width"), [("", 0), ("a…", 2), ("漢", 2), ("e\u0301", 1)])
def test_width_in_cells(text: str, width: int) -> None:
    assert cell_width(text) == width


def test_a_line_that_is_not_wrapped() -> None:
    assert Text("a b " * 30, wrap=False).lines(20, False) == [("a b " * 30).rstrip()]


def test_parts_of_a_group_follow_each_other() -> None:
    assert Group(Text("a\nb"), Group(Text(""), Text("c"))).lines(9, False) == ["a", "b", "", "c"]


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "bold", "bold yellow"]))), st.integers(2, 40))
def test_colors_change_no_letter(pieces: list[tuple[str, str]], width: int) -> None:
    text = Text.assemble(*pieces)
    colored = [ESCAPES.sub("", line) for line in text.lines(width, True)]
    assert colored == text.lines(width, False)


def test_codes_of_a_style() -> None:
    assert styled("a", "bold yellow", True) == "\x1b[1;33ma\x1b[0m"
    assert styled("a", "bold yellow", False) == "a"
    assert styled("", "bold", True) == ""
