"""Text of profiles on its way to a terminal, and percentages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import solscope
from solscope.text import as_percent, clean, percent, shorten

NAME = "void gemm<float>(int)"

ESCAPED = {
    "\x1b[31mred": r"\x1b[31mred",
    "a\nb\tc": r"a\x0ab\x09c",
    "\x00\x7f": r"\x00\x7f",
    "\x9b2J": r"\x9b2J",
    "a\u200bb": r"a\x200bb",
    "\u202etxt": r"\x202etxt",
    "\ufeffname": r"\xfeffname",
    "\U000e0041": r"\xe0041",
}


@pytest.mark.parametrize("text", ESCAPED)
def test_what_steers_a_terminal_shows_as_an_escape(text: str) -> None:
    assert clean(text) == ESCAPED[text]


@pytest.mark.parametrize("text", ["", NAME, "µs — 核函数", "[bold]x[/bold]", r"\x1b"])
def test_harmless_text_stays(text: str) -> None:
    assert clean(text) == text


SHORT = {
    21: "void gemm<float>(int)",
    20: "void gemm<flo…>(int)",
    12: "void ge…int)",
    4: "vo…)",
    3: "voi",
    1: "v",
    0: "",
}


@pytest.mark.parametrize("width", SHORT)
def test_the_middle_is_left_out(width: int) -> None:
    assert shorten(NAME, width) == SHORT[width]


def test_escapes_count_as_what_they_show() -> None:
    assert shorten("\x1b" * 4, 12) == r"\x1b\x1…\x1b"


def test_a_huge_name_keeps_its_two_ends() -> None:
    assert shorten("a" * 1_000_000 + "z", 9) == "aaaaa…aaz"


def test_percentages_have_one_style() -> None:
    assert percent(12.34) == "12.3 %"
    assert as_percent(0.996) == "100 %"
    assert as_percent(0.0125, 1) == "1.2 %"


SOURCE = Path(solscope.__file__).parent
CLASSIC = "report/results/diagnose/classic.py"
"""Keeps the form of the report that it stands in for."""


def test_no_percentage_is_written_in_another_style() -> None:
    odd = [
        f"{path.relative_to(SOURCE)}: {found}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix() != CLASSIC
        for found in re.findall(r"\{[^{}\n]*:\.\d%\}|\{[^{}\n]+\}%", path.read_text("utf-8"))
        if "text.strip()" not in found
    ]
    assert odd == []
