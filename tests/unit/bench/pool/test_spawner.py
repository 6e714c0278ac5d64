"""What workers run: a copy of a package, with its compiled modules."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import pytest

from solscope.bench.pool import spawner
from solscope.bench.pool.process import Limits
from solscope.bench.pool.spawner import COPIED, Spawner


def test_compiled_modules_are_valid_in_the_copy_and_unfinished_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "worker" / "one.py"
    source.parent.mkdir()
    source.write_text("VALUE = 1\n", encoding="utf-8")
    os.utime(source, (1_000_000_000, 1_000_000_000))
    compiled = Path(str(py_compile.compile(str(source))))
    compiled.with_name(f"{compiled.name}.281473").write_bytes(b"half")
    monkeypatch.setattr(spawner, "WORKER", source.parent)
    with Spawner(Limits()) as started:
        copy = started.folder / COPIED
        assert (copy / "one.py").stat().st_mtime == 1_000_000_000  # compiled modules name it
        assert [path.name for path in (copy / "__pycache__").iterdir()] == [compiled.name]
        assert (copy / "__pycache__" / compiled.name).read_bytes() == compiled.read_bytes()
