"""What all terminal reports are made of."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from solscope.profile import ProfileWarning
from solscope.report.layout.quantities import micro, number, pct, share_known
from solscope.report.layout.tables import (
    Column,
    bar,
    heading,
    listing,
    table,
    to_text,
    warning_lines,
    with_bars,
)

KERNELS = (
    Column("ms"),
    Column("share"),
    Column("calls", spare=1),
    Column("median µs", spare=3),
    Column("max µs", spare=2),
    Column("kernel", text=True),
)
LONG = "void cutlass::Kernel<Sm90, (int)128, true>(Params) [clone .kd]" * 4
ROWS = [
    ["1,234.56", "99.9 %", "123,456", "1.50", "1,000.25", LONG],
    ["1.00", "0.1 %", "2", "3.50", "4.00", "核函数" * 40],
]
COMPARED = (Column("role", text=True), Column("before"), Column("after"))
NUMBERS = ["1,234,567.89", "9,876,543.21"]

WIDTHS = range(40, 201)


def printed(
    columns: tuple[Column, ...], rows: list[list[str]], width: int, *, whole: bool = False
) -> list[str]:
    """Lines of a table."""
    return to_text([table(columns, rows, width, whole=whole)], width, color=False).splitlines()


# Numbers


def test_numbers() -> None:
    assert number(1234567.891) == "1,234,567.89"
    assert number(1234567.891, 0) == "1,234,568"
    assert pct(12.34) == "12.3 %"
    assert micro(1_234_567) == "1,234.57"


def test_what_does_not_exist_is_a_dash() -> None:
    assert [number(None), pct(None), micro(None), share_known(None)] == ["-"] * 4


SHARES = {
    100.0: "100.0 %",
    99.9999999: "99.9 %",
    99.95: "99.9 %",
    99.94: "99.9 %",
    99.84: "99.8 %",
    0.0: "0.0 %",
}


@pytest.mark.parametrize("share", SHARES)
def test_a_share_never_rounds_up_to_all(share: float) -> None:
    assert share_known(share) == SHARES[share]


# Tables


@pytest.mark.parametrize("whole", [False, True])
def test_every_line_fits(whole: bool) -> None:
    for width in WIDTHS:
        lines = printed(KERNELS, ROWS, width, whole=whole)
        assert max(cell_len(line) for line in lines) <= width


def test_numbers_beside_names_are_never_cut() -> None:
    for width in WIDTHS:
        numbers = printed(KERNELS, ROWS, width)[1].partition("void")[0].split()
        assert numbers[:3] == ["1,234.56", "99.9", "%"]
        assert set(numbers[3:]) <= {"123,456", "1.50", "1,000.25"}


def test_numbers_in_the_last_column_are_never_cut() -> None:
    for width in WIDTHS:
        lines = printed(COMPARED, [["a role with a very long name " * 3, *NUMBERS]], width)
        assert max(map(len, lines)) <= width
        assert lines[1].split()[-2:] == NUMBERS


def test_numbers_are_not_cut_even_where_nothing_fits() -> None:
    line = printed(COMPARED, [["a role with a long name", *NUMBERS]], 20)[1]
    assert line == "a rol…me  1,234,567.89  9,876,543.21"


HEADINGS = {
    40: ["ms", "share", "kernel"],
    60: ["ms", "share", "calls", "kernel"],
    70: ["ms", "share", "calls", "max µs", "kernel"],
    90: ["ms", "share", "calls", "median µs", "max µs", "kernel"],
}


@pytest.mark.parametrize("width", HEADINGS)
def test_spare_columns_go_in_order(width: int) -> None:
    heads = printed(KERNELS, ROWS, width)[0]
    assert heads.replace(" µs", "µs").split() == [
        head.replace(" µs", "µs") for head in HEADINGS[width]
    ]


def test_the_name_is_shortened_in_its_middle() -> None:
    assert printed(KERNELS[:2] + KERNELS[-1:], [["1.00", "0.1 %", LONG]], 40) == [
        "  ms  share  kernel",
        "1.00  0.1 %  void cutlass::Ker…lone .kd]",
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_other_texts_give_way_where_nothing_else_is_left(whole: bool) -> None:
    columns = [
        Column("group", text=True),
        Column("role", text=True),
        Column("before"),
        Column("kernel", text=True),
    ]
    row = ["attention+dense", "attention_combine", "494,001.67", "one pass"]
    lines = to_text([table(columns, [row], 50, whole=whole)], 50, color=False).splitlines()
    assert lines[1].split("  ") == ["attentio…ense", "attentio…bine", "494,001.67", "one pass"]
    assert max(map(len, lines)) <= 50
    roomy = to_text([table(columns, [row], 60, whole=whole)], 60, color=False)
    assert "attention+dense  attention_combine  494,001.67  one pass" in roomy


def test_whole_names_are_wrapped() -> None:
    lines = printed(KERNELS[-1:], [["abcdefghij" * 5]], 40, whole=True)
    assert lines == ["kernel", "abcdefghij" * 4, "abcdefghij"]


def test_markup_is_printed_as_it_is() -> None:
    columns = (Column("[bold]ms[/bold]"), Column("[red]kernel", text=True))
    assert printed(columns, [["[b]1[/b]", "[link=x]k[/link] :smile:"]], 60) == [
        "[bold]ms[/bold]  [red]kernel",
        "       [b]1[/b]  [link=x]k[/link] :smile:",
    ]


def test_escape_sequences_are_shown() -> None:
    assert printed((Column("n", text=True),), [["\x1b[31mk"]], 60) == ["n", r"\x1b[31mk"]


def test_a_table_without_rows() -> None:
    assert printed(COMPARED, [], 60) == ["role  before  after"]


def test_wide_characters_line_up() -> None:
    assert printed((Column("a", text=True), Column("b", text=True)), [["核", "x"]], 40) == [
        "a   b",
        "核  x",
    ]


# Listings


def test_a_listing_prints_each_name_whole_on_one_line() -> None:
    rows = [["1,234.56", "99.9 %", LONG], ["1.00", "0.1 %", "k"]]
    columns = (*KERNELS[:2], KERNELS[-1])
    assert to_text([listing(columns, rows)], 40, color=False).splitlines() == [
        "      ms   share",
        "1,234.56  99.9 %",
        f"    {LONG}",
        "    1.00   0.1 %",
        "    k",
    ]


def test_a_listing_prints_markup_as_it_is() -> None:
    columns = (Column("[bold]n", text=True), Column("kernel", text=True))
    text = to_text([listing(columns, [["[red]x", "[bold]k[/bold]\x1b"]])], 60, color=False)
    assert text.splitlines() == ["[bold]n", "[red]x", "    [bold]k[/bold]\\x1b"]


# Other parts


def test_headings_and_warnings_are_safe() -> None:
    found = ProfileWarning("odd", "[bold]\x1b")
    text = to_text([heading("[red]\x9b"), *warning_lines([found])], 60, color=False)
    assert text == "[red]\\x9b\nwarning odd: [bold]\\x1b\n"


def test_colors_only_when_asked_for() -> None:
    assert "\x1b[" in to_text([heading("x")], 60, color=True)
    assert to_text([heading("x")], 60, color=False) == "x\n"


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (None, ""),
        (0.0, ""),
        (50.0, "██████"),
        (100.0, "████████████"),
        (250.0, "████████████"),
        # 1 % of 96 eighths is one of them
        (1.0, "▏"),
        (12.5, "█▌"),
    ],
)
def test_bars_are_drawn_to_an_eighth(share: float | None, drawn: str) -> None:
    assert bar(share) == drawn


def test_bars_only_where_they_can_be_drawn() -> None:
    columns, rows = [Column("a"), Column("b", text=True)], [["1", "x"], ["2", "rest"]]
    assert with_bars(columns, rows, [50.0], at=1, draw=False) == (columns, rows)
    wider, drawn = with_bars(columns, rows, [50.0], at=1, draw=True)
    assert [column.heading for column in wider] == ["a", "", "b"]
    assert drawn == [["1", "██████", "x"], ["2", "", "rest"]]


def test_a_bar_of_fewer_cells() -> None:
    assert bar(50.0, 4) == "██"


def test_a_style_may_depend_on_the_cell() -> None:
    column = Column("bar", text=True, style=lambda cell: "red" if cell == "+" else "green")
    text = to_text([table([column], [["+"], ["-"]], 40)], 40, color=True)
    assert "\x1b[31m+" in text
    assert "\x1b[32m-" in text


def test_bars_give_way_first_in_a_narrow_terminal() -> None:
    columns, rows = [Column("share"), Column("name", text=True)], [["50.0 %", "n" * 40]]
    parts = [table(*with_bars(columns, rows, [50.0], at=1, draw=True), 40)]
    assert "█" not in to_text(parts, 40, color=True)
