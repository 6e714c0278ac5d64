"""Every file of the solutions that ship: named after an operator, called as its task calls it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

from solscope.operators import OPERATOR_MODULES, operator
from solscope.operators.task import Draw
from solscope.suite.files import load
from solscope.suite.scale import scale_down

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[4] / "src/solscope/bench/solutions"
FILES = sorted(p for p in FOLDER.glob("*/[!_]*.py"))
IDS = [path.relative_to(FOLDER).as_posix() for path in FILES]
LIBRARIES = ["solscope_triton", "fla", "liger", "sglang", "flashinfer", "vllm", "sgl_kernel"]
COLUMNS = [*LIBRARIES, "cublas"]
"""Of the page; cuBLAS comes with torch, so its solution needs no package."""


def function(path: Path, name: str) -> ast.FunctionDef | None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((node for node in found if node.name == name), None)


def inputs_of(name: str) -> list[str]:
    listed = {one.operator: one for suite in ("decode", "atrex") for one in load(suite).operators}
    assert name in listed, f"{name} has a solution but no shapes: add some to a suite"
    axes = listed[name].shapes[0].axes
    task = operator(name).task
    assert task is not None
    torch.set_num_threads(1)
    return list(task.inputs(scale_down(axes), Draw(1)))


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_run_takes_the_inputs_of_its_operator(path: Path) -> None:
    assert path.stem in OPERATOR_MODULES, "not an operator"
    run = function(path, "run")
    assert run is not None
    taken = [argument.arg for argument in run.args.args]
    planned = ["plan"] if function(path, "setup") else []
    assert taken == [*inputs_of(path.stem), *planned]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_solutions_know_nothing_of_solscope(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("solscope") for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("solscope")


def names_in(path: Path) -> set[str]:
    """Functions and constants of a file."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else []
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.py")), ids=lambda path: path.stem)
def test_what_is_imported_from_files_beside_is_there(path: Path) -> None:
    # Where Triton lacks Gluon, such an import may fail, and another kernel runs: so does a typo.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            beside = path.with_name(f"{node.module}.py")
            if beside.exists():
                assert {alias.name for alias in node.names} <= names_in(beside)


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_say_what_they_need(name: str) -> None:
    about = tomllib.loads((FOLDER / name / "solution.toml").read_text(encoding="utf-8"))
    assert about["title"]
    assert about["author"]
    assert about["dependencies"]
    assert about["hardware"]


def test_plain_torch_has_every_operator_of_the_suites() -> None:
    names = {one.operator for suite in ("atrex", "decode") for one in load(suite).operators}
    assert names <= {path.stem for path in FILES if path.parent.name == "torch_eager"}


def test_the_page_lists_every_file() -> None:
    page = (FOLDER.parents[3] / "docs/reference/solutions.md").read_text(encoding="utf-8")
    for path in FILES:
        if path.parent.name in COLUMNS:
            row = next(line for line in page.splitlines() if line.startswith(f"| {path.stem} |"))
            at = COLUMNS.index(path.parent.name)
            assert row.split("|")[2 + at].strip() == "yes", path
    said = sum(line.count("| yes") for line in page.splitlines())
    assert said == sum(path.parent.name in COLUMNS for path in FILES)
