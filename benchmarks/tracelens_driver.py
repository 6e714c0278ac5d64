"""Run TraceLens on a replay and the recordings of its graph captures, and write what it found.

Started by captures.py with the Python of TraceLens' own virtual environment. Writes one JSON
object: its version, the share of kernel time with a cost, and operator and inputs of each kernel.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    profile, captures, output = sys.argv[1:4]
    # The report changes the tree: it gets one of its own.
    found = {
        "version": importlib.metadata.version("TraceLens"),
        "costed": costed(profile, merged(profile, captures)),
        "kernels": kernels(merged(profile, captures)),
    }
    Path(output).write_text(json.dumps(found))


def merged(profile: str, captures: str) -> Any:
    """The tree of the replay with what was captured, or None where TraceLens found no match."""
    from TraceLens.Reporting import (  # type: ignore[import-not-found]
        generate_perf_report_pytorch_inference as inference,
    )

    inference.classify_graph_capture_trace(captures)
    details = str(Path(captures) / "execution_details.json")
    return inference.merge_capture_trace_into_graph(captures, details, profile)


def costed(profile: str, tree: Any) -> float | None:
    """Share of the kernel time in its table of operators that has FLOP or bytes, if it has one."""
    from TraceLens.Reporting import generate_perf_report_pytorch_inference as inference

    with tempfile.TemporaryDirectory() as folder:
        tables = inference.generate_perf_report_pytorch(
            profile_json_path=profile,
            augmented_tree=tree,
            enable_pseudo_ops=True,
            output_csvs_dir=folder,
        )
    summary = tables.get("unified_perf_summary")
    if summary is None:
        return None
    times = next(c for c in summary.columns if c.startswith("Kernel Time") and "sum" in c)
    known = [c for c in summary.columns if c.startswith(("GFLOPS", "Data Moved (MB)"))]
    has_cost = summary[known].notna().any(axis=1)
    return float(summary[times][has_cost].sum() / summary[times].sum())


def kernels(tree: Any) -> list[list[Any]]:
    """Start in µs, name, operator and input shapes of each GPU activity; null where not known."""
    found = []
    for event in tree.events if tree is not None else ():
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        parent = tree.get_parent_event(event)
        while parent is not None and parent.get("cat") != "cpu_op":
            parent = tree.get_parent_event(parent)
        inputs = None if parent is None else parent["args"].get("Input Dims")
        operator = None if parent is None else parent["name"]
        found.append([event["ts"], event["name"], operator, inputs])
    return found


if __name__ == "__main__":
    main()
