"""What the operating system keeps a worker from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from solscope.bench.catalog import cache_folder
from solscope.bench.pool import spawner
from solscope.bench.pool.process import Limits
from solscope.bench.pool.spawner import Spawner
from solscope.bench.worker.isolation import (
    ALLOW,
    ARCHITECTURES,
    CLONE3,
    CLONE_PARENT,
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    JUMP_SET,
    LOAD,
    MISSING,
    PR_SET_CHILD_SUBREAPER,
    REFUSE,
    RETURN,
    X32,
    filter_program,
)
from solscope.errors import UsageError

I386, ARM = 0x4000_0003, 0x4000_0028
"""AUDIT_ARCH of what else x86_64 and aarch64 run."""
TRY = """
import ctypes, json, os, sys
from solscope.bench.worker.isolation import isolate

folder, level = sys.argv[1:]
found = isolate(level, folder)
read = ctypes.CDLL(None).process_vm_readv(os.getpid(), None, 0, None, 0, 0)
print(json.dumps({"parts": found, "files": os.listdir(folder), "read": read == 0}))
"""


def tried(folder: Path, level: str) -> dict[str, object]:
    """In a process of its own: nothing of this can be undone."""
    command = [sys.executable, "-c", TRY, str(folder), level]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_every_part_holds_or_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("secret")
    full = tried(tmp_path, "full")
    parts = full["parts"]
    assert isinstance(parts, dict)
    assert list(parts) == ["privileges", "namespace", "system calls"]
    assert full["files"] == ([] if parts["namespace"] == "yes" else ["reference.py"])
    assert all(found == "yes" or found.startswith("no: ") for found in parts.values())
    assert full["read"] == (parts["system calls"] != "yes")
    assert (tmp_path / "reference.py").read_text() == "secret"
    assert tried(tmp_path, "off")["parts"] == {}
    assert list(tried(tmp_path, "calls")["parts"]) == ["privileges", "system calls"]  # type: ignore[call-overload]


def answer(
    machine: str, architecture: int, number: int, *arguments: int, siblings: bool = False
) -> int:
    """What the filter returns for a system call: an interpreter of its four instructions."""
    program, at, word = filter_program(machine, siblings=siblings), 0, 0
    while True:
        what, if_so, if_not, constant = program[at]
        at += 1
        if what == RETURN:
            return constant
        if what == LOAD:
            first, second = (*arguments, 0, 0)[:2]
            word = {0: number, 4: architecture, 16: first, 24: second}[constant]
        else:
            holds = {
                JUMP_EQUAL: word == constant,
                JUMP_AT_LEAST: word >= constant,
                JUMP_SET: bool(word & constant),
            }[what]
            at += if_so if holds else if_not


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_refuses_some_calls_and_all_of_another_architecture(machine: str) -> None:
    own, refused, prctl, clone = ARCHITECTURES[machine]
    for number in range(600):
        assert answer(machine, own, number) == (REFUSE if number in refused else ALLOW)
        assert answer(machine, own, X32 + number) == REFUSE
        assert answer(machine, I386, number) == REFUSE
        assert answer(machine, ARM, number) == REFUSE
    for number in range(600):
        found = answer(machine, own, number, 17, siblings=True)
        expected = REFUSE if number in refused else MISSING if number == CLONE3 else ALLOW
        assert found == expected
        assert answer(machine, I386, number, siblings=True) == REFUSE
    assert answer(machine, own, clone, CLONE_PARENT | 17, siblings=True) == REFUSE
    assert answer(machine, own, clone, CLONE_PARENT | 17) == ALLOW
    assert answer(machine, own, prctl, PR_SET_CHILD_SUBREAPER, 0, siblings=True) == REFUSE
    assert answer(machine, own, prctl, PR_SET_CHILD_SUBREAPER, 0) == REFUSE
    assert answer(machine, own, prctl, PR_SET_CHILD_SUBREAPER, 1) == ALLOW
    assert answer(machine, own, prctl, PR_SET_CHILD_SUBREAPER + 1, 0) == ALLOW


def test_an_unknown_level_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("SOLSCOPE_BENCH_ISOLATION", "ful")
    with pytest.raises(UsageError, match=r"SOLSCOPE_BENCH_ISOLATION='ful' is none of full, calls"):
        Spawner(Limits())
    assert not list(tmp_path.iterdir())
    for asked, level in (("off", "off"), ("", "calls")):
        monkeypatch.setenv("SOLSCOPE_BENCH_ISOLATION", asked)
        with Spawner(Limits()) as spawner:
            assert spawner.limits.isolation == level


def test_a_user_without_a_home_can_run_solutions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unknown(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(tmp_path) in spawner._code_folders(tmp_path)
    with pytest.raises(UsageError, match="no home folder; set XDG_CACHE_HOME"):
        cache_folder()
