"""The hooks of `.pre-commit-config.yaml`: they need no network, and line ends are checked here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]


def _hooks() -> list[dict[str, Any]]:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks: list[dict[str, Any]] = config["repos"][0]["hooks"]
    return hooks


def _script() -> ModuleType:
    path = ROOT / "scripts" / "check_line_ends.py"
    spec = importlib.util.spec_from_file_location("check_line_ends", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _script()


def test_hooks_are_local_and_run_what_make_check_runs() -> None:
    hooks = _hooks()
    assert {hook["language"] for hook in hooks} == {"system"}
    checks = (ROOT / "Makefile").read_text(encoding="utf-8")
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} - {"python"}
    assert tools == {"ruff", "mypy", "lint-imports"}
    assert all(f"$(BIN)/{tool}" in checks for tool in tools)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\n", b"a\n"),
        (b"a", b"a\n"),
        (b"a\n\n\n", b"a\n"),
        (b"a  \nb\t\n", b"a\nb\n"),
        (b"a\r\n", b"a\n"),
        (b"", b""),
        (b"\n\n", b""),
    ],
)
def test_line_ends(tmp_path: Path, text: bytes, expected: bytes) -> None:
    path = tmp_path / "text"
    path.write_bytes(text)
    assert script.main([str(path)]) == int(text != expected)
    assert path.read_bytes() == text
    assert script.main(["--fix", str(path)]) == int(text != expected)
    assert path.read_bytes() == expected


def test_binary_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"a\0  \n")
    assert script.main(["--fix", str(path)]) == 0


def test_line_ends_of_this_project() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    left_out = re.compile(next(hook["exclude"] for hook in _hooks() if hook["id"] == "line-ends"))
    files = [name for name in listed.stdout.split("\0") if name and not left_out.match(name)]
    wrong = []
    for path in (ROOT / name for name in files):
        text = path.read_bytes() if path.is_file() else b""
        if b"\0" not in text and text != script.corrected(text):
            wrong.append(path.relative_to(ROOT).as_posix())
    assert wrong == []
