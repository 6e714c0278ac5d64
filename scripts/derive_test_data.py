"""Make the recordings under tests/data/truth from the full ones, which are too large to ship.

    python scripts/derive_test_data.py ../shared/data

Events, names, times, shapes and ids are those of the recordings. What goes: arrows that viewers
draw, arguments that no reader uses, and parts of the header that describe the machine. Where each
comes from, and under which license: tests/data/truth/README.md.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import zstandard
from make_demos import HEADER, load, slim

TARGET = Path(__file__).resolve().parents[1] / "tests" / "data" / "truth"
TRACES = (
    "traces/mi300_sglang_qwen3-8b_decode.json.gz",
    "h200/graph/normal.trace.json.gz",
    "h200/graph/no_cuda_graph.trace.json.gz",
    "h200/models/llama8l-stack.trace.json.gz",
    "h200/models/llama8l-compiled-cudagraph.trace.json.gz",
    "h200/models/qwen3moe4l.trace.json.gz",
    "h200/models/deepseekv3-4l.trace.json.gz",
    "h200/models/qwen3next4l.trace.json.gz",
)
COPIES = (
    "nsys/nsys_dsocr_per-stage_prefill_cuda_gpu_kern_sum.csv",
    "configs/gpt-oss-20b.json",
    "configs/gpt-oss-120b.json",
    "configs/qwen3-8b.json",
    "configs/h200-llama8l.json",
    "configs/h200-graph-12l.json",
)
DROPPED = frozenset(
    {
        *("Concrete Inputs", "Input Strides", "Ev Idx", "Record function id", "Fwd thread id"),
        *("Sequence number", "Python id", "Python parent id", "Python module id", "Trace name"),
        *("registers per thread", "shared memory", "blocks per SM", "warps per SM", "context"),
        *("est. achieved occupancy %", "queued", "cbid", "Trace iteration", "Call stack"),
        *("memory bandwidth (GB/s)", "Collective name full", "fwd_thread_id", "kernel_file"),
    }
)
"""Arguments that nothing in the tests needs."""
LIMIT_BYTES = 3_000_000


def main(data: Path) -> None:
    """Write all recordings, and print their sizes."""
    for name in TRACES:
        trace = load(data / name)
        target = TARGET / name.replace(".json.gz", ".json.zst")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(packed(trace))
    for name in COPIES:
        (TARGET / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / name, TARGET / name)
    files = sorted(path for path in TARGET.rglob("*") if path.is_file())
    for path in files:
        print(f"{path.stat().st_size:10,}  {path.relative_to(TARGET)}")
    total = sum(path.stat().st_size for path in files)
    print(f"{total:10,}  in all")
    if total > LIMIT_BYTES:
        raise SystemExit(f"more than {LIMIT_BYTES:,} bytes")


def packed(trace: dict[str, Any]) -> bytes:
    """The trace with a short header and only what tests need, compressed."""
    small = {key: trace[key] for key in HEADER if key in trace}
    small["traceEvents"] = [_small(event) for event in slim(trace["traceEvents"])]
    text = json.dumps(small, separators=(",", ":"), ensure_ascii=False)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        12, window_log=25, enable_ldm=True, write_checksum=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(text.encode())


def _small(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    if event.get("ph") == "M" or not isinstance(arguments, dict):
        return event
    return {**event, "args": {k: v for k, v in arguments.items() if k not in DROPPED}}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
