"""The host program is slower: memory, disk, garbage collection, locks, one section."""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from solscope.lab.faults.base import Rig, SetDose
from solscope.lab.faults.injectors import TimesPerStep, hooked
from solscope.lab.loop import Point

PIECE = b"x" * (64 << 10)
"""What is written to the log and forced to the disk at a time."""
PROBES = 5
"""Forced writes that tell whether a folder is on a disk."""
FREE_S = 0.00005
"""A file system that forces 64 KiB to its disk faster than this has no disk."""
COLLECTION_POINTS: tuple[Point, ...] = ("schedule", "decode", "sample", "detokenize")
BURST_S = 0.0005
"""How long a thread wants the GIL at a time: a tenth of Python's switch interval."""
PAUSE_S = 0.001
"""Time between two holds of the lock, so that the loop can take it."""
HASHED = bytes(64 << 10)
"""Hashing this much releases the GIL, so that the loop waits for the lock alone."""


@contextmanager
def stream_memory(rig: Rig) -> Iterator[SetDose]:
    """Other processes copy host memory on other cores, so that its bandwidth gets short."""
    cores = rig.other_cores
    with rig.fork_server.hogs("stream_memory", len(cores), cores=cores) as hogs:
        yield hogs.set


def no_disk(rig: Rig) -> str | None:
    """Why forcing a write costs nothing in this folder; null when it does."""
    path = rig.folder / "probe.log"
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(PROBES):
            file.write(PIECE)
            os.fsync(file.fileno())
        each_s = (time.perf_counter() - start) / PROBES
    path.unlink()
    return f"{rig.folder} is not on a disk: fsync is free" if each_s < FREE_S else None


@contextmanager
def force_log(rig: Rig) -> Iterator[SetDose]:
    """The log is written in larger pieces and forced to the disk."""
    path = rig.folder / "requests.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    writes = TimesPerStep()

    def log(_layer: int) -> None:
        for _ in range(writes.take()):
            os.write(descriptor, PIECE)
            os.fsync(descriptor)

    try:
        with hooked(rig, "detokenize", log):
            yield writes.set_dose
    finally:
        os.close(descriptor)
        path.unlink()


@contextmanager
def collect_garbage(rig: Rig) -> Iterator[SetDose]:
    """The collector goes through a large heap, at places that change from step to step."""
    heap: list[Any] = []
    active = False

    def set_dose(dose: float) -> None:
        nonlocal active
        active = dose > 0
        if not active:
            return
        wanted = round(dose * 1000)
        del heap[wanted:]
        gc.disable()
        while len(heap) < wanted:
            node: dict[str, Any] = {"previous": heap[-1] if heap else None}
            node["self"] = node
            heap.append(node)
        gc.enable()

    def collect(place: int) -> None:
        # Python chooses the place by counting allocations, so it is another one every step.
        if active and rig.loop.index % len(COLLECTION_POINTS) == place:
            gc.collect()

    if not gc.get_freeze_count():
        gc.freeze()
    try:
        with ExitStack() as hooks:
            for place, point in enumerate(COLLECTION_POINTS):
                hooks.enter_context(hooked(rig, point, lambda _, place=place: collect(place)))  # type: ignore[misc]
            yield set_dose
    finally:
        heap.clear()
        gc.collect()
        gc.unfreeze()


def hold_gil(_rig: Rig, dose: float) -> None:
    """Run pure Python."""
    until = time.monotonic() + BURST_S
    while time.monotonic() < until:
        sum(range(50))
    time.sleep(BURST_S * (1.0 - dose) / dose)


def hold_lock(rig: Rig, dose: float) -> None:
    """Work with the lock that every step needs."""
    with rig.loop.lock:
        until = time.monotonic() + dose / 1e3
        while time.monotonic() < until:
            hashlib.sha256(HASHED).digest()
    time.sleep(PAUSE_S)


def wait(seconds: float) -> None:
    """As for a slow service."""
    if seconds:
        time.sleep(seconds)


def compute(seconds: float) -> None:
    """Needless work in Python."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sorted(str(number) for number in range(64))
