"""Fork servers of the bench that do not import torch: forks of one process that has.

Importing torch takes seconds, and every run of the bench starts a fork server. Tests of what a run
finds need no start from scratch; tests of starting and ending do, and do not use this.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

DISPATCH = "torch._dynamo"
"""With all that torch imports when Python first sees each operation, as the timer that stands in
for a GPU does: it takes as long as torch itself."""


class Forked:
    """As much of `subprocess.Popen` as a fork server's owner uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Null while it runs; its exit code is not known."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.001)
        return 0


class WarmTorch:
    """A process that has imported torch and forks."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", __file__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )

    def start_process(
        self, command: list[str], theirs: socket.socket, log: IO[bytes], folder: Path
    ) -> Forked:
        """Stands in for `solscope.bench.pool.spawner.start_process`."""
        from solscope.bench.pool.spawner import ENVIRONMENT

        _, _, script, config = command
        environment = {**os.environ, **ENVIRONMENT}
        request = folder / "request.json"
        request.write_text(
            json.dumps({"script": script, "config": config, "environment": environment})
        )
        descriptors = [theirs.fileno(), log.fileno()]
        socket.send_fds(self.channel, [os.fsencode(request)], descriptors)
        return Forked(int(self.channel.recv(100)))

    def close(self) -> None:
        self.channel.close()
        self.process.wait()


@contextlib.contextmanager
def warm_torch() -> Iterator[WarmTorch]:
    process = WarmTorch()
    try:
        yield process
    finally:
        process.close()


def main(descriptor: str) -> None:
    """Import torch, then fork for each request until the tests are over."""
    path = list(sys.path)
    for name in ("torch", "torch.profiler", "msgspec", DISPATCH):
        importlib.import_module(name)
    sys.path[:] = path
    signal.signal(signal.SIGCHLD, _reap)
    channel = socket.socket(fileno=int(descriptor))
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, 4096, 2)
        if not request:
            return
        child = os.fork()
        if not child:
            channel.close()
            _serve(json.loads(Path(os.fsdecode(request)).read_bytes()), *descriptors)
        for one in descriptors:
            os.close(one)
        channel.send(str(child).encode())


def _reap(*_: object) -> None:
    """Let whoever asks see at once that a fork has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(asked: dict[str, Any], theirs: int, log: int) -> None:
    """Become a fork server, as `worker/start.py` does; never return."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        package = Path(asked["script"]).parent
        os.chdir(package.parent)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path.insert(0, str(package.parent))
        importlib.import_module(f"{package.name}.fork_server").main(asked["config"], str(theirs))
    except BaseException:  # noqa: BLE001 - it must not become a second of its parent
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
