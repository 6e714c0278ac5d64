from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from solscope.attribution import Attributed
from solscope.attribution.opening import open_attributed
from solscope.cli import run
from solscope.errors import InputError
from solscope.readers import source
from solscope.readers.allocations import ALLOCATION_SCHEMA, read_allocations
from solscope.views.kv_cache import KvCacheUse, kv_cache_use
from solscope.views.memory import OUTSIDE, memory_table
from tests.making import attributed, event
from tests.recordings import recording

COMMAND_LINES = ["memory demo:qwen-h100"]
"""What `test_json_output.py` runs."""
MB = 1_000_000
US = 1000


def memory_event(ts: object, size: int, allocated: int, **more: Any) -> dict[str, Any]:
    """An event as torch writes it."""
    args = {
        "Total Reserved": 100 * MB,
        "Total Allocated": allocated,
        "Bytes": size,
        "Addr": 1,
        "Device Id": 0,
        "Device Type": 1,
        **more,
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "tid": 1,
        "ts": ts,
        "args": args,
    }


def written(tmp_path: Path, *events: dict[str, Any]) -> Path:
    path = tmp_path / "trace.json.gz"
    other = {"ph": "X", "cat": "cpu_op", "name": "a{b", "ts": 1, "dur": 2, "args": {"x": 1}}
    text = json.dumps({"traceEvents": [other, *events, other]}, indent=2)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_events_of_gpus_are_read_in_exact_nanoseconds(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        memory_event(2.5, -10, 20),
        memory_event(1428625746340.715, 30, 50),
        memory_event(1.0, 30, 50, **{"Device Type": 0}),
        memory_event("broken", 30, 50),
        memory_event(2.0, 7, 27, **{"Device Type": 6, "Device Id": 3}),
    )
    found = read_allocations(path)
    assert found.schema == ALLOCATION_SCHEMA
    assert found["start_ns"].to_list() == [2000, 2500, 1428625746340715]
    assert found["bytes"].to_list() == [7, -10, 30]
    assert found["device"].to_list() == [3, 0, 0]


@pytest.mark.parametrize("size", [64, 100, 333, 1000])
def test_events_across_pieces_are_found_once(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", 8 * size)
    events = [memory_event(float(n), 1, n) for n in range(200)]
    assert read_allocations(written(tmp_path, *events))["allocated"].to_list() == [*range(200)]


def table(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """Events as (µs, bytes, allocated, reserved)."""
    full = [(at * US, 1, 0, size, total, held) for at, size, total, held in rows]
    return pl.DataFrame(full, schema=ALLOCATION_SCHEMA, orient="row")


def steps() -> Any:
    events = []
    for number in range(3):
        at = 1000 * number
        events += [
            event("annotation", "decode_step", at * US, 900 * US),
            event("cpu_op", "aten::mm", (at + 10) * US, 100 * US),
            event("cpu_op", "aten::empty", (at + 20) * US, 10 * US),
            event("runtime", "cudaLaunchKernel", (at + 15) * US, US, correlation=number + 1),
            event("kernel", "nvjet_tst_128x8", (at + 30) * US, 50 * US, correlation=number + 1),
        ]
    return attributed(*events)


def test_peak_fragmentation_and_who_allocates() -> None:
    rows = table(
        (5, 10 * MB, 10 * MB, 40 * MB),  # before the first step
        (25, 20 * MB, 30 * MB, 40 * MB),  # in mm of the first step
        (200, -20 * MB, 10 * MB, 40 * MB),
        (1025, 20 * MB, 30 * MB, 40 * MB),
        (1200, 5 * MB, 35 * MB, 50 * MB),  # in no operator
        (2025, 1 * MB, 36 * MB, 50 * MB),
    )
    (found,) = memory_table(steps(), rows)
    assert (found.peak_bytes, found.reserved_bytes) == (36 * MB, 50 * MB)
    assert found.fragmentation_pct == pytest.approx(28.0)
    assert (found.peak_op, found.peak_step, found.steps) == ("aten::mm", 2, 2)
    assert {row.op: (row.calls, row.bytes) for row in found.operators} == {
        "aten::mm": (2, 40 * MB),
        OUTSIDE: (1, 5 * MB),
    }
    # The last step is not counted: no step follows.
    assert found.allocated_per_step == pytest.approx(45 * MB / 2)
    assert found.growth_per_step == pytest.approx(25 * MB / 2)


def test_without_events_it_says_how_to_record_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="profile_memory=True"):
        memory_table(steps(), table())
    assert run(["memory", "demo:h200-normal"]) == 2
    assert "profile_memory=True" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "events"), [("h100", 2250), ("mi300", 2588)])
def test_real_recordings(name: str, events: int) -> None:
    path = recording(f"traces/{name}_qwen1.5-0.5b.json.gz")
    (found,) = memory_table(open_attributed(str(path)), read_allocations(path))
    assert found.events == events
    assert found.first_bytes < found.peak_bytes < found.reserved_bytes
    taken = sum(row.bytes for row in found.operators)
    assert found.allocated_per_step is not None
    assert taken == pytest.approx(found.allocated_per_step * found.steps)


def sampled(name: str, *values: float) -> Attributed:
    """A kernel of 10 µs; samples before it, while it runs, and after it."""
    base = attributed(event("kernel", "gemm", 0, 10 * US), unix_offset_ns=1_000_000)
    times = [1_000_000 - US, *(1_000_000 + US * (at + 1) for at in range(len(values))), 2_000_000]
    metrics = pl.DataFrame(
        {"t_ns": times, "metric": name, "device": None, "value": [0.9, *values, 0.95]},
        schema_overrides={"metric": pl.Categorical, "device": pl.Int32},
    )
    return replace(base, profile=replace(base.profile, metrics=metrics))


@pytest.mark.parametrize(
    "name",
    ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"],
)
def test_the_use_of_the_cache_is_that_during_the_recording(name: str) -> None:
    assert kv_cache_use(sampled(name, 0.25, 0.5, 0.75)) == KvCacheUse(name, 3, 50.0, 75.0)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gpu_mem_util", (0.5,)),  # of the memory interface, not of the cache
        ("vllm:kv_cache_usage_perc", (25.0, 50.0)),  # not shares: the unit is not known
        ("vllm:kv_cache_usage_perc", ()),
    ],
)
def test_the_use_of_the_cache_is_null_where_it_was_not_recorded(
    name: str, values: tuple[float, ...]
) -> None:
    assert kv_cache_use(sampled(name, *values)) is None


def test_a_recording_without_the_metric_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "--top", "1", "demo:qwen-h100"]) == 0
    assert "KV cache use: not recorded" in capsys.readouterr().out
