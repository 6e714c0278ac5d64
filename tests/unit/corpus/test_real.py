"""Real profiles, through the command line: one command, shares that close, engines that agree."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from solscope.cli import run
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from solscope.report.json import render_json

SHARED = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="real profiles are not here: ../shared")
FOLDERS = tuple(
    SHARED / name for name in ("traces", "nsys", "h200/models", "h200/graph", "h200/runs")
)
SOME = (SHARED / "nsys", SHARED / "h200" / "graph")
"""Enough for the default tests: two formats, with and without CUDA graphs, NVTX and metrics."""
PROFILE_NAMES = ("*.json.gz", "*.json.zst", "*.sqlite", "*_kern_sum.csv")
"""What profiles are called there; other files lie beside them."""


@contextmanager
def corpus_command(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A command at work; whatever the test finds, it leaves no process and no open pipe behind."""
    command = [sys.executable, "-m", "solscope", "corpus", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a command prints in the end."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(out)
    return found


def result_of(*words: object) -> dict[str, Any]:
    with corpus_command(*words, "--json") as process:
        return end_of(process)


def contents(*folders: Path) -> set[str]:
    """The SHA-256 of every profile below some folders, whose number may grow at any time."""
    paths = [path for folder in folders for name in PROFILE_NAMES for path in folder.rglob(name)]
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def add_all(store: Path, *folders: Path) -> Corpus:
    """Folders of the shared profiles, added by one command; every profile of them is there."""
    expected = contents(*folders)
    corpus = create_corpus(store)
    added = result_of("add", corpus.url, *folders, "--workers", 2)
    assert added["failed"] == []
    assert corpus.profiles().height == added["added"]
    assert expected <= corpus.known()
    return corpus


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return add_all(tmp_path_factory.mktemp("real") / "store", *SOME)


def test_all_profiles_are_whole(some: Corpus) -> None:
    checked = verify(some)
    assert checked.problems == []
    assert checked.profiles == some.profiles().height


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return add_all(tmp_path_factory.mktemp("real") / "store", SHARED)


@pytest.mark.long
def test_the_whole_folder_is_added_and_no_operator_beats_its_bound(whole: Corpus) -> None:
    assert verify(whole).problems == []
    assert beaten(whole) == []
    assert sum(row.importance_pct for row in importance(whole).rows) == pytest.approx(100)


def test_importance_closes_on_the_command_line(
    some: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    for by in ("operator", "shape", "category", "role", "kernel"):
        assert run(["corpus", "importance", some.url, "--by", by, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        total = sum(row["importance_pct"] for row in found["rows"])
        assert f"{total:.2f}" == "100.00"
        fields = {"key", "importance_pct", "ci95_pct", "profiles", "calls", "p50_us"}
        assert fields | {"bound_p50_us", "s_pct", "recoverable_pct"} <= set(found["rows"][0])
    assert {"definition", "profiles", "total_gpu_ms", "rows"} <= set(found)


def test_what_is_not_mapped_is_a_row(some: Corpus) -> None:
    last = importance(some).rows[-1]
    assert last.key == "(unmapped)"
    assert last.importance_pct > 0


def beaten(corpus: Corpus) -> list[tuple[str, float]]:
    """Operators with an S above 100 %: then a cost, a shape or a bound is wrong."""
    rows = importance(corpus, "shape").rows
    return [(row.key, row.s_pct) for row in rows if row.s_pct is not None and row.s_pct > 100]


def test_no_operator_beats_its_bound(some: Corpus) -> None:
    assert beaten(some) == []


def descendants(process: int) -> dict[int, str]:
    """Ids and command lines of all processes below one."""
    found, waiting = {}, [process]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            for thread in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
    return found


def kill_a_worker(process: subprocess.Popen[str]) -> bool:
    """Kill one Ray worker while it runs a task of ours."""
    while process.poll() is None:
        busy = [pid for pid, name in descendants(process.pid).items() if "ray::process" in name]
        if busy:
            os.kill(busy[0], signal.SIGKILL)
            return True
        time.sleep(0.03)
    return False


def listening(process: int) -> set[str]:
    """IPv4 addresses on which a process and all below it wait for connections."""
    inodes = set()
    for pid in descendants(process):
        with suppress(OSError):
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
            inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address = bytes.fromhex(fields[1].partition(":")[0][-8:])
                found.add(".".join(str(byte) for byte in reversed(address)))
    return found


@pytest.mark.long
@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),
    reason="finding the workers needs /proc with children",
)
def test_ray_gives_the_same_bytes_also_when_a_worker_is_killed(
    tmp_path: Path, whole: Corpus
) -> None:
    pytest.importorskip("ray")
    plain, rayed = only(FOLDERS, whole, tmp_path / "plain"), create_corpus(tmp_path / "ray")
    ray = ("--engine", "ray", "--workers", 2)

    with corpus_command("add", rayed.url, *FOLDERS, *ray, "--json") as process:
        assert kill_a_worker(process), process.communicate()[1]
        assert listening(process.pid) == {"127.0.0.1"}
        result = end_of(process)

    assert result.pop("schema") == "solscope.corpus_add/1"
    assert (result["added"], result["failed"]) == (plain.profiles().height, [])
    assert answers(rayed) == answers(plain)
    assert verify(rayed).ok


def only(folders: tuple[Path, ...], corpus: Corpus, target: Path) -> Corpus:
    """A copy of a store without the profiles of other folders."""
    copy = open_corpus(str(shutil.copytree(corpus.url, target)))
    copy.remove(sorted(copy.known() - contents(*folders)))
    return copy


def answers(corpus: Corpus) -> str:
    """All that the store says, as JSON."""
    kept = ("id", "gpu_ns", "times_rows", "times_sha256", "steps_sha256")
    return render_json(
        [
            *(importance(corpus, by) for by in ("operator", "shape", "kernel", "role")),
            corpus.profiles().select(kept).to_dicts(),
        ]
    )
