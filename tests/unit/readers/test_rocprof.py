from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from solscope.errors import DamagedFileError, LimitError
from solscope.profile import Device, Profile
from solscope.readers import rocprof
from solscope.readers.base import Head, ReadOptions
from solscope.readers.rocprof import READER
from solscope.readers.source import read_head

REAL = Path(__file__).parents[4] / "shared/data/traces/rocprofv3_908_results.json.gz"

CPU = {"id": {"handle": 7}, "type": 1, "name": "EPYC", "cu_count": 64}
GPU0 = {
    "id": {"handle": 8},
    "type": 2,
    "name": "gfx942",
    "product_name": "AMD Instinct MI300X",
    "cu_count": 304,
    "mem_banks": [{"size_in_bytes": 100}],
}
GPU1 = {"id": {"handle": 9}, "type": 2}
STRINGS = {
    "buffer_records": [
        {"kind": "NONE", "operations": []},
        {"kind": "HIP_RUNTIME_API", "operations": ["hipMemcpy", "hipLaunchKernel"]},
        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
        {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
    ],
    "marker_api": [{"key": 30, "value": "decode_step"}],
}
SYMBOLS = [
    {"kernel_id": 1, "formatted_kernel_name": "", "demangled_kernel_name": "f(int) [clone .kd]"},
    {"kernel_id": 2, "kernel_name": "copyBuffer.kd"},
]


def record(start: int, end: int, correlation: int, **facts: Any) -> dict[str, Any]:
    return {
        "start_timestamp": start,
        "end_timestamp": end,
        "thread_id": 55,
        "correlation_id": {"internal": correlation, "external": 0},
        **facts,
    }


def kernel(
    start: int, end: int, kernel_id: int = 1, agent: int = 8, **facts: Any
) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": agent},
        "queue_id": {"handle": 3},
        "kernel_id": kernel_id,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1000, "y": 2, "z": 1},
    }
    return record(start, end, 10, dispatch_info=info, **facts)


def process(**buffers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {
            "pid": 50,
            "node": {"hostname": "box"},
            "command": ["python", "--token=hunter2"],
            "config": {"output_path": "/home/someone"},
        },
        "agents": [CPU, GPU0, GPU1],
        "strings": STRINGS,
        "kernel_symbols": SYMBOLS,
        "buffer_records": buffers,
    }


def read(tmp_path: Path, *processes: dict[str, Any]) -> Profile:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": processes}))
    return READER.read(path, ReadOptions())


def test_kernel_row(tmp_path: Path) -> None:
    profile = read(tmp_path, process(kernel_dispatch=[kernel(100, 130)]))
    row = profile.events.row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "kernel",
        "name": "f(int)",
        "start_ns": 100,
        "dur_ns": 30,
        "device": 0,
        "stream": 3,
        "pid": 50,
        "tid": 55,
        "correlation": 10,
        "grid": "4,2,1",
        "block": "256,1,1",
    }
    assert profile.warnings == ()


def test_stream_is_preferred_to_queue(tmp_path: Path) -> None:
    profile = read(tmp_path, process(kernel_dispatch=[kernel(0, 1, stream_id={"handle": 0})]))
    assert profile.events["stream"].to_list() == [0]


def test_mangled_suffix_is_stripped_and_an_unknown_kernel_has_no_name(tmp_path: Path) -> None:
    kernels = [kernel(0, 1, kernel_id=2), kernel(1, 2, kernel_id=99)]
    profile = read(tmp_path, process(kernel_dispatch=kernels))
    assert profile.events["name"].to_list() == ["copyBuffer", None]


def test_second_gpu_has_ordinal_one(tmp_path: Path) -> None:
    profile = read(tmp_path, process(kernel_dispatch=[kernel(0, 1, agent=9)]))
    assert profile.events["device"].to_list() == [1]
    assert profile.metadata.devices == (Device(1, vendor="amd"),)


def test_copy_names_its_direction_and_the_gpu(tmp_path: Path) -> None:
    copy = record(0, 5, 1, kind=2, operation=1, bytes=64)
    copy |= {"src_agent_id": {"handle": 7}, "dst_agent_id": {"handle": 9}}
    profile = read(tmp_path, process(memory_copy=[copy]))
    row = profile.events.select("kind", "name", "device", "stream", "bytes").row(0)
    assert row == ("memcpy", "Memcpy HtoD", 1, None, 64)


def test_api_calls_are_runtime_events(tmp_path: Path) -> None:
    call = record(0, 5, 10, kind=1, operation=1)
    profile = read(
        tmp_path, process(hip_api=[call], rccl_api=[call], kernel_dispatch=[kernel(6, 7)])
    )
    calls = profile.events.filter(pl.col("kind") == "runtime")
    assert calls["name"].to_list() == ["hipLaunchKernel", "hipLaunchKernel"]
    assert calls["device"].to_list() == [None, None]
    assert profile.coverage.linked_pct == 100.0


def test_marker_takes_its_message_else_its_operation(tmp_path: Path) -> None:
    marks = [record(0, 9, 30, kind=3, operation=1), record(1, 1, 31, kind=3, operation=0)]
    profile = read(tmp_path, process(marker_api=marks))
    rows = profile.events.select("kind", "name", "dur_ns").rows()
    assert rows == [("annotation", "decode_step", 9), ("annotation", "roctxMarkA", 0)]
    assert [warning.code for warning in profile.warnings] == ["no_gpu_activity"]


def test_one_process_has_no_rank_and_several_have(tmp_path: Path) -> None:
    one = process(kernel_dispatch=[kernel(0, 1)])
    assert read(tmp_path, one).events["rank"].to_list() == [None]
    assert read(tmp_path, one, one).events["rank"].to_list() == [0, 1]


def test_missing_sections_are_fine(tmp_path: Path) -> None:
    bare = {"buffer_records": {"kernel_dispatch": [kernel(0, 1)]}}
    profile = read(tmp_path, bare)
    assert profile.events.select("name", "device", "pid").row(0) == (None, None, None)
    assert profile.metadata.host is None


def test_old_vintage_with_one_object_and_kernel_dispatches(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": process(kernel_dispatches=[kernel(0, 1)])}))
    assert READER.read(path, ReadOptions()).events["name"].to_list() == ["f(int)"]


def test_unused_records_are_counted(tmp_path: Path) -> None:
    profile = read(tmp_path, process(kernel_dispatch=[kernel(0, 1)], scratch_memory=[{}, {}]))
    assert (profile.metadata.events_in_file, profile.events.height) == (3, 1)


def test_impossible_times_are_skipped_and_counted(tmp_path: Path) -> None:
    kernels = [kernel(10, 5), kernel(2**70, 2**70 + 1), kernel(-5, 5), kernel(0, 1)]
    kernels += [kernel(0, 2**62), kernel(2**62, 2**62 + 1)]
    profile = read(tmp_path, process(kernel_dispatch=kernels))
    assert profile.events["start_ns"].to_list() == [0]
    assert [warning.code for warning in profile.warnings] == ["damaged_events"]
    assert profile.warnings[0].message.startswith("5 records")


def test_command_line_and_paths_are_not_kept(tmp_path: Path) -> None:
    profile = read(tmp_path, process(kernel_dispatch=[kernel(0, 1)]))
    assert profile.metadata.host == "box"
    assert "hunter2" not in repr(profile.metadata)
    assert "someone" not in repr(profile.metadata)


@pytest.mark.parametrize(
    "text", ['{"rocprofiler-sdk-tool":[{"agents":[', '{"rocprofiler-sdk-tool":[]}']
)
def test_cut_off_or_empty_json_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cut.json"
    path.write_text(text)
    with pytest.raises(DamagedFileError) as caught:
        READER.read(path, ReadOptions())
    assert len(str(caught.value).splitlines()) == 1


def test_cut_off_gzip_is_damaged(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps({"rocprofiler-sdk-tool": [process()]}).encode())
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DamagedFileError):
        READER.read(path, ReadOptions())


def test_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocprof, "LIMIT_BYTES", 10)
    with pytest.raises(LimitError, match="record a shorter run"):
        read(tmp_path, process())


@pytest.mark.parametrize(
    ("data", "claimed"),
    [
        (b'{"rocprofiler-sdk-tool":[{', True),
        (b'\xef\xbb\xbf{\n  "rocprofiler-sdk-tool": [', True),
        (b'{"traceEvents": [{"name": "rocprofiler-sdk-tool"}]}', False),
        (b"rocprofiler-sdk-tool", False),
        (b"", False),
    ],
)
def test_sniff(data: bytes, claimed: bool) -> None:
    assert READER.sniff(Head(Path("x"), data)) is claimed


@pytest.mark.skipif(not REAL.exists(), reason="needs ../shared/data/traces")
def test_real_file() -> None:
    assert READER.sniff(read_head(REAL))
    profile = READER.read(REAL, ReadOptions())
    kernels = profile.events.filter(pl.col("kind") == "kernel").sort("start_ns")
    end = pl.col("start_ns") + pl.col("dur_ns")
    reached = end.cum_max().shift(1, fill_value=0)
    busy = (end - pl.max_horizontal("start_ns", reached)).clip(lower_bound=0).sum()
    span_ns, busy_ns = kernels.select(end.max() - pl.col("start_ns").min(), busy.alias("busy")).row(
        0
    )
    assert kernels.height == profile.events.height == 43_915
    assert span_ns == 15_122_023_494
    assert round(100 * busy_ns / span_ns, 2) == 27.99
    assert len(profile.metadata.devices) == 1
    assert profile.metadata.devices[0].label == "AMD Instinct MI350X"
    assert "train.py" not in repr(profile.metadata)
