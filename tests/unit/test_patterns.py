"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import copy
import re
from importlib import import_module
from pathlib import Path

import pytest

import solscope
from solscope.patterns import _Lazy, lazy_pattern

SOURCE = Path(solscope.__file__).parent


def test_it_is_compiled_once_and_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile

    def noted(expression: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(expression)
        return real(expression, flags)

    monkeypatch.setattr(re, "compile", noted)
    word = lazy_pattern(r"\w+", re.ASCII)
    assert compiled == []
    assert [word.findall("a b"), word.findall("c")] == [["a", "b"], ["c"]]
    assert compiled == [r"\w+"]


def test_it_has_what_a_compiled_one_has() -> None:
    word = lazy_pattern(r"(?P<letter>[a-z])", re.IGNORECASE)
    match = word.match("A")
    assert match is not None
    assert match["letter"] == "A"
    assert word.sub("-", "aB1") == "--1"
    assert (word.pattern, dict(word.groupindex)) == (r"(?P<letter>[a-z])", {"letter": 1})
    assert lazy_pattern(rb"\d").findall(b"a1") == [b"1"]
    assert copy.copy(word).fullmatch("x")
    with pytest.raises(AttributeError):
        _ = word.nothing  # type: ignore[attr-defined]


def test_every_lazy_pattern_of_the_package_is_valid() -> None:
    """What `re.compile` at the head of a module would show at import."""
    users = [path for path in SOURCE.rglob("*.py") if "= lazy_pattern(" in path.read_text("utf-8")]
    names = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in users]
    found = [
        value
        for name in names
        for value in vars(import_module(name.removesuffix(".__init__"))).values()
        if isinstance(value, _Lazy)
    ]
    assert len(found) > 40
    for lazy in found:
        assert isinstance(lazy.pattern, str | bytes)
