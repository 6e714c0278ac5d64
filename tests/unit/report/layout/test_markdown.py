"""Markdown as GitHub reads it: parsed again, every cell holds the text that it was made of."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from solscope.report.layout.lines import Group, Printable, Text
from solscope.report.layout.markdown import (
    Ready,
    markdown_cell,
    markdown_code,
    markdown_table,
    to_markdown,
)
from solscope.report.layout.tables import WIDE, Column, table
from solscope.text import clean

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
COLUMNS = [Column("µs"), Column("role", text=True), Column("kernel", text=True, code=True)]
NAMES = [
    "void at::native::(anonymous namespace)::f<float, std::array<char*, 3ul>>(int, char const*)",
    "__launch_bounds__ *bold* _it_ **b** ~~gone~~ ~s~",
    "[text](javascript:alert(1)) ![i](http://x) [a][b] <http://x>",
    "<script>alert(1)</script> &amp; &#60; &copy;",
    "a|b||c \\| d \\",
    "`code` ``two`` `odd",
    "$x$ $$y$$ # head - item > quote",
    "names_with_underscores stay_as they_are_",
    "\x1b[31mred\nline",
    "`",
    "",
]


def cells_of(text: str) -> list[list[str]]:
    """Rows of the first table, as plain text."""
    tokens = PARSER.parse(text)
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(plain(token))
    assert {token.type.rpartition("_")[0] or token.type for token in tokens} <= {
        *("table", "thead", "tbody", "tr", "th", "td", "inline")
    }
    return rows[1:]


def plain(token: Token) -> str:
    """What a reader sees; anything but text and code fails."""
    assert {child.type for child in token.children or []} <= {"text", "code_inline", "text_special"}
    return "".join(child.content for child in token.children or [])


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_as_it_is(name: str) -> None:
    text = "\n".join(markdown_table(COLUMNS, [["1.0", name, name], ["2.0", "b", "c"]]))
    seen = [["1.0", clean(name).rstrip(), clean(name).strip()], ["2.0", "b", "c"]]
    # Code in a text stays code, without its marks.
    seen[0][1] = plain(PARSER.parseInline(markdown_cell(name))[0])
    assert cells_of(text) == seen
    if "`" not in name:
        assert seen[0][1] == clean(name).rstrip()


@example("\\|`:`")
@given(st.text("ab|\\`*_[]()<>&#;~$! \x1b:/", max_size=24))
def test_any_name_is_one_cell_of_code(name: str) -> None:
    text = "\n".join(markdown_table(COLUMNS, [["1.0", name, name]]))
    ((time, _, kernel),) = cells_of(text)
    assert (time, kernel.strip()) == ("1.0", clean(name).strip())


@given(st.text("ab|\\*_[]()<>&#;~$! \x1b:/", max_size=24).filter(lambda text: text.strip()))
def test_any_text_is_one_cell(text: str) -> None:
    rows = cells_of("\n".join(markdown_table(COLUMNS, [["1.0", text.strip(), "k"]])))
    assert rows == [["1.0", clean(text.strip()).strip(), "k"]]


def test_what_is_markdown_already_stays() -> None:
    assert markdown_cell(Ready("**sum**")) == "**sum**"
    assert markdown_table(COLUMNS, [["1", "r", Ready("total")]])[-1] == "| 1 | r | total |"


def test_code_in_a_sentence_stays_code() -> None:
    assert markdown_cell("look at `pidstat -u 1 | a*b` *now*") == (
        "look at `pidstat -u 1 \\| a*b` \\*now\\*"
    )


def test_code_with_marks_in_it() -> None:
    assert markdown_code("a`b") == "``a`b``"
    assert markdown_code("`b") == "`` `b ``"
    assert markdown_code("a|b") == "`a\\|b`"


def test_indentation_stays() -> None:
    assert markdown_cell("  sync") == "&nbsp;&nbsp;sync"


def test_a_text_of_several_lines_is_a_block_that_nothing_in_it_ends() -> None:
    made = to_markdown([Text("out = x\n\n    ```\x1b[31m ends *not*\n"), Text("after")])
    assert made == "````\nout = x\n\n    ```\\x1b[31m ends *not*\n````\n\nafter\n"


def test_parts_become_markdown() -> None:
    parts: list[Printable] = [
        Text("title", style="bold"),
        Text(""),
        table([Column("ms"), Column("name", text=True)], [["1.0", "a<b|c>"]], WIDE),
        Group(table([Column("kernel", text=True, code=True)], [["f<int>"]], WIDE)),
        Text("last line"),
    ]
    assert to_markdown(parts) == (
        "**title**\n\n| ms | name |\n|--:|---|\n| 1.0 | a&lt;b\\|c> |\n\n"
        "| kernel |\n|---|\n| `f<int>` |\n\nlast line\n"
    )
