"""Processes that are started from a script without a guard."""

from __future__ import annotations

import subprocess
import sys
from multiprocessing.spawn import get_preparation_data
from pathlib import Path

import pytest

from solscope.spawning import without_main

SCRIPT = """
import solscope
print(len(solscope.open_run("demo:ranks", processes=2).ranks))
"""


def test_a_process_is_not_told_of_the_main_module() -> None:
    main = sys.modules["__main__"]
    with without_main():
        told = get_preparation_data("worker")
    assert not {"init_main_from_name", "init_main_from_path"} & told.keys()
    assert sys.modules["__main__"] is main


@pytest.mark.long
def test_ranks_are_read_from_a_script_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")
