"""Processes that take something away from the loop: cores, time, bandwidth, the GPU, the link.

Each runs in a child of the fork server until it is killed. `dose` gives its share of the time, 0 to
1, and may change at any moment. Children never outlive `LIMIT_S`.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 90
"""A hog ends by itself after this time, whatever happens to the rest."""
IDLE_S = 0.005
"""How often a hog without a dose looks whether it has one."""
Dose = Callable[[], float]
Ready = Callable[[], None]


def shared_dose(memory: mmap.mmap) -> Dose:
    """The dose that another process keeps in `memory`."""

    def read() -> float:
        return float(struct.unpack("d", memory[:8])[0])

    return read


def work_for(dose: Dose, period_s: float, work: Callable[[], None]) -> None:
    """Work for the dose's share of each period, for ever."""
    while True:
        share = min(dose(), 1.0)
        if share <= 0.0:
            time.sleep(IDLE_S)
            continue
        start = time.monotonic()
        while time.monotonic() - start < share * period_s:
            work()
        if share < 1.0:
            time.sleep(max(0.0, period_s - (time.monotonic() - start)))


def spin(dose: Dose, ready: Ready, period_s: float = 0.004) -> None:
    """Use a core."""

    def work() -> None:
        for _ in range(200):
            pass

    ready()
    work_for(dose, period_s, work)


def stop_and_continue(dose: Dose, ready: Ready, pid: int, period_s: float = 0.004) -> None:
    """Stop process `pid` for a share of each period, from outside; it always continues."""

    def leave(*_: Any) -> None:
        os.kill(pid, signal.SIGCONT)
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT):
        signal.signal(number, leave)
    ready()
    while True:
        share = min(dose(), 0.95)
        if share <= 0.0:
            time.sleep(IDLE_S)
            continue
        os.kill(pid, signal.SIGSTOP)
        time.sleep(share * period_s)
        os.kill(pid, signal.SIGCONT)
        time.sleep((1.0 - share) * period_s)


def stream_memory(dose: Dose, ready: Ready, megabytes: int = 256) -> None:
    """Copy host memory, far more than a cache holds."""
    import numpy

    source = numpy.ones(megabytes << 17, dtype=numpy.float64)
    target = numpy.zeros_like(source)
    step = len(source) // 16
    place = 0

    def work() -> None:
        nonlocal place
        target[place : place + step] = source[place : place + step]
        place = (place + step) % len(source)

    ready()
    work_for(dose, 0.05, work)


def multiply_on_gpu(dose: Dose, ready: Ready, size: int = 4096) -> None:
    """Matrix products on the GPU, about 1 ms of work in flight at a time."""
    import torch

    left = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)

    def work() -> None:
        for _ in range(4):
            torch.mm(left, right)
        torch.cuda.synchronize()

    work()
    ready()
    work_for(dose, 0.02, work)


def copy_on_gpu(dose: Dose, ready: Ready, megabytes: int = 1024) -> None:
    """Copies within GPU memory: its bandwidth, without much of its arithmetic."""
    import torch

    source = torch.ones(megabytes << 20, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)

    def work() -> None:
        for _ in range(2):
            target.copy_(source)
        torch.cuda.synchronize()

    work()
    ready()
    work_for(dose, 0.02, work)


def copy_over_link(dose: Dose, ready: Ready, megabytes: int = 32) -> None:
    """Copies between pinned host memory and the GPU, both directions at once."""
    import torch

    size = megabytes << 20
    host = [torch.ones(size, dtype=torch.uint8).pin_memory() for _ in range(2)]
    device = [torch.ones(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]  # type: ignore[no-untyped-call]

    def work() -> None:
        with torch.cuda.stream(streams[0]):
            device[0].copy_(host[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            host[1].copy_(device[1], non_blocking=True)
        torch.cuda.synchronize()

    work()
    ready()
    work_for(dose, 0.02, work)


HOGS: dict[str, Callable[..., None]] = {
    hog.__name__: hog
    for hog in (
        spin,
        stop_and_continue,
        stream_memory,
        multiply_on_gpu,
        copy_on_gpu,
        copy_over_link,
    )
}
