"""A worker together with all that it started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from solscope.bench.pool.process import Worker, _descendants
from solscope.bench.pool.slot import leave
from solscope.bench.worker.messages import Answer, Asked, Done, DropOutputs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
PARENT = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    while True:
        pass
os.wait()
time.sleep(600)
"""
"""Leaves a process that belongs to nobody else and takes all the time there is."""


@pytest.fixture
def worker() -> Iterator[tuple[Worker, int]]:
    command = [sys.executable, "-c", PARENT]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    with tempfile.TemporaryFile() as log:
        yield Worker(process.pid, -1, -1, log, process.wait), left
    for pid in (process.pid, left):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
    process.stdout.close()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def until(pid: int, states: str) -> bool:
    end = time.monotonic() + 20
    while state(pid) not in states.split():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_processor_time_is_that_of_all_that_a_worker_started(worker: tuple[Worker, int]) -> None:
    one, left = worker
    assert one.pid != left
    end = time.monotonic() + 20
    while one.cpu_s() < 0.5:  # the worker itself sleeps
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_a_worker_left_stops_and_ends_with_it(worker: tuple[Worker, int]) -> None:
    one, left = worker
    one.stop()
    assert until(one.pid, "T")
    assert until(left, "T")
    one.go_on()
    assert until(left, "R")
    one.signal()
    assert until(left, "gone Z X")


def test_one_that_has_yet_to_answer_is_not_asked_to_leave(worker: tuple[Worker, int]) -> None:
    """It may hang: a run that is interrupted would wait for it."""
    one, _ = worker
    requests, replies = os.pipe(), os.pipe()
    one.source, one.target = replies[0], requests[1]
    one.post(DropOutputs())
    asked = msgspec.json.decode(os.read(requests[0], 1 << 16), type=Asked)
    slot: Any = Mock(_worker=one)
    assert leave([slot]) == [one]
    os.set_blocking(requests[0], False)
    with pytest.raises(BlockingIOError):
        os.read(requests[0], 1)
    os.write(replies[1], msgspec.json.encode(Answer(asked.number, [], [], result=Done())) + b"\n")
    one.answer(DropOutputs(), 10.0)
    assert not one.busy
    for descriptor in (*requests, *replies):
        os.close(descriptor)


CHAIN = """
import os, signal, sys
for _ in range(int(sys.argv[1])):
    if os.fork():
        signal.pause()
print("all", flush=True)
signal.pause()
"""


def test_a_long_chain_of_processes_is_found_to_its_end() -> None:
    """With no more open files than it takes for one of them."""
    command = [sys.executable, "-c", CHAIN, "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as head:
        assert head.stdout is not None
        head.stdout.readline()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = len(os.listdir("/proc/self/fd")) + 8  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, limits[1]))
        try:
            found = _descendants(head.pid)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            os.killpg(head.pid, signal.SIGKILL)
    assert len(found) == len(set(found)) == 40
