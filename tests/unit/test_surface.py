"""What the package shows to the outside, and what it costs to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import solscope
from solscope.cli import app
from solscope.cli.command_table import COMMANDS
from solscope.readers import READER_MODULES
from solscope.readers.kineto_core import native_scanner
from tests.sampling import some

SOURCE = Path(solscope.__file__).parent


def all_modules_after(code: str) -> set[str]:
    """Modules that a fresh interpreter holds after running `code`."""
    tail = "; import sys; print('\\n' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def modules_after(code: str) -> set[str]:
    """Their top-level packages."""
    return {name.partition(".")[0] for name in all_modules_after(code)}


def test_public_names() -> None:
    assert solscope.__all__ == [
        "Attributed",
        "Corpus",
        "Profile",
        "ProfileWarning",
        "ReadOptions",
        "Run",
        "SolscopeError",
        "__version__",
        "add_profiles",
        "attribute",
        "capture",
        "compare_kernels",
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
        "open_run",
        "operator_bound",
        "operator_table",
        "rank_table",
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


DATA_LIBRARIES = {"polars", "rich", "numpy", "msgspec"}
COMMAND_MODULES = {f"solscope.cli.commands.{name}" for name in COMMANDS}


def test_help_loads_neither_data_libraries_nor_commands() -> None:
    loaded = all_modules_after("from solscope.cli import run; run(['--help'])")
    assert not loaded & (DATA_LIBRARIES | COMMAND_MODULES)


def test_completing_a_command_loads_none() -> None:
    code = (
        "from click.shell_completion import ShellComplete as S; from solscope.cli import app; "
        "assert len(S(app, {}, 'solscope', 'X').get_completions([], '')) > 10"
    )
    assert not all_modules_after(code) & (DATA_LIBRARIES | COMMAND_MODULES)


@pytest.mark.parametrize("name", some(COMMANDS, 3))
def test_help_of_a_command_loads_only_that_command(name: str) -> None:
    loaded = all_modules_after(f"from solscope.cli import run; run(['{name}', '--help'])")
    assert loaded & COMMAND_MODULES == {f"solscope.cli.commands.{name}"}
    assert not loaded & DATA_LIBRARIES


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_is_what_the_command_declares(name: str) -> None:
    assert app.commands[name].name == name
    assert app.commands[name].short_help == COMMANDS[name]


def test_every_module_with_a_command_is_registered() -> None:
    modules = {path.stem for path in (SOURCE / "cli" / "commands").glob("[!_]*")}
    assert modules == set(COMMANDS)
    for name in modules:
        assert hasattr(import_module(f"solscope.cli.commands.{name}"), "command")


@pytest.mark.parametrize("core", ["native", "python"])
def test_show_loads_only_what_it_uses(core: str) -> None:
    if core == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    code = (
        f"import os; os.environ['SOLSCOPE_CORE'] = '{core}'; "
        "from solscope.cli import run; assert run(['show', 'demo:vllm-mi300x-graph']) == 0"
    )
    loaded = all_modules_after(code)
    others = {"torch", "deltalake", "starlette", "uvicorn", "ray", "scipy", "pandas", "pyarrow"}
    standard = {"sqlite3", "multiprocessing.pool", "asyncio"}
    assert "numpy.ma" not in loaded, "make series from arrays with solscope.arrays.series"
    assert not loaded & (others | standard)
    assert loaded & COMMAND_MODULES == {"solscope.cli.commands.show"}
    ours = {name.split(".")[1] for name in loaded if name.startswith("solscope.")}
    assert not ours & {"bench", "capture", "compare", "corpus", "diagnose", "lab", "suite", "web"}
    assert ("solscope.readers.kineto_scan" in loaded) == (core == "python")


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
        text = path.read_text(encoding="utf-8")
        if "torch" not in text:  # Parsing takes long.
            continue
        tree = ast.parse(text)
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


def test_the_cache_is_listed_without_a_data_library() -> None:
    code = "from solscope.cli import run; run(['cache', 'info', '--json'])"
    assert not modules_after(code) & {"polars", "rich", "numpy"}


def test_a_profile_is_shown_without_rich_and_readers_of_other_formats() -> None:
    loaded = all_modules_after(
        "from solscope.cli import run; run(['show', 'demo:vllm-b200', '--no-cache'])"
    )
    others = {READER_MODULES[name] for name in READER_MODULES if "nsys" in name}
    assert "solscope.readers.kineto" in loaded
    assert not loaded & {"rich", *others}
