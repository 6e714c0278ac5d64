"""The cache under real processes: at the same time, killed, and on a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solscope.cache.content import FINE_NS
from solscope.cache.listing import ENTRIES, WORK, stored
from solscope.cache.settings import FOLDER

DATA = Path(__file__).parents[2] / "data"

LOOK = """
import sys
from solscope.attribution.opening import open_attributed
from solscope.cache import background
rounds, files = int(sys.argv[1]), sys.argv[2:]
for _ in range(rounds):
    for file in files:
        found = open_attributed(file)
        print(file, found.profile.events.height, found.activities["dur_ns"].sum(),
              found.activities["role"].cast(str).unique().sort().to_list(), flush=True)
background.wait()
"""
KILLED = """
import os, signal, sys
import polars as pl
def write(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
pl.DataFrame.write_parquet = write
"""
WRITES_S = 600
SLOW = f"""
import sys, time
import polars as pl
from solscope.cache import background
from solscope.cli import main
wait = background.wait
def announced():
    print("waiting", file=sys.stderr, flush=True)
    wait()
background.wait = announced
pl.DataFrame.write_parquet = lambda *_, **__: time.sleep({WRITES_S})
main(sys.argv[1:])
"""
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
"""


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    files = [tmp_path / "one.json.gz", tmp_path / "two.json.gz"]
    for file in files:
        shutil.copy(DATA / "kineto_b200.json.gz", file)
    time.sleep(2 * FINE_NS / 1e9)
    return [str(file) for file in files]


def start(
    cache: Path, code: str, *arguments: str, max_bytes: int = 1 << 30
) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "SOLSCOPE_NO_CACHE": "",
        "SOLSCOPE_CACHE_DIR": str(cache.parent),
        "SOLSCOPE_CACHE_MIN_BYTES": "0",
        "SOLSCOPE_CACHE_MAX_BYTES": str(max_bytes),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    """The distinct lines that it printed."""
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return sorted(set(out.splitlines()))


@pytest.mark.long
def test_processes_write_read_and_evict_at_the_same_time(tmp_path: Path, traces: list[str]) -> None:
    cache, alone = tmp_path / "cache" / FOLDER, tmp_path / "alone" / FOLDER
    expected = finish(start(alone, LOOK, "1", *traces))
    largest = max(entry.bytes for entry in stored(alone))
    # Room for some of the four entries: every process evicts what the others read and write.
    running = [start(cache, LOOK, "15", *traces, max_bytes=2 * largest) for _ in range(3)]
    assert [finish(process) for process in running] == [expected] * 3
    assert list((cache / WORK).iterdir()) == []
    assert sum(entry.bytes for entry in stored(cache)) <= 2 * largest


def test_two_processes_write_the_same_entry(tmp_path: Path, traces: list[str]) -> None:
    cache = tmp_path / "cache" / FOLDER
    running = [start(cache, LOOK, "1", traces[0]) for _ in range(2)]
    first, second = [finish(process) for process in running]
    assert first == second
    assert len(stored(cache)) == 2  # read and attributed
    assert list((cache / WORK).iterdir()) == []


def test_what_a_killed_process_leaves_is_no_entry(tmp_path: Path, traces: list[str]) -> None:
    cache = tmp_path / "cache" / FOLDER
    killed = start(cache, KILLED + LOOK, "1", traces[0])
    killed.communicate(timeout=300)
    assert killed.returncode == -9
    assert list((cache / ENTRIES).iterdir()) == []
    assert len(list((cache / WORK).iterdir())) == 1
    finish(start(cache, LOOK, "1", traces[0]))
    assert len(stored(cache)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_an_interrupt_ends_the_wait_for_the_writer(tmp_path: Path, traces: list[str]) -> None:
    with start(tmp_path / "cache" / FOLDER, SLOW, "show", traces[0]) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WRITES_S / 2)
    assert (process.returncode, err.replace("waiting\n", "")) == (0, "")
    assert "kernel" in out


def test_a_program_that_ends_waits_for_the_writer(tmp_path: Path, traces: list[str]) -> None:
    cache = tmp_path / "cache" / FOLDER
    finish(start(cache, LOOK.replace("background.wait()", ""), "1", traces[0]))
    assert len(stored(cache)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are of POSIX")
def test_a_full_disk_is_no_error(tmp_path: Path, traces: list[str]) -> None:
    cache = tmp_path / "cache" / FOLDER
    assert finish(start(cache, FULL + LOOK, "1", *traces)) == finish(
        start(tmp_path / "other" / FOLDER, LOOK, "1", *traces)
    )
    assert stored(cache) == []
    assert list((cache / WORK).iterdir()) == []
