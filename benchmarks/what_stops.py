"""What keeps the heaviest operators from their bounds, by Nsight Compute; needs a GPU and `ncu`.

For each of the operators that take most of production's time: one call of the fastest solution
measured, of those that need no package beside PyTorch, at the shape that takes most of its time.
Counters are of the longest kernel, with all caches flushed before it and clocks left alone. With
`--level`, the same of lines that are named: where two solutions take the same time, both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from under_ncu import TIME, profiled

OPERATORS = 15
SOLUTIONS = ("solscope-triton", "cublas", "torch-compile", "torch-eager")
BUSY = 60.0
"""Percent of a unit's peak from which it is called the reason."""
PROGRAMS = "launch__grid_size"
UNITS = {
    "HBM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "exponentials": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
}
"""Share of the peak over the time of the kernel."""
OTHER_TENSOR = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active")
"""Warps that wait for one reason, on average, whenever an instruction is issued."""


def picks(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line per operator: the fastest there is of the shape with the most time."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        known = line["solution"] in SOLUTIONS and line["status"] == "passed"
        place = (line["operator"], line["shape"])
        if known and line["median_us"] < best.get(place, {"median_us": 1e18})["median_us"]:
            best[place] = line
    heaviest: dict[str, dict[str, Any]] = {}
    for line in best.values():
        if line["calls"] is None:
            continue
        before = heaviest.get(line["operator"])
        if before is None or _spent(line) > _spent(before):
            heaviest[line["operator"]] = line
    return sorted(heaviest.values(), key=lambda line: -line["importance"])[:OPERATORS]


def named(lines: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The lines of these names: OPERATOR/SHAPE/SOLUTION."""
    found = {f"{one['operator']}/{one['shape']}/{one['solution']}": one for one in lines}
    if lacking := [name for name in names if name not in found]:
        sys.exit(f"no line of {', '.join(lacking)}")
    return [found[name] for name in names]


def _spent(line: dict[str, Any]) -> float:
    return float(line["calls"] * line["median_us"])


def child(file: Path) -> None:
    """Make each call where Nsight Compute sees it, after calls that compile."""
    import torch

    from solscope.bench.one_call import WARM_CALLS, bound_call

    cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    for asked in json.loads(file.read_text()):
        torch.cuda.empty_cache()
        call = bound_call(asked, "cuda")
        for _ in range(WARM_CALLS):
            call()
        torch.cuda.synchronize()
        cudart.cudaProfilerStart()
        torch.cuda._sleep(1000)  # type: ignore[no-untyped-call]
        call()
        torch.cuda.synchronize()
        cudart.cudaProfilerStop()
        sys.path.pop(0)


def asked_of(line: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What `solscope.bench.one_call` takes."""
    from solscope.bench.catalog import find_solution

    solution = find_solution(line["solution"])
    return {
        "operator": line["operator"],
        "axes": line["axes"],
        "file": str(solution.stage(line["operator"], folder / line["solution"]).path),
        "build": str(solution.build_folder(line["operator"])),
        "compile": solution.about.compile,
        "kineto": True,
    }


def compile_first(asked: dict[str, Any]) -> None:
    """Call it in a process of its own, which leaves its kernels in the compiler's cache."""
    command = [sys.executable, "-m", "solscope.bench.one_call", json.dumps(asked)]
    subprocess.run(command, capture_output=True, check=False)


def metrics_here() -> list[str]:
    """The metrics that this GPU has of those that are wanted."""
    printed = subprocess.run(
        ["ncu", "--query-metrics"], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[0] for line in printed.splitlines() if line and line[0].islower()}
    wanted = [TIME, PROGRAMS, OCCUPANCY, OTHER_TENSOR, *UNITS.values()]
    chosen = [name for name in wanted if name.split(".")[0] in names or name == PROGRAMS]
    return chosen + [f"{name}.ratio" for name in sorted(names) if STALLED.fullmatch(name)]


def reason(
    busy: dict[str, float], programs: int | None, stalls: dict[str, float], processors: int
) -> str:
    """What the counters say of one kernel: the busiest unit, or why none is busy."""
    unit = max(busy, key=lambda name: busy[name])
    if busy[unit] >= BUSY:
        return f"{unit} at {busy[unit]:.0f} %"
    if programs is not None and programs < processors / 2:
        return f"{programs} program{'s' * (programs > 1)} for {processors} SMs"
    idle = f"no unit above {math.ceil(busy[unit])} %"
    if not stalls:
        return idle
    waits = {name: count for name, count in stalls.items() if name != "selected"}
    most = max(waits, key=lambda name: waits[name])
    share = 100 * waits[most] / (sum(waits.values()) or 1.0)
    return f"{idle}; {share:.0f} % of waits: {most.replace('_', ' ')}"


def summed_up(line: dict[str, Any], call: list[dict[str, Any]], processors: int) -> dict[str, Any]:
    """A call beside its line of the results, with the counters of its longest kernel."""
    longest = max(call, key=lambda launch: launch[TIME])
    other = {"tensor cores": longest.get(OTHER_TENSOR, 0.0)}
    busy = {unit: round(longest.get(name, other.get(unit, 0.0)), 1) for unit, name in UNITS.items()}
    stalls = {found[1]: longest[name] for name in longest if (found := STALLED.match(name))}
    programs = int(longest[PROGRAMS]) if PROGRAMS in longest else None
    return {
        "operator": line["operator"],
        "importance": line["importance"],
        "shape": line["shape"],
        "solution": line["solution"],
        "solution_hash": line["solution_hash"],
        "cold_us": line["median_us"],
        "kernels": len(call),
        "ncu_us": round(sum(launch[TIME] for launch in call), 3),
        "kernel": longest["kernel"][:100],
        "kernel_us": round(longest[TIME], 3),
        "programs": programs,
        "occupancy_pct": longest.get(OCCUPANCY),
        "busy_pct": busy,
        "stalls": stalls,
        "reason": reason(busy, programs, stalls, processors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="what `solscope bench run` wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--level", metavar="OPERATOR/SHAPE/SOLUTION", action="append", default=[])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.results)
        return
    lines = [json.loads(text) for text in options.results.read_text().splitlines()]
    heaviest = picks(lines)
    chosen = heaviest + named(lines, options.level)
    with tempfile.TemporaryDirectory() as folder:
        asked = [asked_of(line, Path(folder)) for line in chosen]
        # Compiled beside each other first: under Nsight Compute it is one after the other.
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
            list(pool.map(compile_first, asked))
        calls = profiled(__file__, asked, metrics_here(), "-o", "-")
    processors = chosen[0]["run"]["gpu_sm_count"]
    found = [summed_up(line, call, processors) for line, call in zip(chosen, calls, strict=True)]
    for one in found:
        print(f"{one['operator']:28s} {one['shape']:>4s} {one['ncu_us']:10.2f} us  {one['reason']}")
    about = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": f"python benchmarks/what_stops.py {options.results.name} "
        f"-o {options.output.name}{''.join(f' --level {name}' for name in options.level)}",
        "device": chosen[0]["device"],
        "results": sorted({line["run"]["time"] for line in chosen}),
        "operators": found[: len(heaviest)],
        "level": found[len(heaviest) :],
    }
    options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
