"""Compiled regular expressions that are kept beside the bytecode."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

import solscope.cli
from solscope import pattern_codes
from solscope.attribution.rules import built_in
from solscope.pattern_codes import compiled_pattern

EXPRESSION = r"(?P<first>a+)|(b)(?=c)|[α-ω]{2,}"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of its own, and a program that has compiled nothing yet."""
    file = tmp_path / "__pycache__" / "kept.codes"
    monkeypatch.setattr(pattern_codes, "_place", lambda: file)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    _start_again(monkeypatch)
    return file


def _start_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pattern_codes, "_made", {})
    patch.setattr(pattern_codes, "_new", {})
    patch.setattr(pattern_codes, "_known", None)


def _refuse(*_: object) -> None:
    raise AssertionError("compiled once more")


def test_the_next_program_compiles_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = re.compile(EXPRESSION, re.IGNORECASE)
    assert compiled_pattern(EXPRESSION, re.IGNORECASE) == wanted
    solscope.cli._keep_patterns()
    assert place.is_file()
    _start_again(monkeypatch)
    monkeypatch.setattr(re, "compile", _refuse)
    kept = compiled_pattern(EXPRESSION, re.IGNORECASE)
    assert kept == wanted
    assert kept is compiled_pattern(EXPRESSION, re.IGNORECASE)
    assert (kept.flags, kept.groups, kept.groupindex) == (wanted.flags, 2, {"first": 1})
    match = kept.search("xxAA")
    assert match is not None
    assert (match["first"], match.lastgroup) == ("AA", "first")
    solscope.cli._keep_patterns()
    assert pattern_codes.unkept() is None


def test_flags_and_earlier_expressions_stay_apart(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_pattern("A")
    solscope.cli._keep_patterns()
    _start_again(monkeypatch)
    assert compiled_pattern("A", re.IGNORECASE).search("a")
    solscope.cli._keep_patterns()
    _start_again(monkeypatch)
    monkeypatch.setattr(re, "compile", _refuse)
    assert compiled_pattern("A").search("a") is None
    assert compiled_pattern("A", re.IGNORECASE).search("a")


@pytest.mark.parametrize("damage", ["cut", "other", "foreign", "wrong"])
def test_a_file_that_cannot_be_used_is_passed_over(
    place: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    compiled_pattern(EXPRESSION)
    solscope.cli._keep_patterns()
    content = place.read_bytes()
    if damage == "foreign":  # of another build of Python
        monkeypatch.setattr(sys, "version", "2.7")
        place.write_bytes(content)
    elif damage == "wrong":  # numbers that are no program
        key = (EXPRESSION, 0)
        parts = (b"\xff" * 40, 32, 2, {"first": 1})
        content = msgspec.msgpack.encode((pattern_codes._stamp(), [(key, parts)]))
        place.write_bytes(content)
    else:
        place.write_bytes(content[:50] if damage == "cut" else b"{}")
    _start_again(monkeypatch)
    assert compiled_pattern(EXPRESSION) == re.compile(EXPRESSION)


def test_nothing_is_written_where_bytecode_is_not_wanted_or_cannot_be(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compiled_pattern(EXPRESSION)
    solscope.cli._keep_patterns()
    assert not place.parent.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    place.parent.write_text("a file where the folder should be", encoding="utf-8")
    compiled_pattern(EXPRESSION + "x")
    solscope.cli._keep_patterns()
    assert place.parent.is_file()


def test_no_more_are_kept_than_the_package_has(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_codes, "MOST", 1)
    compiled_pattern("a")
    compiled_pattern("b")
    solscope.cli._keep_patterns()
    assert not place.exists()


def test_an_error_in_an_expression_shows() -> None:
    with pytest.raises(re.error):
        compiled_pattern("(")


def test_every_built_in_rule_is_kept_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions of every kind, through the file."""
    expressions = sorted({rule.pattern for rule in built_in().rules})
    for expression in expressions:
        compiled_pattern(expression)
    assert len(pattern_codes._new) == len(expressions)
    solscope.cli._keep_patterns()
    _start_again(monkeypatch)
    for expression in expressions:
        assert pattern_codes._from_disk((expression, 0)) == re.compile(expression)
    assert pattern_codes._new == {}


def test_an_expression_that_is_no_text_is_not_kept(place: Path) -> None:
    assert compiled_pattern("[\ud800-\udfff]").search("a\ud812")
    compiled_pattern("a")
    solscope.cli._keep_patterns()
    assert list(pattern_codes._read()) == [("a", 0)]
