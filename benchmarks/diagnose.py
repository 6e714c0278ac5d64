"""What `solscope diagnose` costs on two traces of a given size, and on one against many of a store.

    python benchmarks/diagnose.py TRACE [--mb 25] [--rounds 3]
    python benchmarks/diagnose.py TRACE --baseline 30 [--mb 25] [--rounds 3]

The trace is unpacked and its steps are repeated until it has that many megabytes. Seconds are CPU
time (user and system, all threads) of a fresh process, which a busy machine changes less than the
time that passes; that is given too. Two traces are read and then diagnosed in one process, each
stage timed by itself. With `--baseline`, so many variants whose times differ by a few percent are
added to a store, and a further one is diagnosed against it by the command.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPREAD = 0.02
"""Standard deviation of the factor by which times of a variant differ."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--mb", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--baseline", type=int, metavar="N", help="recordings in a store")
    parser.add_argument("--of", nargs=2, metavar="TRACE", help="time the stages of these two")
    options = parser.parse_args()
    if options.of:
        stages(*options.of)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.baseline:
            one_of_many(options.trace, Path(folder), options)
        else:
            two(options.trace, Path(folder), options)


def two(trace: Path, folder: Path, options: argparse.Namespace) -> None:
    """Two traces, stage by stage."""
    paths = [folder / f"{name}.trace.json" for name in ("normal", "abnormal")]
    for path in paths:
        write(trace, path, options.mb * 1e6)
    print(f"two traces: {', '.join(f'{path.stat().st_size / 1e6:.1f} MB' for path in paths)}")
    for number in range(1, options.rounds + 1):
        command = [sys.executable, __file__, "--of", *map(str, paths)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        print(f"round {number}: {done.stdout.strip()}")


def stages(normal: str, abnormal: str) -> None:
    """Time what happens after the import of the package, in this process."""
    import solscope
    from solscope.attribution import attribute
    from solscope.diagnose.diagnosis import diagnose_runs
    from solscope.diagnose.observe import observe

    spent: dict[str, float] = {}

    def timed(stage: str, work: Callable[..., Any], *given: Any) -> Any:
        start = time.process_time()
        result = work(*given)
        spent[stage] = spent.get(stage, 0.0) + time.process_time() - start
        return result

    def read(path: str) -> Any:
        return attribute(solscope.open(path))

    runs = []
    for path in (normal, abnormal):
        attributed = timed("read", read, path)
        runs.append(timed("observe", observe, attributed))
    found = timed("diagnose", diagnose_runs, runs[0], runs[1])
    after = spent["observe"] + spent["diagnose"]
    parts = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in spent.items())
    print(f"{parts} s of CPU time; after the read {after:.2f} ({found.verdict})")


def one_of_many(trace: Path, folder: Path, options: argparse.Namespace) -> None:
    """One trace against a store of many."""
    draw = random.Random(7)
    paths = [folder / f"run{number}.trace.json" for number in range(options.baseline + 1)]
    for path in paths:
        write(trace, path, options.mb * 1e6, factor=draw.gauss(1.0, SPREAD))
    store = folder / "store"
    size = paths[0].stat().st_size / 1e6
    print(f"a store of {options.baseline} traces of {size:.1f} MB, added in", end=" ")
    command_seconds(["corpus", "init", str(store)])
    add = ["corpus", "add", str(store), *map(str, paths[:-1])]
    print(f"{command_seconds(add)[0]:.1f} s of CPU time")
    for number in range(1, options.rounds + 1):
        asked = ["diagnose", "--baseline", str(store), str(paths[-1]), "--json", "--no-cache"]
        cpu, wall, said = command_seconds(asked)
        found = json.loads(said)
        runs = found["baseline"]["runs"]
        print(
            f"round {number}: {cpu:.2f} s of CPU time, {wall:.2f} s ({found['verdict']}, "
            f"{runs} recordings)"
        )


def command_seconds(arguments: list[str]) -> tuple[float, float, str]:
    """CPU time and wall time of a command of a fresh process, and what it prints."""
    before, start = _children(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "solscope", *arguments], stdout=subprocess.PIPE, check=False
    )
    if done.returncode > 1:
        raise SystemExit(done.returncode)
    return _children() - before, time.perf_counter() - start, done.stdout.decode()


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write(source: Path, target: Path, size: float, factor: float = 1.0) -> None:
    """The trace, all times multiplied, repeated along its time line until it is that large."""
    opened = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rt", encoding="utf-8") as file:
        trace: dict[str, Any] = json.load(file)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    rest = [e for e in trace["traceEvents"] if e.get("ph") != "X"]
    span = max(e["ts"] + e.get("dur", 0) for e in events) - min(e["ts"] for e in events)
    one = len(json.dumps(events))
    copies = max(1, round(size / one))
    ids = 1 + max(e.get("args", {}).get("correlation", 0) for e in events)
    repeated = [
        moved(event, number * span * 1.01, number * ids, factor)
        for number in range(copies)
        for event in events
    ]
    target.write_text(json.dumps({**trace, "traceEvents": [*rest, *repeated]}), encoding="utf-8")


def moved(event: dict[str, Any], time_us: float, ids: int, factor: float) -> dict[str, Any]:
    """An event, later, with ids of its own."""
    arguments = dict(event.get("args", {}))
    for name in ("correlation", "External id"):
        if name in arguments:
            arguments[name] += ids
    times = {"ts": factor * (event["ts"] + time_us), "dur": factor * event.get("dur", 0)}
    return {**event, **times, "args": arguments}


if __name__ == "__main__":
    main()
