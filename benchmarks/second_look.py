"""The first and the second look at a large trace, in one run: what the cache costs and saves.

See README.md beside this file. Nothing is asserted; the table is the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ingest import BIG_COPIES, DEFAULT_TRACE, ENVIRONMENT, NO_CACHE, machine, note, repeated

COMMANDS = ("show", "kernels", "layers", "operators", "hotspots", "report", "report again")
START = [sys.executable, "-c", "import polars"]


@dataclass(frozen=True)
class Sample:
    """One run, in seconds."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Row:
    """One command without the cache and from the cache, median seconds of all rounds."""

    command: str
    without: Sample
    cached: Sample
    wall_ratio: float
    cpu_ratio: float


def run_once(command: Sequence[str], **env: str) -> Sample:
    started = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**ENVIRONMENT, **env}
    )
    assert child.stderr is not None
    complaint = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    # 2 without a crash: the trace of a model without layers has no table of them.
    if child.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(command)}: {complaint.strip()}")
    return Sample(wall, usage.ru_utime + usage.ru_stime)


def command_line(name: str, trace: Path, folder: Path) -> list[str]:
    name = name.removesuffix(" again")
    extra = ["-o", str(folder / "report.html"), "--force"] if name == "report" else ["--json"]
    return [sys.executable, "-m", "solscope", name, str(trace), *extra]


def median(samples: Sequence[Sample]) -> Sample:
    return Sample(
        statistics.median(sample.wall_s for sample in samples),
        statistics.median(sample.cpu_s for sample in samples),
    )


def ratio(first: float, second: float) -> float:
    return first / second


def measure(trace: Path, rounds: int) -> tuple[list[Row], dict[str, Sample], int]:
    """Rows, the costs of a first look and of a bare start, and the size of the cache."""
    without: dict[str, list[Sample]] = {name: [] for name in COMMANDS}
    cached: dict[str, list[Sample]] = {name: [] for name in COMMANDS}
    first, start = [], []
    size = 0
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            env = {"SOLSCOPE_NO_CACHE": "", "SOLSCOPE_CACHE_DIR": str(folder / "cache")}
            first.append(run_once(command_line("show", trace, folder), **env))
            start.append(run_once(START))
            for command in COMMANDS:
                line = command_line(command, trace, folder)
                without[command].append(run_once(line, **NO_CACHE))
                cached[command].append(run_once(line, **env))
            files = (folder / "cache").rglob("*")
            size = sum(file.stat().st_size for file in files if file.is_file())
        note(f"round {turn + 1} of {rounds}")
    rows = []
    for command in COMMANDS:
        slow, fast = median(without[command]), median(cached[command])
        rows.append(
            Row(
                command,
                slow,
                fast,
                ratio(slow.wall_s, fast.wall_s),
                ratio(slow.cpu_s, fast.cpu_s),
            )
        )
    return rows, {"first look": median(first), "import polars": median(start)}, size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE, help="a Kineto .json[.gz]")
    parser.add_argument("--copies", type=int, default=BIG_COPIES, help="times it is repeated")
    parser.add_argument("--runs", type=int, default=3, help="rounds")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the result here")
    given = parser.parse_args()
    if not given.trace.is_file():
        parser.error(f"{given.trace}: no such trace; give one with --trace")
    trace = repeated(given.trace.resolve(), given.copies)
    rows, others, size = measure(trace, given.runs)
    print(f"{'command':12} {'without s':>10} {'cached s':>9} {'ratio':>6} {'of CPU time':>12}")
    for row in rows:
        print(
            f"{row.command:12} {row.without.wall_s:10.2f} {row.cached.wall_s:9.2f} "
            f"{row.wall_ratio:6.1f} {row.cpu_ratio:12.1f}"
        )
    first, alone = others["first look"], rows[0].without
    print(
        f"first look that writes the cache / show without it: {first.wall_s / alone.wall_s:.2f} "
        f"of the time, {first.cpu_s / alone.cpu_s:.2f} of the CPU time"
    )
    start = others["import polars"]
    print(f"show from the cache / import polars: {rows[0].cached.wall_s / start.wall_s:.2f}")
    print(f"cache: {size / 1e6:.1f} MB for a trace of {trace.stat().st_size / 1e6:.1f} MB")
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    if given.json:
        result = {
            "machine": machine(),
            "rows": [asdict(row) for row in rows],
            "others": {name: asdict(sample) for name, sample in others.items()},
            "cache_bytes": size,
        }
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
