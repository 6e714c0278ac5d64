"""Starts workers as they are asked for, and ends what they leave behind.

No solution ever runs in this process. What a solution starts becomes a child of its worker when its
own parent ends, whatever session it moved to, and a child of this process when the worker ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from .isolation import PR_SET_CHILD_SUBREAPER, isolate
from .serve import serve
from .signals import send


def main(config: str, descriptor: str) -> None:
    """Serve the evaluator at the other end of a socket until it is gone."""
    with contextlib.suppress(KeyboardInterrupt):
        start_workers(json.loads(config), socket.socket(fileno=int(descriptor)))


def start_workers(config: dict[str, Any], channel: socket.socket) -> None:
    """Import torch once, then start workers as they are asked for, each a fork of this process.

    `become` turns this process itself into the worker, for machines where a fork of a process with
    torch in it cannot use the device.
    """
    isolation = isolate(config["isolation"], config["forbidden"][0])
    sys.path[:0] = config["paths"]
    import torch
    import torch.profiler

    _adopt()
    # What torch consists of is no garbage. To search it in each worker takes longer than most of
    # what a worker does, and copies all the memory that workers share with this process.
    gc.freeze()
    workers: set[int] = set()
    _tell(channel, json.dumps({"torch": str(torch.__version__), "isolation": isolation}))
    while True:
        request, descriptors = _asked(channel)
        word, _, rest = request.partition(" ")
        if not word:
            _leave(config, workers)
        if word == "wait":
            code = os.waitpid(int(rest), 0)[1]
            workers.discard(int(rest))
            _end_strays(workers)
            _tell(channel, str(code))
            continue
        child = 0 if word == "become" else os.fork()
        if child:
            workers.add(child)
            for descriptor in descriptors:
                os.close(descriptor)
            _tell(channel, str(child))
            continue
        if word != "become":
            os.setsid()
        _adopt()
        channel.close()
        source, target, log = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        serve(config, source, target)


def _adopt() -> None:
    """Become the parent of what processes below this one start and leave.

    A worker does so that what it started belongs to it, whatever became of the processes between:
    the evaluator stops a worker together with its descendants.
    """
    with contextlib.suppress(AttributeError, OSError):  # Linux alone has it
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _asked(channel: socket.socket) -> tuple[str, list[int]]:
    """A request with the descriptors it hands over; empty when the evaluator is gone."""
    try:
        request, descriptors, _, _ = socket.recv_fds(channel, 4096, 3)
    except OSError:
        return "", []
    return request.decode(), list(descriptors)


def _tell(channel: socket.socket, text: str) -> None:
    """Reply; that the evaluator is gone is found out by the next request."""
    with contextlib.suppress(OSError):
        channel.send(text.encode())


def _end_strays(workers: set[int]) -> None:
    """End the children that are no workers: what workers started and left."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        try:
            strays = {int(pid) for pid in listed.read_text().split()} - workers
        except (OSError, ValueError):  # not every kernel tells
            return
        if not strays:
            return
        for pid in strays:
            send(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _leave(config: dict[str, Any], workers: set[int]) -> None:
    """The evaluator is gone, perhaps killed: end its workers, remove what it shared with them."""
    for pid in workers:
        send(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    _end_strays(set())
    for prefix in map(Path, config["arenas"]):
        for path in prefix.parent.glob(f"{prefix.name}*"):
            path.unlink(missing_ok=True)
    shutil.rmtree(config["folder"], ignore_errors=True)
    os._exit(0)
