"""What the sampler costs: CPU time per second of sampling, by period and by threads and processes.

    python benchmarks/capture.py [--seconds 5] [--json out.json]

The process sampled has one thread, or many; the machine runs it alone, or beside other processes,
which all sleep. The CPU time is that of the sampler's process, start excluded, read by the kernel's
clock for it; what the kernel spends for it in its own threads is not in there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

from solscope.capture.background import BackgroundSampler

SLEEPER = """
import sys, threading, time
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""
PERIODS_MS = (1000.0, 100.0, 10.0)
CASES = ((1, 0), (64, 0), (1, 200))
"""Threads of the process sampled, and other processes."""


def cpu_s(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def measure(period_ms: float, threads: int, others: int, seconds: float) -> dict[str, float]:
    with ExitStack() as stack:
        command = [sys.executable, "-c", SLEEPER, str(threads)]
        target = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(target.kill)
        assert target.stdout is not None
        target.stdout.readline()
        for _ in range(others):
            other = stack.enter_context(subprocess.Popen(["sleep", "600"]))
            stack.callback(other.kill)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "run.metrics.csv"
        sampler = BackgroundSampler(target.pid, file, period_ms)
        stack.callback(sampler.close)
        time.sleep(0.5)
        spent, begin, size = cpu_s(sampler.pid), time.monotonic(), file.stat().st_size
        time.sleep(seconds)
        spent, begin = cpu_s(sampler.pid) - spent, time.monotonic() - begin
        written = file.stat().st_size - size
    return {
        "period_ms": period_ms,
        "threads": threads,
        "other_processes": others,
        "cpu_pct_of_a_core": round(100 * spent / begin, 3),
        "kb_per_s": round(written / begin / 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("| period ms | threads | other processes | % of a core | kB/s |")
    print("|--:|--:|--:|--:|--:|")
    rows = []
    for period_ms in PERIODS_MS:
        for threads, others in CASES:
            row = measure(period_ms, threads, others, options.seconds)
            rows.append(row)
            print("| " + " | ".join(f"{value:g}" for value in row.values()) + " |", flush=True)
    date = datetime.now(timezone.utc).date().isoformat()
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python "
    machine += f"{platform.python_version()}, {date}"
    print(f"\n{machine}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
