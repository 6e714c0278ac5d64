"""`make mutate`: every planted mistake can still be planted, and the script judges rightly."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


mutate = _script()


def test_every_mutation_can_be_applied() -> None:
    mutations = mutate.load()
    assert len(mutations) >= 60
    assert len({m.id for m in mutations}) == len(mutations)
    problems = []
    sources = mutate.read_sources(ROOT)
    for mutation in mutations:
        try:
            place = mutation.locate(sources)
            mutation.selection(ROOT)
        except mutate.MutationError as error:
            problems.append(str(error))
            continue
        assert place.changed != place.text
        # A file that does not parse would be noticed by any test.
        if place.path.suffix == ".py":
            ast.parse(place.changed)
        else:
            mutate.tomllib.loads(place.changed)
    assert problems == []


# --- A project of one module and one test


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    source, tests = root / "src" / "solscope", root / "tests" / "unit"
    source.mkdir(parents=True)
    tests.mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (source / "__init__.py").write_text("")
    (source / "limits.py").write_text(
        "LIMIT = 3\nUNTESTED = 3\n\n\ndef is_many(n):\n    return n >= LIMIT\n"
    )
    (tests / "test_limits.py").write_text(
        "from solscope.limits import is_many\n\n\n"
        "def test_edge():\n    assert is_many(3) and not is_many(2)\n"
    )
    monkeypatch.setattr(mutate, "ROOT", root)
    return root


def mutation(**changes: Any) -> Any:
    usual = {
        "id": "limit",
        "find": "LIMIT = 3",
        "replace": "LIMIT = 4",
        "tests": ("unit/test_limits.py",),
        "why": "Three would not be many.",
    }
    return mutate.Mutation(**(usual | changes))


def run(project: Path, monkeypatch: pytest.MonkeyPatch, *mutations: Any) -> tuple[int, Any]:
    monkeypatch.setattr(mutate, "load", lambda: list(mutations))
    report = project.parent / "report.json"
    code = mutate.main(["--json", str(report)])
    return code, json.loads(report.read_text()) if report.exists() else None


@pytest.mark.long
def test_killed_and_survived(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "src/solscope/limits.py").read_text()
    unseen = mutation(id="unseen", find="UNTESTED = 3", replace="UNTESTED = 4", why="Nobody sees.")
    code, report = run(project, monkeypatch, mutation(), unseen)
    assert code == 1
    assert [(o["id"], o["killed"]) for o in report["outcomes"]] == [
        ("limit", True),
        ("unseen", False),
    ]
    assert report["outcomes"][0]["by"] == "test_limits.py::test_edge"
    assert report["killed_pct"] == 50.0
    assert "survived: unseen (src/solscope/limits.py): Nobody sees." in capsys.readouterr().out
    assert (project / "src/solscope/limits.py").read_text() == before


@pytest.mark.long
def test_all_killed_is_a_success(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(project, monkeypatch, mutation())[0] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"find": "LIMIT = 9"}, "limit: 'LIMIT = 9' is not in the sources"),
        ({"find": "= 3"}, "limit: '= 3' is 2 times in the sources"),
        ({"after": "UNTESTED"}, "limit: 'LIMIT = 3' is 0 times after 'UNTESTED'"),
        ({"tests": ("test_gone.py",)}, "limit: 0 test files are called test_gone.py"),
    ],
)
def test_mutation_that_cannot_be_applied_is_named(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    message: str,
) -> None:
    assert run(project, monkeypatch, mutation(**changes)) == (2, None)
    assert message in capsys.readouterr().err


def test_tests_that_fail_anyway_prove_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    test = project / "tests/unit/test_limits.py"
    test.write_text(test.read_text().replace("is_many(3)", "is_many(1)"))
    assert run(project, monkeypatch, mutation())[0] == 2
    assert "without any mutation, test_limits.py::test_edge fails" in capsys.readouterr().err
