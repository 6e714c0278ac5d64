"""Times of `cold-v1` against Nsight Compute on the same kernels; needs a GPU and `ncu`.

Nsight Compute measures `gpu__time_duration` of every kernel with all caches flushed before it and
clocks left alone, in a process that no part of the evaluator runs in. Solutions of one kernel per
call are taken, for only the first kernel of a call finds cold caches in `cold-v1`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from under_ncu import TIME, profiled

SOLUTION = "solscope-triton"
OPERATORS = (
    *("unified_attention", "block_scaled_mm", "attention_forward", "rms_norm", "silu_and_mul"),
    *("fused_add_rms_norm", "mrope", "fp8_dynamic_per_token_quant", "per_token_group_quant_fp8"),
    *("gated_rms_norm", "l2_norm", "fused_rmsnorm_quant", "moe_sum_reduce", "layer_norm"),
)
CALLS = 5


def picks(results: Path) -> list[dict[str, Any]]:
    """The heaviest measured shape of each operator."""
    best: dict[str, dict[str, Any]] = {}
    for text in results.read_text().splitlines():
        line = json.loads(text)
        name = line["operator"]
        chosen = line["solution"] == SOLUTION and line["status"] == "passed" and name in OPERATORS
        if chosen and line["weight"] > best.get(name, {"weight": -1.0})["weight"]:
            best[name] = line
    return [best[name] for name in OPERATORS if name in best]


def child(file: Path) -> None:
    """Call each solution between marks, where Nsight Compute sees it."""
    import torch

    from solscope.bench.catalog import find_solution
    from solscope.operators import operator
    from solscope.operators.task import Draw

    cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    folder = file.parent / "solutions"
    for line in json.loads(file.read_text()):
        task = operator(line["operator"]).task
        assert task is not None
        inputs = task.inputs(line["axes"], Draw(seed=line["seeds"][0], device="cuda"))
        path = find_solution(line["solution"]).stage(line["operator"], folder).path
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(f"solution_{line['operator']}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        plan = {"plan": module.setup(**inputs)} if hasattr(module, "setup") else {}
        for _ in range(2):
            module.run(**inputs, **plan)
        torch.cuda.synchronize()
        cudart.cudaProfilerStart()
        for _ in range(CALLS):
            torch.cuda._sleep(1000)  # type: ignore[no-untyped-call]
            module.run(**inputs, **plan)
        torch.cuda.synchronize()
        cudart.cudaProfilerStop()
        sys.path.pop(0)


def compare(
    chosen: list[dict[str, Any]], calls: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Both times of each shape."""
    found = []
    for number, line in enumerate(chosen):
        own = calls[number * CALLS : (number + 1) * CALLS]
        ncu_us = statistics.median(sum(launch[TIME] for launch in call) for call in own)
        cold = line["methods"]["cold-v1"]
        found.append(
            {
                "operator": line["operator"],
                "shape": line["shape"],
                "solution": line["solution"],
                "kernels": len(own[0]),
                "clock": cold["clock"],
                "cold_us": line["median_us"],
                "p20_us": line["p20_us"],
                "p80_us": line["p80_us"],
                "ncu_us": round(ncu_us, 3),
                "cold_over_ncu": round(line["median_us"] / ncu_us, 4),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="what `solscope bench run` wrote")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.results)
        return
    chosen = picks(options.results)
    found = compare(chosen, profiled(__file__, chosen, [TIME]))
    for one in found:
        print(
            f"{one['operator']:28s} {one['shape']:>4s} {one['kernels']:2d} kernels  "
            f"cold {one['cold_us']:10.2f} us  ncu {one['ncu_us']:10.2f} us  "
            f"x{one['cold_over_ncu']:.3f} ({one['clock']})"
        )
    if options.output is not None:
        about = {
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": f"python benchmarks/cross_check.py {options.results.name} "
            f"-o {options.output.name}",
            "device": chosen[0]["device"],
            "run": chosen[0]["run"],
            "shapes": found,
        }
        options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
