"""The version of the code in the key of an entry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from solscope.cache import code

READS = """
import sys
from solscope.attribution.opening import open_attributed
open_attributed("demo:vllm-mi300x-graph")
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "solscope" and getattr(module, "__file__", None):
        print(module.__file__)
"""


def version_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(code, "PACKAGE", package)
    return code.code_version.__wrapped__()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    target = tmp_path / "solscope"
    target.mkdir()
    for part in code.PARTS:
        shutil.copytree(code.PACKAGE / part, target / part, ignore=ignored)
    for file in code.PACKAGE.glob("*.py"):
        shutil.copy2(file, target)
    return target


@pytest.mark.parametrize(
    "changed", ["events.py", "readers/kineto.py", "attribution/rules.toml", "cache/tables.py"]
)
def test_an_edit_makes_a_new_version(
    package: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    before = version_of(package, monkeypatch)
    assert version_of(package, monkeypatch) == before
    with (package / changed).open("a") as file:
        file.write("# edited\n")
    assert version_of(package, monkeypatch) != before


def test_a_new_date_makes_a_new_version(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version_of(package, monkeypatch)
    os.utime(package / "profile.py", ns=(1, 1))
    assert version_of(package, monkeypatch) != before


def test_bytecode_does_not_matter(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version_of(package, monkeypatch)
    (package / "readers" / "__pycache__").mkdir()
    (package / "readers" / "__pycache__" / "kineto.pyc").write_bytes(b"")
    assert version_of(package, monkeypatch) == before


def test_all_code_that_reads_and_attributes_is_part_of_the_version() -> None:
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=True)
    used = [Path(line).relative_to(code.PACKAGE).parts for line in done.stdout.splitlines()]
    assert len(used) > 20
    assert {parts[0] for parts in used if len(parts) > 1} <= {*code.PARTS, "demo"}


def test_pages_depend_on_all_of_the_program(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "PACKAGE", package)
    (package / "views").mkdir()
    (package / "views" / "layers.py").write_text("")
    before = code.program_version.__wrapped__(), code.code_version.__wrapped__()
    (package / "views" / "layers.py").write_text("# edited\n")
    after = code.program_version.__wrapped__(), code.code_version.__wrapped__()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_versions_are_the_same_with_and_without_polars() -> None:
    said = "from solscope.cache.code import *; print(code_version(), program_version())"
    printed = {
        subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout
        for text in (said, f"import polars; {said}")
    }
    assert len(printed) == 1
