"""Data files that are parsed once: when what was stored is used, and when it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from solscope.compiled import compiled, parse_toml


class Maker:
    """Counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> dict[str, Any]:
        self.calls += 1
        return parse_toml(text)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "rules.toml"
    path.write_text("[a]\nb = 'c'\n")
    return path


def stored(source: Path) -> list[Path]:
    return list((source.parent / "__pycache__").glob("*"))


def test_a_file_is_parsed_once(source: Path) -> None:
    maker = Maker()
    for _ in range(3):
        assert compiled(source, __file__, maker) == {"a": {"b": "c"}}
    assert maker.calls == 1
    assert [path.name for path in stored(source)] == ["rules.toml.json"]


def test_a_changed_file_is_parsed_again(source: Path) -> None:
    compiled(source, __file__, Maker())
    before = source.stat()
    source.write_text("[a]\nb = 'd'\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert compiled(source, __file__, Maker()) == {"a": {"b": "d"}}


def test_a_changed_module_makes_it_anew(source: Path, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("1")
    maker = Maker()
    compiled(source, str(module), maker)
    module.write_text("12")
    compiled(source, str(module), maker)
    assert maker.calls == 2


@pytest.mark.parametrize("damage", [b"", b"[", b"[1]", b"null", b"\xff", b'[[1, 2, 3, 4], "old"]'])
def test_what_is_damaged_is_replaced(source: Path, damage: bytes) -> None:
    compiled(source, __file__, Maker())
    (place,) = stored(source)
    place.write_bytes(damage)
    maker = Maker()
    for _ in range(2):
        assert compiled(source, __file__, maker) == {"a": {"b": "c"}}
    assert maker.calls == 1


def test_nothing_is_written_where_bytecode_is_not(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled(source, __file__, Maker()) == {"a": {"b": "c"}}
    assert stored(source) == []


def test_a_place_that_cannot_be_written_does_no_harm(source: Path) -> None:
    (source.parent / "__pycache__").write_text("a file")
    maker = Maker()
    for _ in range(2):
        assert compiled(source, __file__, maker) == {"a": {"b": "c"}}
    assert maker.calls == 2


def test_a_folder_in_its_place_does_no_harm(source: Path) -> None:
    (source.parent / "__pycache__" / "rules.toml.json").mkdir(parents=True)
    assert compiled(source, __file__, Maker()) == {"a": {"b": "c"}}
