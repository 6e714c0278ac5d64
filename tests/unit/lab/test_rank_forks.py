"""Forked ranks give their results, tell why they failed, and are gone when their time is over."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from solscope.lab.ranks.forks import run_all

if not sys.platform.startswith("linux"):
    pytest.skip("the lab is for Linux", allow_module_level=True)


def work(number: int, folder: Path) -> str | None:
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    if number == 1:
        raise ValueError("no such rank")
    if number == 2:
        os._exit(0)
    if number == 3:
        time.sleep(3600)
    return os.environ["OWN"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_results_and_errors_of_all_processes_come_back(tmp_path: Path) -> None:
    each = [((number, tmp_path), {"OWN": f"value {number}"}) for number in range(3)]
    (first, _), (second, error), (third, _) = run_all(work, each, tmp_path, 600)
    assert (first, second, third) == ("value 0", None, None)
    assert "no such rank" in error
    assert "OWN" not in os.environ


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    each: list[tuple[tuple[int, Path], dict[str, str]]] = [((3, tmp_path), {})]
    assert run_all(work, each, tmp_path, 2)[0][0] is None
    pid = tmp_path / "3.pid"
    assert not pid.exists() or not Path("/proc", pid.read_text()).exists()
