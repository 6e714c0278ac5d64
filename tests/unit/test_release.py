"""What a release needs: metadata, workflows whose commands exist, a source that is complete."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import solscope

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))


def load(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_runs_make_targets_that_exist(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    # YAML 1.1 reads the key `on` as true.
    assert workflow[True]
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d[\w.]*", step["uses"])
        else:
            program, *named = step["run"].split()
            assert program == "make"
            assert set(named) <= targets()


def test_ci_covers_the_platforms_that_are_promised() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    machines = jobs["test"]["strategy"]["matrix"]["os"]
    assert [any(kind in name for name in machines) for kind in ("arm", "macos")] == [True, True]
    assert {"run": "make check test"} in jobs["test"]["steps"]
    tested = jobs["dist"]["strategy"]["matrix"]["python"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert tested == classified
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in classified]
    assert PROJECT["project"]["requires-python"] == f">={classified[0]}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: str(path.name))
def test_issue_forms_parse(path: Path) -> None:
    form = load(path)
    if path.name != "config.yml":
        assert form["name"]
        assert form["description"]
        assert all(part["attributes"]["label"] for part in form["body"])


def test_every_make_target_is_phony() -> None:
    declared = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert declared
    assert set(declared[1].split()) == targets()


def test_contributing_names_make_targets_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for line in re.findall(r"^make ([a-z -]+?)\s*(?:#.*)?$", text, re.MULTILINE):
        assert set(line.split()) <= targets()
    assert len(text.splitlines()) < 80  # one page


def test_the_version_is_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", solscope.__version__)


def test_the_source_lists_what_tests_and_docs_need() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8")
    grafted = set(re.findall(r"^graft (\S+)$", manifest, re.MULTILINE))
    included = set(re.search(r"^include (.*)$", manifest, re.MULTILINE)[1].split())  # type: ignore[index]
    always = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"}
    folders = {name.partition("/")[0] for name in listed if "/" in name}
    files = {name for name in listed if "/" not in name and not name.startswith(".")}
    assert folders - grafted == {".ci", "src"}
    assert files - included - always == set()
