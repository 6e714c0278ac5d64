"""How a diagnosis goes through its files, as `scripts/count_walk.py` counts it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

RETURNS_WHEN_FLAT = 37
"""When all files of a diagnosis were in one folder (commit 532c1a4)."""


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("count_walk", ROOT / "scripts" / "count_walk.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = _script()


def test_crossings_that_enter_no_new_file_are_returns() -> None:
    assert script.Walk(frozenset({("a", "b"), ("b", "c")})).returns == 0
    assert script.Walk(frozenset({("a", "b"), ("b", "c"), ("a", "c")})).returns == 1
    assert script.Walk(frozenset({("a", "b"), ("b", "a")})).returns == 1
    assert script.Walk(frozenset()).returns == 0


@pytest.mark.long
def test_a_diagnosis_comes_back_to_few_files() -> None:
    counted = script.walk(["diagnose", "demo:h200-normal", "demo:h200-slow", "--json"])
    assert ("diagnosis", "findings/findings") in counted.crossings
    assert counted.files > 25
    assert counted.returns < RETURNS_WHEN_FLAT, sorted(counted.crossings)


def test_a_command_that_fails_counts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(["demo:h200-normal", "nowhere.json"])
    assert ended.value.code == 2
    assert "nowhere.json" in capsys.readouterr().err
