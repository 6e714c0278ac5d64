"""A worker process from the evaluator's side: ask with a time limit, stop, kill.

Each request carries a number drawn at random, which the reply must repeat.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from solscope.bench.base import Status
from solscope.bench.worker.messages import (
    Answer,
    AnyRequest,
    Asked,
    Failure,
    R,
    Request,
    reply_type,
)
from solscope.bench.worker.signals import send

MAX_REPLY_BYTES = 16 << 20
"""A longer reply is none of a worker's."""
STDERR_CHARACTERS = 1500
"""Characters of a dead worker's stderr that are shown."""
CPUCLOCK_SCHED = 2
"""CPUCLOCK_SCHED of the kernel's posix-timers.h: time as the scheduler counts it."""
CHILDREN_TICKS = 13
"""Where `cutime` is in /proc/PID/stat, and `cstime` after it, counted from behind the name."""
CHILDREN_BYTES = 1 << 16
"""Read at once from a list of child processes."""
MAX_REASON = 2000
"""Characters of a reason that are shown and written, as in `worker/outputs.py`."""


class Stopped(Exception):  # noqa: N818 - no error: somebody stopped the run
    """No worker is started any more."""


class WorkerFailed(Exception):  # noqa: N818 - a finding about a solution, no error of ours
    """A request that was not answered with a result: the status it means, and why."""

    def __init__(self, status: Status, reason: str, *, dead: bool) -> None:
        self.reason = clean_text(reason)
        super().__init__(self.reason)
        self.status: Status = status
        self.dead = dead


def clean_text(text: str) -> str:
    """A text that a worker may have forged, as it can be printed and written.

    JSON can hold half of a surrogate pair, which UTF-8 cannot: writing the result would fail.
    """
    return text[:MAX_REASON].encode("utf-8", "backslashreplace").decode()[:MAX_REASON]


@dataclass(frozen=True)
class Limits:
    """What a worker may use."""

    threads: int = 1
    memory_bytes: int | None = None
    """Address space on the CPU."""
    timeout_s: float = 60.0
    """For one request."""
    first_s: float = 300.0
    """For a request that may compile."""
    isolation: str = "calls"
    """What the operating system keeps workers from: `full`, `calls` (system calls alone), `off`."""


@dataclass
class Worker:
    """One live worker process."""

    pid: int
    source: int
    target: int
    log: IO[bytes]
    exit_code: Callable[[], int]
    """Waits for the end of the process; its code, negative for a signal."""
    _waiting: bytes = b""
    _number: str = ""
    opened: dict[str, int] = field(default_factory=dict)
    """Which generation of each arena this worker has mapped."""
    ending: bool = False
    """Dismissed, but nobody waited for its end yet."""
    busy: bool = False
    """Whether it has yet to answer: until then it would not see another request."""

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until it has started; false when it ended instead."""
        return bool(self._line(timeout_s).get("ready"))

    def ask(self, request: Request[R], timeout_s: float) -> R:
        """Send a request and wait for its reply."""
        self.post(request)
        return self.answer(request, timeout_s)

    def post(self, request: Request[R]) -> None:
        """Send a request without waiting."""
        self._number = secrets.token_hex(16)
        asked = Asked(self._number, cast("AnyRequest", request))
        # Not msgspec's own JSON, which writes null for the infinities that an input may be.
        data = json.dumps(msgspec.to_builtins(asked)).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.target, data) :]
        except BrokenPipeError:
            raise self.dead() from None
        self.busy = True

    def answer(self, request: Request[R], timeout_s: float) -> R:
        """The reply to a request that was posted; else WorkerFailed."""
        message = self._line(timeout_s)
        self.busy = False
        if message.get("number") != self._number:
            self.kill()
            raise WorkerFailed("cheating", "a reply that was not asked for", dead=True)
        try:
            answer, result = read_answer(request, message)
        except msgspec.ValidationError:
            raise self._garbled() from None
        if answer.refused:
            self.kill()
            raise WorkerFailed("cheating", answer.refused[0], dead=True)
        if answer.replaced:
            self.kill()
            raise WorkerFailed("cheating", f"replaced {', '.join(answer.replaced)}", dead=True)
        if answer.failure is not None or result is None:
            failure = answer.failure or Failure("crashed", "no result")
            raise WorkerFailed(failure.status, failure.reason, dead=False)
        return result

    def _line(self, timeout_s: float) -> dict[str, Any]:
        end = time.monotonic() + timeout_s
        while b"\n" not in self._waiting:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                self.kill()
                raise WorkerFailed("timeout", f"no answer within {timeout_s:.0f} s", dead=True)
            more = os.read(self.source, 1 << 20)
            if not more:
                raise self.dead()
            self._waiting += more
            if len(self._waiting) > MAX_REPLY_BYTES:
                raise self._garbled()
        line, _, self._waiting = self._waiting.partition(b"\n")
        try:
            reply = json.loads(line)
            return dict(reply)
        except (ValueError, TypeError, RecursionError):
            raise self._garbled() from None

    def _garbled(self) -> WorkerFailed:
        """Only a solution that writes to the evaluator's pipe can have sent this."""
        self.kill()
        return WorkerFailed("cheating", "the reply is not a valid message", dead=True)

    def dead(self) -> WorkerFailed:
        """The pipe is closed: find out how the process ended."""
        self.signal()
        code = self.exit_code()
        tail = self.stderr()
        self._close()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return WorkerFailed("crashed", f"the process ended ({how}){tail}", dead=True)

    def stderr(self) -> str:
        """The end of what the process wrote to stderr, after a colon."""
        try:
            self.log.seek(0, os.SEEK_END)
            self.log.seek(max(0, self.log.tell() - STDERR_CHARACTERS))
            text = self.log.read().decode("utf-8", "replace").strip()
        except ValueError:  # closed already
            return ""
        return f": {text}" if text else ""

    @property
    def alive(self) -> bool:
        """Whether it may be asked."""
        return self.source != -1

    def stop(self) -> None:
        """Stop the process and what it started until it may go on."""
        self._to_all(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process go on."""
        self._to_all(signal.SIGCONT)

    def watches_stops(self) -> bool:
        """Whether it has itself told when it goes on: its inputs were written then."""
        mask = 1 << (signal.SIGCONT - 1)
        try:
            text = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:  # Linux alone tells
            return False
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        masks = [int(fields.get(name, "0"), 16) for name in ("SigCgt", "SigBlk")]
        return any(found & mask for found in masks)

    def cpu_s(self) -> float:
        """Processor time of the process and of all that it started, by the system's own account."""
        return sum(_cpu_s(pid) for pid in [self.pid, *_descendants(self.pid)])

    def _to_all(self, number: int) -> None:
        """Send a signal to the process, its group, and processes that it started elsewhere.

        One that starts another before the signal arrives is found by looking again.
        """
        reached: set[int] = set()
        new = {self.pid}  # at once: to look for the others takes time
        while new:
            for pid in new:
                send(pid, number)
            reached |= new
            new = set(_descendants(self.pid)) - reached

    def kill(self) -> None:
        """End the process and everything it started; it writes to shared memory no more."""
        self.signal()
        self.exit_code()
        self._close()

    def dismiss(self) -> None:
        """End a process that has let go of the shared memory, without waiting for it.

        A process that used a GPU takes seconds to end; `Spawner.settle` waits for all together.
        """
        self.signal()
        self.ending = True
        self._close()

    def signal(self) -> None:
        """Send the process and everything it started the signal that nobody survives."""
        self.stop()  # or what it started could start more meanwhile
        for pid in (*_descendants(self.pid), self.pid):
            send(pid, signal.SIGKILL)

    def _close(self) -> None:
        for descriptor in (self.source, self.target):
            os.close(descriptor)
        self.source = self.target = -1
        self.log.close()


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of children that it waited for; 0 where nobody can say.

    Linux has a clock for every process, whose number is made of the process id.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
        own = time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[CHILDREN_TICKS]) + int(fields[CHILDREN_TICKS + 1])
        return own + ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


def _descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that these started.

    A worker also adopts those that their own parents left (`worker/fork_server.py`).
    """
    pids: list[int] = []
    waiting = [pid]
    while waiting:  # one open folder at a time, however deep they are
        found: list[int] = []
        with contextlib.suppress(OSError), os.scandir(f"/proc/{waiting.pop()}/task") as threads:
            for thread in threads:
                found += _children(thread.path)
        pids += found
        waiting += found
    return pids


def _children(thread: str) -> list[int]:
    """Processes that a thread started. A worker has many threads, looked at often: no buffers."""
    with contextlib.suppress(OSError):
        found, listed = b"", os.open(f"{thread}/children", os.O_RDONLY)
        try:
            while more := os.read(listed, CHILDREN_BYTES):
                found += more
        finally:
            os.close(listed)
        return [int(child) for child in found.split()]
    return []  # it ended: its children are another thread's by now


def read_answer(request: Request[R], message: dict[str, Any]) -> tuple[Answer, R | None]:
    """A reply in its form, and its result; ValidationError when either has another one.

    What shares a worker's process can write to its pipe, so nothing of it is believed as it comes.
    """
    answer = msgspec.convert(message, Answer)
    if answer.failure is not None:
        return answer, None
    return answer, msgspec.convert(answer.result, reply_type(request))
