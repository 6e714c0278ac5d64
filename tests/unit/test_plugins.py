"""Plug-ins of other packages: they are found, and a bad one is named and harms nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

import solscope
from solscope import readers
from solscope.cli import run
from solscope.environment import examine
from solscope.errors import InputError, UnknownFormatError
from solscope.profile import Profile
from solscope.readers.base import Head, ReadOptions
from solscope.readers.offered import offered
from tests.making import event, profile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATE = Path(__file__).parents[2] / "examples" / "solscope-plugin-template"


@pytest.mark.long
def test_template_passes_its_own_tests_once_it_is_installed(tmp_path: Path) -> None:
    """Installed as pip does it: a folder on the path and its entry points beside it."""
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = tmp_path / "acme_solscope-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-solscope\nVersion: 0.1.0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    source = str(Path(solscope.__file__).parents[1])
    path = os.pathsep.join([str(tmp_path), str(TEMPLATE / "src"), source])
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(TEMPLATE / "tests")],
        cwd=TEMPLATE,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "5 passed" in result.stdout


# --- Bad ones


class Acme:
    """A reader of files that begin with its name; what it does can be replaced."""

    summary = "made for a test"

    def __init__(self, name: str, sniff: Any = None, read: Any = None) -> None:
        self.name = name
        self._sniff = sniff or (lambda head: head.data.startswith(name.encode()))
        self._read = read or (lambda path: profile(event("kernel", "gemm", 0, 10)))

    def sniff(self, head: Head) -> bool:
        return bool(self._sniff(head))

    def read(self, path: Path, options: ReadOptions) -> Profile:
        made: Profile = self._read(path)
        return made


class Point(EntryPoint):
    """An entry point whose object is at hand, or an exception."""

    def load(self) -> Any:
        found = OBJECTS[self.value]
        if isinstance(found, Exception):
            raise found
        return found


OBJECTS: dict[str, Any] = {}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Offers objects as entry points of a group."""
    points: list[Point] = []

    def offer(group: str, name: str, made: Any) -> None:
        value = f"package:{len(points)}"
        OBJECTS[value] = made
        points.append(Point(name, value, group))

    def listed(**wanted: Any) -> EntryPoints:
        return EntryPoints(points).select(**wanted)

    monkeypatch.setattr(importlib.metadata, "entry_points", listed)
    for cached in (offered, readers.readers):
        cached.cache_clear()
    yield offer
    for cached in (offered, readers.readers):
        cached.cache_clear()
    OBJECTS.clear()


def raising(*_: object) -> Any:
    raise ZeroDivisionError("division by\nzero")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.acme"
    path.write_text("acme 1\n")
    return path


def test_reader_of_another_package_is_used(install: Any, recording: Path) -> None:
    install("solscope.readers", "acme", Acme("acme"))
    assert solscope.open(recording).warnings == ()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Acme("bad", sniff=raising), "ZeroDivisionError: division by zero"),
        (ImportError("no module named 'gone'"), "ImportError: no module named 'gone'"),
        (object(), "TypeError: it has no name"),
        (Acme("kineto"), "the name 'kineto' is taken"),
    ],
    ids=["sniff", "import", "no reader", "taken"],
)
def test_bad_reader_is_named_and_the_others_go_on(
    install: Any, recording: Path, tmp_path: Path, bad: Any, reason: str
) -> None:
    install("solscope.readers", "bad", bad)
    install("solscope.readers", "acme", Acme("acme"))
    (warning,) = solscope.open(recording).warnings
    assert warning.code == "reader_failed"
    assert warning.message == f"reader 'bad' was left out: {reason}"
    # Built-in formats do not even ask.
    assert solscope.open("demo:vllm-mi300x-graph").format == "kineto"
    other = tmp_path / "notes.txt"
    other.write_text("nothing of interest\n")
    with pytest.raises(UnknownFormatError, match="reader 'bad' was left out"):
        solscope.open(other)


def test_doctor_lists_readers_that_cannot_be_loaded(install: Any) -> None:
    install("solscope.readers", "bad", ImportError("gone"))
    listed = {part.name: part for part in examine().readers}
    assert not listed["bad"].ok
    assert listed["kineto"].ok


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (raising, "reader 'acme' failed: ZeroDivisionError: division by zero"),
        (lambda path: {}, "reader 'acme' returned dict, not a Profile"),
    ],
    ids=["raises", "returns something else"],
)
def test_reader_that_fails_to_read_is_one_line_and_exit_code_2(
    install: Any, recording: Path, capsys: pytest.CaptureFixture[str], read: Any, message: str
) -> None:
    install("solscope.readers", "acme", Acme("acme", read=read))
    with pytest.raises(InputError, match=message):
        solscope.open(recording)
    assert run(["show", str(recording)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_rules_that_cannot_be_loaded_are_one_line(
    install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install("solscope.rules", "acme", ImportError("gone"))
    assert run(["show", "demo:vllm-mi300x-graph", "--rules", "acme"]) == 2
    assert "rules 'acme' cannot be loaded: ImportError: gone" in capsys.readouterr().err
    assert run(["show", "demo:vllm-mi300x-graph", "--rules", "other"]) == 2
    assert "other: cannot be read" in capsys.readouterr().err


def test_rules_that_two_packages_offer_are_not_chosen_by_chance(
    install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install("solscope.rules", "acme", "one.toml")
    install("solscope.rules", "acme", "other.toml")
    assert run(["show", "demo:vllm-mi300x-graph", "--rules", "acme"]) == 2
    assert "several packages offer rules 'acme'" in capsys.readouterr().err
