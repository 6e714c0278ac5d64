"""Real recordings for tests: the full ones where they are, else those that the repository has.

The full recordings are in `../shared/data`, which a public clone lacks. Some of them are bundled as
demos, and `scripts/derive_test_data.py` made small copies of others: the same events without
arguments that no test needs. A test that needs another one is skipped.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import solscope
from solscope.attribution import Attributed

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
DERIVED = ROOT / "tests" / "data" / "truth"
DEMO = ROOT / "src" / "solscope" / "demo"
BUNDLED = {
    "traces/b200_eager.json.gz": DEMO / "vllm-b200.json.gz",
    "traces/vllm_decode_full_exec.json.gz": DEMO / "vllm-mi300x-graph.json.gz",
    "traces/h100_qwen1.5-0.5b.json.gz": DEMO / "qwen-h100.json.zst",
    "traces/mi300_qwen1.5-0.5b.json.gz": DEMO / "qwen-mi300x.json.zst",
    "nsys/nsys_dsocr_per-stage_decode_cuda_gpu_kern_sum.csv": ROOT
    / "tests/data/nsys_decode_kern_sum.csv",
}


def recording(name: str) -> Path:
    """Where the recording called `name` below `../shared/data` is; skips the test without it."""
    small = DERIVED / name
    places = (
        SHARED / name,
        BUNDLED.get(name, small),
        small.with_name(small.name.replace(".json.gz", ".json.zst")),
    )
    for path in places:
        if path.exists():
            return path
    pytest.skip(f"{name} is only in ../shared/data")


def attributed_recording(path: Path) -> Attributed:
    """A recording, read and attributed once for all tests: nothing changes what this gives."""
    return _attributed(path.resolve())


@cache
def _attributed(path: Path) -> Attributed:
    return solscope.attribute(solscope.open(path))


def is_whole(name: str) -> bool:
    """Whether the full recording is there, with the arrows that viewers draw."""
    return (SHARED / name).exists()
