"""Run HTA (PyPI traceinsight) on one trace: parse, temporal breakdown, kernel breakdown.

Started by ingest.py with the Python of HTA's own virtual environment. HTA finds traces by folder,
so the trace is linked into an empty temporary one and named there as rank 0.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    started = time.perf_counter()
    trace = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / trace.name
        link.symlink_to(trace)
        summarize(link, started)


def summarize(trace: Path, started: float) -> None:
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    analysis = TraceAnalysis(trace_files={0: str(trace)}, trace_dir=str(trace.parent))
    parsed = time.perf_counter()
    temporal = analysis.get_temporal_breakdown(visualize=False)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    for table in (temporal, kinds, kernels):
        print(table.to_string(), end="\n\n")
    done = time.perf_counter()
    print(f"import and parse {parsed - started:.2f} s, analyses {done - parsed:.2f} s")


if __name__ == "__main__":
    main()
