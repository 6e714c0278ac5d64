"""Starting workers: forks of a process that has torch, on a copy of what runs in them."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from solscope.bench.pool.arena import ARENAS
from solscope.bench.pool.process import Limits, Stopped, Worker
from solscope.bench.worker.isolation import LEVELS
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
        # With what is compiled already, but not what another process is writing right now.
        shutil.copytree(WORKER, self.folder / COPIED, ignore=shutil.ignore_patterns("*.pyc.*"))
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
        self._dismiss_all()
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

    def begin_again(self) -> None:
        """Start workers again after `stop`; nobody may wait for one of before any more.

        The process that they are forks of lives on, so the next one starts in milliseconds.
        """
        self._dismiss_all()
        self.stopped = False

    def _dismiss_all(self) -> None:
        for worker in self._workers:
            if worker.alive:
                worker.dismiss()
        self.settle()

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
        ready = worker.await_ready(START_S)
        if self.stopped:
            raise Stopped
        if not ready:
            raise worker.dead()
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
