from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from solscope.late import STANDARD, functions_on_first_use, import_again, import_on_first_use

WritePackage = Callable[..., None]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that nobody has imported; it says when it is."""
    (tmp_path / "rarely_used.py").write_text(
        "import sys\nsys.rarely = True\ndef twice(n): return 2 * n\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "rarely", False, raising=False)
    monkeypatch.delitem(sys.modules, "rarely_used", raising=False)
    return "rarely_used"


@pytest.fixture
def write_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WritePackage:
    """Makes a package of these files that can be imported."""

    def write(name: str, **files: str) -> None:
        (tmp_path / name).mkdir()
        for module, text in files.items():
            (tmp_path / name / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    return write


def was_imported() -> bool:
    return bool(getattr(sys, "rarely"))  # noqa: B009 - an attribute of the test


def test_a_module_is_imported_when_an_attribute_is_asked_for(module: str) -> None:
    import_on_first_use([module])
    stand_in = __import__(module)
    assert not was_imported()
    assert stand_in.twice(4) == 8
    assert was_imported()
    assert type(sys.modules[module]) is ModuleType


def test_a_module_that_is_imported_already_stays(module: str) -> None:
    known = __import__(module)
    import_on_first_use([module])
    assert sys.modules[module] is known


def test_a_function_imports_its_module_when_it_is_called(module: str) -> None:
    with functions_on_first_use([module]):
        twice = __import__(module, fromlist=["twice"]).twice
    assert module not in sys.modules
    assert not was_imported()
    assert (twice.__name__, twice(4)) == ("twice", 8)
    assert was_imported()


def test_a_package_that_keeps_the_module_gets_the_module_itself(
    write_package: WritePackage,
) -> None:
    write_package("keeping", __init__="from keeping import kept\n", kept="NUMBER = 7\n")
    with functions_on_first_use(["keeping.kept"]):
        keeping = __import__("keeping")
    assert keeping.kept.NUMBER == 7


LEFT = """
import os, sys
from solscope.late import STANDARD
def leave(code):
    left = [name for name in STANDARD if type(sys.modules[name]).__name__ == "_Late"]
    sys.stderr.write(" ".join(left))
    sys.stderr.flush()
    end(code)
end, os._exit = os._exit, leave
sys.argv = ["solscope", "show", "demo:vllm-b200"]
from solscope.__main__ import main
main()
"""


def test_a_command_on_a_profile_needs_none_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=True)
    assert done.stderr.split() == [*STANDARD]


def test_whoever_looks_for_a_module_finds_it(module: str) -> None:
    import_on_first_use([module])
    assert importlib.util.find_spec(module) is not None
    assert not was_imported()


def test_a_package_that_asks_for_more_than_functions_is_imported_again(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(
        "asks_for_more",
        __init__="from asks_for_more.base import Base\nclass Own(Base):\n    pass\n",
        base="class Base:\n    pass\n",
    )
    with pytest.raises(TypeError), functions_on_first_use(["asks_for_more.base"]):
        importlib.import_module("asks_for_more")
    again = import_again("asks_for_more")
    assert issubclass(again.Own, sys.modules["asks_for_more.base"].Base)
    for name in ("asks_for_more", "asks_for_more.base"):
        monkeypatch.delitem(sys.modules, name)


def test_polars_is_imported_where_what_stands_in_is_not_enough() -> None:
    """A release that does more at import than to pass functions on must not end every command."""
    code = (
        "import sys, contextlib\n"
        "from solscope import late\n"
        "from solscope.cli import libraries\n"
        "@contextlib.contextmanager\n"
        "def breaks(names):\n"
        "    sys.modules.update({name: None for name in names})\n"
        "    try:\n"
        "        yield\n"
        "    finally:\n"
        "        for name in names:\n"
        "            sys.modules.pop(name, None)\n"
        "libraries.functions_on_first_use = breaks\n"
        "libraries.import_polars()\n"
        "import polars\n"
        "assert polars.Series([1, 2]).sum() == 3\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
