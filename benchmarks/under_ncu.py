"""Calls of solutions under Nsight Compute, in a process of their own; needs a GPU and `ncu`."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TIME = "gpu__time_duration.sum"
MARK = "spin"
"""In the name of the kernel that stands before each call: `torch.cuda._sleep`."""
TO_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}


def profiled(
    script: str, given: list[dict[str, Any]], metrics: Sequence[str], *more: str
) -> list[list[dict[str, Any]]]:
    """Launches of each call that `script --child FILE` makes of what is given, with their metrics.

    Caches are flushed before each kernel, and clocks left alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "given.json"
        file.write_text(json.dumps(given))
        command = [
            *("ncu", "--csv", "--metrics", ",".join(metrics), "--profile-from-start", "off"),
            *("--cache-control", "all", "--clock-control", "none"),
            *(sys.executable, script, "--child", str(file), *more),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed: {(done.stdout + done.stderr)[-2000:]}")
    calls: list[list[dict[str, Any]]] = []
    for launch in launches(done.stdout):
        if MARK in launch["kernel"]:
            calls.append([])
        else:
            calls[-1].append(launch)
    return calls


def launches(text: str) -> Iterator[dict[str, Any]]:
    """Metrics of each launch, in order, times in microseconds."""
    current: dict[str, Any] = {"ID": None}
    for row in csv.DictReader(text[text.index('"ID"') :].splitlines()):
        if row["ID"] != current["ID"]:
            if current["ID"] is not None:
                yield current
            current = {"ID": row["ID"], "kernel": row["Kernel Name"]}
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue
        current[row["Metric Name"]] = value * TO_US.get(row["Metric Unit"], 1.0)
    yield current
