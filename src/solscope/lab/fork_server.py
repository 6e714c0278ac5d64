"""The fork server of the lab: a small process, started before the loop, that forks hogs.

Hogs start fast (torch is imported already, CUDA is not), are outside the loop's control group, and
do not descend from the loop's process: its sensors count them as other processes. They are killed
on request, when the fork server ends, which it does when the recorder ends, and after `LIMIT_S`.
Commands are lines of JSON on its standard input.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from solscope.errors import SolscopeError
from solscope.lab.hogs import HOGS, LIMIT_S, shared_dose

_PR_SET_PDEATHSIG = 1
READY_S = 20.0
"""A hog must be ready within this time: importing torch and starting CUDA take seconds."""
END_S = 10.0
"""The fork server must end within this time; it is killed otherwise."""


class HogError(SolscopeError):
    """A hog did not start; the message says why."""


class Hogs:
    """Running hogs of one kind, and their dose."""

    def __init__(self, memory: mmap.mmap, pids: list[int]) -> None:
        self._memory = memory
        self.pids = pids

    def set(self, dose: float) -> None:
        """The share of the time, 0 to 1, that each of them works."""
        self._memory[:8] = struct.pack("d", dose)


class ForkServer:
    """The fork server, as the recorder sees it."""

    def __init__(self, cores: set[int], with_torch: bool) -> None:
        command = [sys.executable, "-m", "solscope.lab.fork_server"]
        self._process = subprocess.Popen(
            [*command, "torch" if with_torch else "plain", json.dumps(sorted(cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        # The process forks the server and ends at once, so that the server is not our child.
        self._process.wait()
        self._was_asked = False

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and all its children."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        # One that was asked for nothing has nothing to end, and may be importing torch.
        if not self._was_asked or not self._ends():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.stdout.close()

    def _ends(self) -> bool:
        """Whether the fork server ends in time: its output is closed then."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], END_S)[0])

    @contextmanager
    def hogs(
        self, kind: str, count: int, cores: set[int] | None = None, **arguments: int
    ) -> Iterator[Hogs]:
        """Run `count` hogs of a kind, at first idle, on `cores` (all when left out)."""
        with tempfile.NamedTemporaryFile(prefix="solscope-dose-") as file:
            file.write(bytes(8))
            file.flush()
            memory = mmap.mmap(file.fileno(), 8)
            request = {
                "kind": kind,
                "count": count,
                "cores": sorted(cores) if cores else None,
                "arguments": arguments,
                "dose": file.name,
            }
            answer = self._ask(request)
            if "error" in answer:
                raise HogError(f"{kind}: {answer['error']}")
            hogs = Hogs(memory, answer["pids"])
            try:
                yield hogs
            finally:
                hogs.set(0.0)
                self._ask({"kill": answer["pids"]})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._was_asked = True
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError) as error:
            raise HogError(f"the process that starts hogs is gone ({error})") from error
        if not line:
            raise HogError("the process that starts hogs is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer


class _Child(NamedTuple):
    pid: int
    stops: int | None
    """The process that it stops and continues."""


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Serve commands until standard input is closed."""
    if os.fork():
        os._exit(0)
    os.sched_setaffinity(0, json.loads(sys.argv[2]))
    if sys.argv[1] == "torch":
        import torch

        torch.set_num_threads(1)
    children: dict[int, _Child] = {}
    try:
        for line in _lines(children):
            request = json.loads(line)
            if "kill" in request:
                for pid in request["kill"]:
                    _end(children, pid)
                answer: dict[str, Any] = {}
            else:
                answer = _start(children, request)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        for pid in list(children):
            _end(children, pid)
    return 0


def _lines(children: dict[int, _Child]) -> Iterator[bytes]:
    """Command lines; meanwhile children that ended by themselves are reaped."""
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.2)
        for pid in list(children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                _continue(children.pop(pid))
        if readable:
            data = os.read(0, 65536)
            if not data:
                return
            *whole, pending = (pending + data).split(b"\n")
            yield from whole


def _start(children: dict[int, _Child], request: dict[str, Any]) -> dict[str, Any]:
    started = []
    error = ""
    pipes = []
    for number in range(request["count"]):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            _run(request, number, write)
        os.close(write)
        children[pid] = _Child(pid, request["arguments"].get("pid"))
        started.append(pid)
        pipes.append(read)
    deadline = time.monotonic() + READY_S
    for read in pipes:
        readable, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        message = os.read(read, 4096) if readable else b"not ready in time"
        os.close(read)
        if message != b"ready":
            error = message.decode(errors="replace") or "ended at once"
    if error:
        for pid in started:
            _end(children, pid)
        return {"error": error}
    return {"pids": started}


def _run(request: dict[str, Any], number: int, write: int) -> None:
    """Be a hog, in a child; never returns."""
    try:
        os.setpgid(0, 0)
        die_with_parent()
        signal.alarm(LIMIT_S)
        cores = request["cores"]
        if cores:
            os.sched_setaffinity(0, {cores[number % len(cores)]})
        with Path(request["dose"]).open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 8)
        os.close(0)
        HOGS[request["kind"]](
            shared_dose(memory), lambda: _send(write, b"ready"), **request["arguments"]
        )
    except BaseException as error:  # noqa: BLE001 - a worker's boundary: sent to the parent
        _send(write, f"{type(error).__name__}: {error}"[:2000].encode())
    finally:
        os._exit(1)


def _send(write: int, text: bytes) -> None:
    os.write(write, text)
    os.close(write)


def _end(children: dict[int, _Child], pid: int) -> None:
    child = children.pop(pid, None)
    if child is None:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    _continue(child)


def _continue(child: _Child) -> None:
    """A process that was being stopped and continued must not stay stopped."""
    if child.stops is not None:
        with suppress(ProcessLookupError):
            os.kill(child.stops, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
