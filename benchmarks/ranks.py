"""Time and memory of reading and analyzing the ranks of a run.

    python benchmarks/ranks.py TRACE [--ranks 64] [--processes N]

Writes copies of one Kineto trace, each with a rank of its own in the header and a clock of its own,
reads them as a run in processes, and analyzes it. Peak memory is the proportional set size of this
process and of all that it started, together, sampled while they run.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solscope.ranks.analysis import analyze
from solscope.ranks.read import open_run
from solscope.readers import ReadOptions
from solscope.readers.source import stream

SAMPLE_S = 0.2
HEAD = 1 << 16
_RANK = re.compile(rb'("distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*)\d+')
_WORLD = re.compile(rb'("world_size"\s*:\s*)\d+')
_START = re.compile(rb'("baseTimeNanoseconds"\s*:\s*)(\d+)')


def copies(trace: Path, ranks: int, folder: Path) -> int:
    """Write the trace once per rank; returns the size of one, as JSON."""
    data = b"".join(stream(trace, ReadOptions()))
    if not _RANK.search(data[:HEAD]):
        data = data.replace(b"{", b'{"distributedInfo": {"rank": 0, "world_size": 1}, ', 1)
    for rank in range(ranks):
        head = _RANK.sub(rb"\g<1>" + str(rank).encode(), data[:HEAD], count=1)
        head = _WORLD.sub(rb"\g<1>" + str(ranks).encode(), head, count=1)
        # Clocks of different hosts: rank n is n milliseconds ahead.
        start = _START.search(head)
        if start is not None:
            ahead = str(int(start[2]) + rank * 10**6).encode()
            head = head[: start.start(2)] + ahead + head[start.end(2) :]
        (folder / f"rank{rank}.json").write_bytes(head + data[HEAD:])
    return len(data)


def proportional(pid: int) -> int:
    """Bytes of a process and of all that it started; shared pages count once (PSS)."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
            if pid not in (int(fields["Pid"]), int(fields["PPid"])):
                continue
            rollup = (path.parent / "smaps_rollup").read_text().splitlines()[1:]
        except (OSError, ValueError):
            continue
        sizes = dict(line.split(":", 1) for line in rollup)
        total += 1024 * int(sizes.get("Pss", "0 kB").split()[0])
    return total


@contextmanager
def peak_of(pid: int) -> Iterator[list[int]]:
    """The largest memory seen while the block runs, as the only item of a list."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_S):
            peak[0] = max(peak[0], proportional(pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--processes", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        size = copies(given.trace, given.ranks, Path(name))
        with peak_of(os.getpid()) as peak:
            start = time.perf_counter()
            run = open_run(
                name,
                options=ReadOptions(cache=False),
                processes=given.processes,
                progress=lambda done, total, _: print(f"{done} of {total}", file=sys.stderr),
            )
            read = time.perf_counter()
            analysis = analyze(run)
            end = time.perf_counter()
    print(f"{given.ranks} ranks of {size / 1e6:.1f} MB as JSON")
    print(f"read: {read - start:.1f} s; analyze: {end - read:.1f} s")
    print(f"peak memory of all processes: {peak[0] / 1e6:.0f} MB")
    print(f"clock: {analysis.clock.method}, apart {analysis.clock.recorded_apart_us} us")


if __name__ == "__main__":
    main()
