"""What the operating system keeps a worker from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
