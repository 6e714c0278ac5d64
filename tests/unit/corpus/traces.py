"""Small Kineto traces on disk, for tests of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4>"
MYSTERY = "a_kernel_that_nobody_knows"
BASE_NS = 1_790_857_026_000_000_000
DAY_US = 86_400_000_000


def write_trace(
    path: Path,
    *,
    gemm_us: float = 20.0,
    add_us: float = 2.0,
    mystery_us: float = 3.0,
    m: int = 64,
    calls: int = 2,
    day: int = 0,
    rank: int | None = None,
    ranks: int = 4,
) -> Path:
    """A trace on one H200: `calls` times a product, an addition and a kernel nobody knows."""
    events: list[dict[str, Any]] = []
    at, number = 1000.0 + day * DAY_US, 1

    def activity(name: str, dur: float, op: str | None, inputs: dict[str, Any]) -> None:
        nonlocal at, number
        if op is not None:
            args = {"External id": number, **inputs}
            events.append(_event("cpu_op", op, at - 5, 4, args))
        ids = {"correlation": number, **({"External id": number} if op else {})}
        events.append(_event("cuda_runtime", "cudaLaunchKernel", at - 4, 1, ids))
        events.append(_event("kernel", name, at, dur, {**ids, "device": 0, "stream": 7}))
        at, number = at + dur + 10, number + 1

    bf16 = ["c10::BFloat16", "c10::BFloat16"]
    product = {"Input Dims": [[m, 4096], [4096, 4096]], "Input type": bf16}
    addition = {"Input Dims": [[m, 4096], [m, 4096], []], "Input type": [*bf16, "Scalar"]}
    for _ in range(calls):
        activity(GEMM, gemm_us, "aten::mm", product)
        activity(ADD, add_us, "aten::add", addition)
        activity(MYSTERY, mystery_us, None, {})
    device = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_121_545_728, "numSms": 132}
    document = {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": events,
    }
    if rank is not None:
        document["distributedInfo"] = {"rank": rank, "world_size": ranks}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _event(cat: str, name: str, ts: float, dur: float, args: dict[str, Any]) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args, **place}
