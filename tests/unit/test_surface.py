"""What the package shows to the outside, and what it costs to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import solscope

SOURCE = Path(solscope.__file__).parent


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    tail = "; import sys; print('\\n' + ' '.join({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_public_names() -> None:
    assert solscope.__all__ == [
        "Attributed",
        "Corpus",
        "Profile",
        "ProfileWarning",
        "ReadOptions",
        "SolscopeError",
        "__version__",
        "add_profiles",
        "attribute",
        "capture",
        "compare_profiles",
        "create_corpus",
        "diagnose_runs",
        "find_profiles",
        "gate",
        "hot_shapes",
        "hotspots",
        "importance",
        "kernels",
        "layers",
        "load_model",
        "load_rules",
        "named_hardware",
        "open",
        "open_corpus",
        "operator_bound",
        "operator_table",
        "runs",
        "suite_roofline",
        "suite_shapes",
        "summarize",
        "trend",
    ]


@pytest.mark.parametrize("name", solscope.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(solscope, name) is not None
    assert name in dir(solscope)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = solscope.opne


def test_import_loads_no_data_library() -> None:
    assert not modules_after("import solscope") & {"polars", "rich", "numpy", "msgspec", "click"}


def test_help_loads_no_data_library() -> None:
    code = "from solscope.cli import run; run(['--help'])"
    assert not modules_after(code) & {"polars", "rich", "numpy", "msgspec"}


@pytest.mark.parametrize(
    "words", ["bench run --op x", "bench check x", "suite list --suite x", "hardware show x"]
)
def test_completion_loads_nothing_heavy(words: str) -> None:
    code = (
        "from click.shell_completion import ShellComplete as S; from solscope.cli import app; "
        f"S(app, {{}}, 'solscope', 'X').get_completions({words.split()[:-1]}, '')"
    )
    heavy = {"polars", "numpy", "torch", "rich", "starlette", "zstandard"}
    assert not modules_after(code) & heavy


TORCH_USERS = {"operators", "bench", "capture", "lab", "hardware"}
"""Packages that may import torch, inside functions."""
SOLUTIONS = "bench/solutions/"
"""Files that are run by path, never imported: they may import what they like."""


def test_torch_is_imported_inside_functions_of_few_packages() -> None:
    top, inside = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = path.relative_to(SOURCE)
        if "torch" in imported_by(tree):
            inside.add(place.parts[0])
        body = ast.Module([node for node in tree.body if not defines_or_types(node)], [])
        if "torch" in imported_by(body) and not place.as_posix().startswith(SOLUTIONS):
            top.append(place.as_posix())
    assert top == []
    assert inside <= TORCH_USERS


def defines_or_types(node: ast.stmt) -> bool:
    """A function, a class, or `if TYPE_CHECKING`."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)


def imported_by(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
