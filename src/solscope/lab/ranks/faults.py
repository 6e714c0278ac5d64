"""What is done to a rank. Each fault is real: another process, a full collection, a slower link.

Processes that disturb start with the run and wait for the file `go`, so that warming up is not
disturbed. They end with the run, or by themselves after `LIMIT_S`.
"""

from __future__ import annotations

import fcntl
import gc
import os
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from solscope.lab.ranks.plan import WORLD, Scenario

LIMIT_S = 90
"""Seconds after which a disturbing process ends by itself."""
GPU_DUTY = {1: 0.35, 2: 1.0}
HOST_DUTY = {1: (0.5,), 2: (1.0,), 3: (1.0, 1.0, 1.0)}
"""Share of the time of each process on the core of a disturbed rank."""
HEAP = {1: 400_000, 2: 1_500_000, 3: 700_000}
"""Objects that a collection has to walk through."""
TRACKED_FROM = 3
"""Strength from which the collector keeps track of each object, as of a server's requests."""
COLLECT_EVERY = 4
"""Steps from one garbage collection to the next."""
WANDER_MS = {1: 4.0, 2: 10.0}
TOKENS = {1: 64, 2: 256, 3: 512}
"""Requests of the rank that has more of them."""
LINK_MTU = {1: 1500, 2: 576}
LATE_STEPS = 5
"""Steps that a late rank misses at the start."""
_MTU = (0x8921, 0x8922)
"""ioctl numbers that get and set an interface's MTU (linux/sockios.h)."""


def batch_of(scenario: Scenario, rank: int) -> int:
    """Requests of a rank."""
    if scenario.fault == "tokens" and rank == scenario.rank:
        return TOKENS[scenario.strength]
    return scenario.batch


def cores_of(rank: int) -> set[int]:
    """Cores of a rank's process, of those that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // (WORLD + 1))
    return set(cores[rank * share : (rank + 1) * share]) or set(cores)


def main_core(rank: int) -> int:
    """The core of a disturbed rank's main thread; not for a process that keeps to its own cores."""
    return min(cores_of(rank))


def in_step(scenario: Scenario, rank: int, step: int, heap: list[object]) -> None:
    """What happens inside a rank at the beginning of a step."""
    if scenario.fault == "gc" and rank == scenario.rank and step % COLLECT_EVERY == 2:
        if not heap:
            objects = range(HEAP[scenario.strength])
            tracked = scenario.strength >= TRACKED_FROM
            heap.extend([number] if tracked else {"at": number} for number in objects)
        gc.collect()
    # All ranks draw the same victim.
    victim = random.Random(scenario.seed * 7919 + step).randrange(WORLD)  # noqa: S311
    if scenario.fault == "wandering" and rank == victim:
        _spin(WANDER_MS[scenario.strength] / 1e3)


def set_link_mtu(size: int, interface: str = "lo") -> int | None:
    """Set the MTU of an interface; returns the one before, or null where that is not allowed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16si", interface.encode(), 0).ljust(40, b"\0")
        try:
            answer = fcntl.ioctl(handle, _MTU[0], request)
            before = int(struct.unpack_from("16si", answer)[1])
            fcntl.ioctl(
                handle, _MTU[1], struct.pack("16si", interface.encode(), size).ljust(40, b"\0")
            )
        except OSError:
            return None
    return before


def _spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _wait_for(go: Path) -> float:
    """Wait until the run says so; returns when to stop."""
    end = time.monotonic() + LIMIT_S
    while not go.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return end


def gpu_hog(go: Path, duty: float) -> None:
    """Compute on the slice that this process sees, for a share of the time."""
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    a @ a
    torch.cuda.synchronize()
    end = _wait_for(go)
    while time.monotonic() < end:
        start = time.perf_counter()
        for _ in range(4):
            a @ a
        torch.cuda.synchronize()
        time.sleep((time.perf_counter() - start) * (1 / duty - 1))


def cpu_hog(go: Path, duty: float, core: int) -> None:
    """Use one core for a share of the time."""
    os.sched_setaffinity(0, {core})
    end = _wait_for(go)
    while time.monotonic() < end:
        _spin(0.004 * duty)
        if duty < 1.0:
            time.sleep(0.004 * (1 - duty))


def link_hog(go: Path, pairs: int) -> None:
    """Send bytes over the loopback as fast as it takes them."""
    end = _wait_for(go)
    data = bytearray(1 << 20)

    def drain(sink: socket.socket) -> None:
        while sink.recv_into(data):
            pass

    def pour(source: socket.socket) -> None:
        with source:
            while time.monotonic() < end:
                source.sendall(data)

    threads = []
    for _ in range(pairs):
        with socket.create_server(("127.0.0.1", 0)) as server:
            source = socket.create_connection(server.getsockname())
            sink, _ = server.accept()
        threads += [
            threading.Thread(target=pour, args=(source,)),
            threading.Thread(target=drain, args=(sink,)),
        ]
    for thread in threads:
        thread.start()


def commands(scenario: Scenario, go: Path) -> list[list[str]]:
    """Command lines of the processes that disturb a run."""
    start = [sys.executable, "-m", "solscope.lab.ranks.faults"]
    rank, strength = scenario.rank, scenario.strength
    if scenario.fault == "slow_gpu" and scenario.how is None:
        return [[*start, "gpu", str(go), str(GPU_DUTY[strength])]]
    if scenario.fault == "slow_host" and rank is not None:
        core = str(main_core(rank))
        return [[*start, "cpu", str(go), str(duty), core] for duty in HOST_DUTY[strength]]
    if scenario.fault == "slow_link":
        return [[*start, "link", str(go), "2"] for _ in range(3 * strength)]
    return []


if __name__ == "__main__":
    kind, go_file, *rest = sys.argv[1:]
    if kind == "gpu":
        gpu_hog(Path(go_file), float(rest[0]))
    elif kind == "cpu":
        cpu_hog(Path(go_file), float(rest[0]), int(rest[1]))
    else:
        link_hog(Path(go_file), int(rest[0]))
