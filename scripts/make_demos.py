"""Make the recordings under src/solscope/demo from the full ones.

    python scripts/make_demos.py ../shared/data

A demo is a real recording, made small: a few consecutive steps of it, without the arrows that
viewers draw (correlation ids say the same) and without the parts of the header that describe the
machine and its user. Times, names, shapes and ids are those of the recording. The results file is
a selection of lines. Where each comes from, and under which license: NOTICE.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import zstandard
from digest_results import digested

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src" / "solscope" / "demo"
RESULTS = ROOT / "results"
Event = dict[str, Any]

HEADER = (
    "schemaVersion",
    "deviceProperties",
    "record_shapes",
    "with_stack",
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "hip_driver_version",
    "hip_runtime_version",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "distributedInfo",
)
"""Members of a header that a demo keeps: none of them names a machine, a user or a folder."""
DROPPED_ARGS = ("Ev Idx", "Record function id", "Fwd thread id", "Sequence number")
BOOKKEEPING = ("process_name", "process_labels", "process_sort_index", "thread_name")
BEFORE_NS = AFTER_NS = 50_000_000
"""Samples kept before the first and after the last event, so that counters have a start."""
OPERATORS = ("fused_qkv_rope", "mla_decode_attention", "moe_sum_reduce")
"""Operators whose results make up the benchmark demo."""
PAIRS = (
    "tune-graph-extra_sync-s3",
    "tune-graph-pcie-s3",
    "tune-eager-slow_sleep-s3",
    "tune-eager-none-1-again",
)
"""Pairs of the fault lab that make up its demo; in the last one nothing was injected."""


def save_results(source: Path, target: Path) -> None:
    """The lines of a few operators, with running digests of their own."""
    lines = source.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if json.loads(line)["operator"] in OPERATORS]
    target.write_text("\n".join(kept) + "\n", encoding="utf-8")
    renewed, _ = digested(target)
    target.write_text("\n".join(renewed) + "\n", encoding="utf-8")


def main(data: Path) -> None:
    """Write all demos made from `data`, and print their sizes."""
    runs, traces = data / "h200" / "runs", data / "traces"
    for name, source in (("h200-normal", "normal"), ("h200-slow", "cpu_contention")):
        trace = cut(load(runs / f"{source}.trace.json.gz"), "engine_step".__eq__, 1, 13)
        save(trace, TARGET / f"{name}.trace.json.zst")
        samples = (runs / f"{source}.metrics.csv").read_text(encoding="utf-8")
        text = cut_samples(samples, *interval_ns(trace))
        (TARGET / f"{name}.metrics.csv").write_text(text, encoding="utf-8")
    for name, source in (("qwen-h100", "h100"), ("qwen-mi300x", "mi300")):
        save(load(traces / f"{source}_qwen1.5-0.5b.json.gz"), TARGET / f"{name}.json.zst")
    (TARGET / "ranks").mkdir(exist_ok=True)
    for rank in range(4):
        trace = load(data / "h200" / "ranks" / "tp4-slow_gpu" / f"rank{rank}.trace.json.zst")
        few = cut(trace, lambda name: name.startswith("execute_context"), 3, 9)
        save(few, TARGET / "ranks" / f"rank{rank}.trace.json.zst")
    save_results(RESULTS / "bench" / "h200.jsonl", TARGET / "bench-h200.jsonl")
    pack_lab(RESULTS / "lab" / "tune", TARGET / "lab")
    files = sorted(path for path in TARGET.rglob("*") if path.is_file() and path.suffix != ".py")
    for path in files:
        print(f"{path.stat().st_size:10,}  {path.relative_to(TARGET)}")
    print(f"{sum(path.stat().st_size for path in files):10,}  in all")


def pack_lab(source: Path, target: Path) -> None:
    """A few pairs of the fault lab, with their recordings."""
    lines = (source / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if json.loads(line)["id"] in PAIRS]
    pairs = [json.loads(line) for line in kept]
    names = {name for pair in pairs for name in (pair["normal"], pair["abnormal"])}
    shutil.rmtree(target, ignore_errors=True)
    (target / "recordings").mkdir(parents=True)
    (target / "pairs.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    for name in sorted(names):
        file = f"{name}.json.zst"
        shutil.copyfile(source / "recordings" / file, target / "recordings" / file)


def load(path: Path) -> dict[str, Any]:
    """A Chrome trace, gzip or zstd; refuses a number that a float would change."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    else:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    trace: dict[str, Any] = json.loads(raw, parse_float=_exactly)
    return trace


def _exactly(text: str) -> float:
    number = float(text)
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError(f"{text} is not {number!r}")
    return number


def cut(
    trace: dict[str, Any], is_step: Callable[[str], bool], first: int, end: int
) -> dict[str, Any]:
    """Steps `first` to `end` - 1: what the host did in them, and the GPU work that it launched."""
    events: list[Event] = trace["traceEvents"]
    starts = sorted(
        event["ts"]
        for event in events
        if event.get("cat") == "user_annotation" and is_step(event["name"])
    )
    inside = range_of(starts, first, end)
    host = [event for event in events if "dur" in event and not _on_gpu(event)]
    kept = {id(event) for event in host if inside(event["ts"])}
    launched = {
        event["args"]["correlation"]
        for event in host
        if id(event) in kept and "correlation" in event.get("args", {})
    }
    annotated = {
        event["args"]["External id"]
        for event in host
        if id(event) in kept and event.get("cat") == "user_annotation"
    }
    for event in events:
        arguments = event.get("args", {})
        if event.get("ph") == "M" or (
            _on_gpu(event)
            and (
                arguments.get("correlation") in launched
                if event.get("cat") != "gpu_user_annotation"
                else arguments.get("External id") in annotated
            )
        ):
            kept.add(id(event))
    return {**trace, "traceEvents": [event for event in events if id(event) in kept]}


def range_of(starts: list[float], first: int, end: int) -> Callable[[float], bool]:
    """Whether a time lies in the steps `first` to `end` - 1."""
    if not 0 <= first < end < len(starts):
        raise ValueError(f"steps {first} to {end} of {len(starts)}")
    return lambda ts: starts[first] <= ts < starts[end]


def _on_gpu(event: Event) -> bool:
    category = event.get("cat") or ""
    return category in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")


def interval_ns(trace: dict[str, Any]) -> tuple[int, int]:
    """Unix time of the first start and the last end."""
    zero = int(trace["baseTimeNanoseconds"])
    timed = [event for event in trace["traceEvents"] if "dur" in event]
    first = min(event["ts"] for event in timed)
    last = max(event["ts"] + event["dur"] for event in timed)
    return zero + round(first * 1000), zero + round(last * 1000)


def cut_samples(text: str, first: int, last: int) -> str:
    """The header and the samples between two times, and a little beyond them."""
    header, *rows = text.splitlines()
    near = range(first - BEFORE_NS, last + AFTER_NS)
    return "\n".join([header, *(row for row in rows if int(row.split(",")[0]) in near)]) + "\n"


def save(trace: dict[str, Any], path: Path) -> None:
    """Write a trace without arrows and with a short header, compressed."""
    small = {key: trace[key] for key in HEADER if key in trace}
    small["traceEvents"] = list(slim(trace["traceEvents"]))
    text = json.dumps(small, separators=(",", ":"), ensure_ascii=False)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        22, window_log=25, enable_ldm=True, write_checksum=True
    )
    packed = zstandard.ZstdCompressor(compression_params=parameters).compress(text.encode())
    path.write_bytes(packed)


def slim(events: Iterable[Event]) -> Iterable[Event]:
    """Events without arrows, and arguments that number what is already in order."""
    for event in events:
        if event.get("ph") in ("s", "f"):
            continue
        if event.get("ph") == "M" and event.get("name") not in BOOKKEEPING:
            continue
        arguments = event.get("args")
        if isinstance(arguments, dict):
            small = {key: value for key, value in arguments.items() if key not in DROPPED_ARGS}
            event = {**event, "args": small}
        yield event


if __name__ == "__main__":
    main(Path(sys.argv[1]))
