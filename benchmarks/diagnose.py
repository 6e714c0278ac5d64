"""How long `solscope diagnose` takes on two traces of a given size.

    python benchmarks/diagnose.py TRACE [--mb 25] [--rounds 3]

The trace is unpacked and its steps are repeated until it has that many megabytes, or its head is
taken when it is larger; both files are then diagnosed against each other in a fresh process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--mb", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.trace.json" for name in ("normal", "abnormal")]
        for path in paths:
            write(options.trace, path, options.mb * 1e6)
        sizes = ", ".join(f"{path.stat().st_size / 1e6:.1f} MB" for path in paths)
        print(f"two traces: {sizes}")
        command = [sys.executable, "-m", "solscope", "diagnose", *map(str, paths), "--json"]
        command.append("--no-cache")  # every round reads both
        for number in range(1, options.rounds + 1):
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            spent = time.perf_counter() - start
            verdict = json.loads(done.stdout)["verdict"]
            print(f"round {number}: {spent:.2f} s ({verdict})")


def write(source: Path, target: Path, size: float) -> None:
    """The trace, repeated along its time line until it is that large."""
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
        moved(event, number * span * 1.01, number * ids)
        for number in range(copies)
        for event in events
    ]
    target.write_text(json.dumps({**trace, "traceEvents": [*rest, *repeated]}), encoding="utf-8")


def moved(event: dict[str, Any], time_us: float, ids: int) -> dict[str, Any]:
    """An event, later, with ids of its own."""
    arguments = dict(event.get("args", {}))
    for name in ("correlation", "External id"):
        if name in arguments:
            arguments[name] += ids
    return {**event, "ts": event["ts"] + time_us, "args": arguments}


if __name__ == "__main__":
    main()
