"""Worker processes from the evaluator's side: start, ask with a time limit, kill.

Each request carries a number drawn at random, which the reply must repeat.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from solscope.bench.base import Status
from solscope.bench.pool.arena import ARENAS
from solscope.bench.worker.isolation import LEVELS
from solscope.bench.worker.messages import (
    Answer,
    AnyRequest,
    Asked,
    Failure,
    R,
    Request,
    reply_type,
)
from solscope.errors import MissingToolError, UsageError

PACKAGE = Path(__file__).parents[2]
"""The folder of solscope, which workers may not read."""
WORKER = PACKAGE / "bench" / "worker"
"""The package that runs in a worker; it is copied, so that a worker needs nothing else of ours."""
COPIED = "solscope_worker"
"""The name of the copy."""
START_S = 180.0
"""A worker that has not imported torch by then is given up."""
ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Many workers compile at a time: each by itself, into the cache that all share."""
MAX_REPLY_BYTES = 16 << 20
"""A longer reply is none of a worker's."""
STDERR_CHARACTERS = 1500
"""Characters of a dead worker's stderr that are shown."""
CPUCLOCK_SCHED = 2
"""CPUCLOCK_SCHED of the kernel's posix-timers.h: time as the scheduler counts it."""
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
            raise self._dead() from None

    def answer(self, request: Request[R], timeout_s: float) -> R:
        """The reply to a request that was posted; else WorkerFailed."""
        message = self._line(timeout_s)
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
                raise self._dead()
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

    def _dead(self) -> WorkerFailed:
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

    def cpu_s(self) -> float:
        """Processor time of the process, by the system's own account of it; 0 where there is none.

        Linux has a clock for every process, whose number is made of the process id.
        """
        with contextlib.suppress(OSError, AttributeError):
            return time.clock_gettime((~self.pid << 3) | CPUCLOCK_SCHED)
        return 0.0

    def _to_all(self, number: int) -> None:
        """Send a signal to the process, its group, and processes that it started elsewhere."""
        for pid in [self.pid, *_descendants(self.pid)]:
            for send in (os.killpg, os.kill):  # it leads no group before it has its own session
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(pid, number)

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
        for end in (os.killpg, os.kill):  # it leads no group before it has a session of its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)

    def _close(self) -> None:
        for descriptor in (self.source, self.target):
            os.close(descriptor)
        self.source = self.target = -1
        self.log.close()


def _descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that these started."""
    pids: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            children = [int(child) for child in listed.read_text().split()]
            pids += [
                descendant for child in children for descendant in (child, *_descendants(child))
            ]
    return pids


def read_answer(request: Request[R], message: dict[str, Any]) -> tuple[Answer, R | None]:
    """A reply in its form, and its result; ValidationError when either has another one.

    What shares a worker's process can write to its pipe, so nothing of it is believed as it comes.
    """
    answer = msgspec.convert(message, Answer)
    if answer.failure is not None:
        return answer, None
    return answer, msgspec.convert(answer.result, reply_type(request))


def start_process(
    command: list[str], theirs: socket.socket, log: IO[bytes], folder: Path
) -> subprocess.Popen[bytes]:
    """Run `command` in a session of its own; its last argument is their end of the socket."""
    return subprocess.Popen(
        [*command, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
    )


class ForkServer:
    """A process with torch in it that starts workers; see `worker/fork_server.py`."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.channel, theirs = socket.socketpair()
        config = {
            "paths": _paths(),
            "forbidden": [f"{PACKAGE}{os.sep}", f"/proc/{os.getpid()}/"],
            "code": _code_folders(folder),
            "isolation": limits.isolation,
            "memory_bytes": limits.memory_bytes,
            "threads": limits.threads,
            "arenas": ARENAS,
            "folder": str(folder),
            "evaluator": os.getpid(),
        }
        self.log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives with the process
        command = [sys.executable, "-I", str(folder / COPIED / "start.py"), json.dumps(config)]
        self.process = start_process(command, theirs, self.log, folder)
        theirs.close()
        self._ready = False
        self._lock = threading.Lock()
        self.isolation: dict[str, str] = {}
        """By part, `yes` or why the kernel refused it; known when it has started."""

    def _receive(self) -> bytes:
        if not select.select([self.channel], [], [], START_S)[0]:
            raise MissingToolError(f"a worker process did not start within {START_S:.0f} s")
        message = self.channel.recv(4096)
        if not message:
            self.log.seek(0)
            text = self.log.read().decode("utf-8", "replace").strip().splitlines()
            raise MissingToolError(f"a worker process did not start: {text[-1] if text else ''}")
        return message

    @property
    def alive(self) -> bool:
        """Whether it can start workers."""
        return self.process.poll() is None

    def start(self, folder: Path, *, fork: bool) -> Worker:
        """A new worker."""
        if not self._ready:
            self.isolation = dict(json.loads(self._receive())["isolation"])
            self._ready = True
        there, theirs = os.pipe()
        ours, target = os.pipe()
        log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives with the worker
        word = b"fork" if fork else b"become"
        try:
            with self._lock:
                socket.send_fds(self.channel, [word], [ours, theirs, log.fileno()])
                pid = int(self._receive()) if fork else self.process.pid
        except OSError as error:
            raise MissingToolError(f"the process that starts workers ended: {error}") from None
        finally:
            os.close(ours)
            os.close(theirs)
        code = self._waiter(pid) if fork else self.process.wait
        return Worker(pid, there, target, log, code)

    def _waiter(self, pid: int) -> Callable[[], int]:
        def wait() -> int:
            with self._lock, contextlib.suppress(OSError, MissingToolError):
                self.channel.send(f"wait {pid}".encode())
                return os.waitstatus_to_exitcode(int(self._receive()))
            return -signal.SIGKILL

        return wait

    def close(self) -> None:
        """End the process."""
        self.channel.close()
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Spawner:
    """Starts workers; a context manager that ends all of them.

    Workers are forks of a process that has imported torch and nothing else, which takes
    milliseconds instead of seconds. SOLSCOPE_BENCH_START=spawn starts each from scratch.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = replace(limits, isolation=_isolation(limits.isolation))
        self.fork = os.environ.get("SOLSCOPE_BENCH_START", "fork") != "spawn"
        self.folder = Path(tempfile.mkdtemp(prefix="solscope-bench-"))
        shutil.copytree(WORKER, self.folder / COPIED, ignore=shutil.ignore_patterns("__pycache__"))
        self._fork_servers: list[ForkServer] = []
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self.isolation: dict[str, str] = {}
        """What workers are kept from by the operating system, when the first has started."""
        self.stopped = False
        """Ignore what workers do from now on: they were ended."""

    def __enter__(self) -> Spawner:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            if worker.alive:
                worker.dismiss()
        self.settle()
        for fork_server in self._fork_servers:
            fork_server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """End all workers from whichever thread, so that nobody keeps waiting for an answer."""
        self.stopped = True
        with self._lock:
            for worker in self._workers:
                if worker.alive:
                    worker.signal()

    def settle(self) -> None:
        """Wait until all workers that were dismissed are gone, and what they held is free."""
        with self._lock:
            ending = [worker for worker in self._workers if worker.ending]
            self._workers = [worker for worker in self._workers if worker.alive]
        for worker in ending:
            worker.exit_code()
            worker.ending = False

    def take(self) -> Worker:
        """A new worker that is ready."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if not (self.fork and self._fork_servers and self._fork_servers[-1].alive):
                self._fork_servers.append(ForkServer(self.folder, self.limits))
            fork_server = self._fork_servers[-1]
            worker = fork_server.start(self.folder, fork=self.fork)
            self.isolation.update(fork_server.isolation)
            self._workers.append(worker)
        reply = worker._line(START_S)
        if self.stopped:
            raise Stopped
        if not reply.get("ready"):
            raise worker._dead()
        return worker


def _isolation(default: str) -> str:
    """The level that the environment asks for; a misspelled one must not weaken it silently."""
    level = os.environ.get("SOLSCOPE_BENCH_ISOLATION") or default
    if level not in LEVELS:
        raise UsageError(f"SOLSCOPE_BENCH_ISOLATION={level!r} is none of {', '.join(LEVELS)}")
    return level


def _code_folders(folder: Path) -> list[str]:
    """Where code may come from: what is installed, copies of the solutions, caches of compilers."""
    caches = [
        os.environ.get(name, "")
        for name in ("XDG_CACHE_HOME", "TRITON_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    ]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where none is known
    compiled = Path(tempfile.gettempdir()).glob("torchinductor_*")
    user = getpass.getuser() if "USER" in os.environ or "LOGNAME" in os.environ else "root"
    return [
        *_paths(),
        *(sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr", "/opt"),
        *(str(folder), str(home / ".triton"), str(home / ".cache")),
        *(str(path) for path in compiled),
        str(Path(tempfile.gettempdir()) / f"torchinductor_{user}"),
        *(path for path in caches if path),
    ]


def _paths() -> list[str]:
    """Where a worker finds packages: our own path, without the folder that holds solscope.

    Where solscope is installed beside torch that folder must stay; the guard in the worker then
    refuses solscope alone.
    """
    own = PACKAGE.parent
    paths = [str(Path(entry or ".").resolve()) for entry in sys.path]
    return [
        entry
        for entry in dict.fromkeys(paths)
        if Path(entry) != own
        or any((own / name).is_dir() for name in ("torch", "numpy", "msgspec"))
    ]
