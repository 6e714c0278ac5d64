"""Hogs start, work as much as asked, and are gone afterwards, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from solscope.capture.process import descends
from solscope.lab.fork_server import ForkServer, HogError

if not sys.platform.startswith("linux"):
    pytest.skip("the lab is for Linux", allow_module_level=True)


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    with ForkServer(os.sched_getaffinity(0), with_torch=False) as fork_server:
        yield fork_server


def cpu_s(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + 300
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_hog_works_when_it_has_a_dose_and_is_killed_at_the_end(fork_server: ForkServer) -> None:
    with fork_server.hogs("spin", 2) as hogs:
        first, second = hogs.pids
        wait_for(lambda: state(first) == "S" and state(second) == "S")
        started, start = (cpu_s(first), cpu_s(second)), time.monotonic()
        time.sleep(0.05)
        spent = cpu_s(first) - started[0]
        assert spent < 0.5 * (time.monotonic() - start), "idle until it gets a dose"
        hogs.set(1.0)
        wait_for(lambda: cpu_s(first) > started[0] + 0.05 and cpu_s(second) > started[1] + 0.05)
    assert gone(first)
    assert gone(second)


def test_a_server_that_was_asked_for_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, kill = [], os.killpg

    def killpg(group: int, number: int) -> None:
        ended.append((group, number))
        kill(group, number)

    monkeypatch.setattr("solscope.lab.fork_server.os.killpg", killpg)
    monkeypatch.setattr(ForkServer, "_ends", lambda _: pytest.fail("it is waited for"))
    with ForkServer(os.sched_getaffinity(0), with_torch=True) as fork_server:
        group = fork_server._process.pid
    assert ended == [(group, signal.SIGKILL)]


def test_hogs_do_not_descend_from_the_loop(fork_server: ForkServer) -> None:
    with fork_server.hogs("spin", 1) as hogs:
        assert not descends(hogs.pids[0], os.getpid())


def test_hogs_stay_on_their_cores(fork_server: ForkServer) -> None:
    core = min(os.sched_getaffinity(0))
    with fork_server.hogs("spin", 1, cores={core}) as hogs:
        assert os.sched_getaffinity(hogs.pids[0]) == {core}


def test_memory_is_copied(fork_server: ForkServer) -> None:
    with fork_server.hogs("stream_memory", 1, megabytes=4) as hogs:
        hogs.set(1.0)
        wait_for(lambda: cpu_s(hogs.pids[0]) > 0.2)


@pytest.fixture
def victim() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child.pid
        child.kill()


def test_a_process_that_was_stopped_continues_when_the_hog_is_killed(
    fork_server: ForkServer, victim: int
) -> None:
    with fork_server.hogs("stop_and_continue", 1, pid=victim) as hogs:
        hogs.set(0.9)
        wait_for(lambda: state(victim) == "T")
        os.kill(hogs.pids[0], signal.SIGKILL)
        wait_for(lambda: gone(hogs.pids[0]))
        wait_for(lambda: state(victim) == "S")
    assert state(victim) == "S"


def test_a_hog_that_cannot_start_says_why(fork_server: ForkServer) -> None:
    with (
        pytest.raises(HogError, match="spin: TypeError"),
        fork_server.hogs("spin", 1, nonsense=1),
    ):
        pass
    with fork_server.hogs("spin", 1) as hogs:
        assert len(hogs.pids) == 1, "the fork server goes on"


def test_all_hogs_end_with_the_fork_server() -> None:
    fork_server = ForkServer(os.sched_getaffinity(0), with_torch=False)
    with ExitStack() as stack:
        pid = stack.enter_context(fork_server.hogs("spin", 1)).pids[0]
        fork_server.close()
        assert gone(pid)
        with pytest.raises(HogError, match="is gone"):
            stack.close()


def test_all_hogs_end_with_the_recorder() -> None:
    code = (
        "import os, time; from solscope.lab.fork_server import ForkServer;"
        "hogs = ForkServer(os.sched_getaffinity(0), False).hogs('spin', 1).__enter__();"
        "print(hogs.pids[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None
        pid = int(recorder.stdout.readline())
        recorder.kill()
    wait_for(lambda: gone(pid))
