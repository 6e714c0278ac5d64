"""Ranks as forks of one process that has imported torch already: they start at once.

The process that forks must not use the GPU itself. Every fork is a daemon: it ends with its
parent, and is killed when its time is over.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class Fork:
    """A forked process: its result, and what it wrote to standard error."""

    def __init__(
        self,
        target: Callable[..., Any],
        arguments: Sequence[Any],
        environment: dict[str, str],
        errors: Path,
    ) -> None:
        context = get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        self._errors = errors
        self._process = context.Process(
            target=_child, args=(target, arguments, environment, errors, sender), daemon=True
        )
        self._process.start()
        sender.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.is_alive()

    def wait(self, until: float) -> Any:
        """What the target returned; null when it failed or took until `until` (monotonic)."""
        result = None
        # A process that ends without a result closes its side of the pipe.
        with suppress(EOFError, OSError):
            if self._receiver.poll(max(0.0, until - time.monotonic())):
                result = self._receiver.recv()
        self._process.join(max(0.0, until - time.monotonic()))
        return result

    def end(self) -> str:
        """Kill it if it still runs; returns what it wrote to standard error."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join(10)
        self._receiver.close()
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""


def run_all(
    target: Callable[..., Any],
    each: Sequence[tuple[Sequence[Any], dict[str, str]]],
    folder: Path,
    seconds: float,
) -> list[tuple[Any, str]]:
    """Results and errors of processes that run at once, one per arguments and variables."""
    until = time.monotonic() + seconds
    forks = [
        Fork(target, arguments, environment, folder / f"{target.__name__}-{number}.err")
        for number, (arguments, environment) in enumerate(each)
    ]
    results = [fork.wait(until) for fork in forks]
    return [(result, fork.end()) for result, fork in zip(results, forks, strict=True)]


def _child(
    target: Callable[..., Any],
    arguments: Sequence[Any],
    environment: dict[str, str],
    errors: Path,
    sender: Connection,
) -> None:
    os.environ.update(environment)
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    code = 0
    try:
        sender.send(target(*arguments))
    except BaseException:  # noqa: BLE001 - told by its standard error
        traceback.print_exc()
        sys.stderr.flush()
        code = 1
    sender.close()
    # Threads of NCCL and CUDA must not hold up the end.
    os._exit(code)
