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
        "Profile",
        "ProfileWarning",
        "ReadOptions",
        "SolscopeError",
        "__version__",
        "attribute",
        "compare_profiles",
        "find_profiles",
        "gate",
        "kernels",
        "layers",
        "load_rules",
        "open",
        "runs",
        "summarize",
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


def test_nothing_imports_torch() -> None:
    found = [
        path.relative_to(SOURCE).as_posix()
        for path in sorted(SOURCE.rglob("*.py"))
        if "torch" in imported_by(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def imported_by(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
