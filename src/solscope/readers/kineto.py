"""PyTorch/Kineto Chrome traces, as torch.profiler, vLLM and SGLang write them.

Old and new vintages: microsecond integers or nanosecond fractions, `Kernel` or `kernel`, CUDA or HIP,
a `traceEvents` member or a bare array, one rank or several merged into one file. Flow arrows
(`ac2g`), instant events and viewer metadata carry nothing that correlation ids do not, and are counted
but not kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from solscope.errors import DamagedFileError, UnknownFormatError
from solscope.events import EVENT_SCHEMA, KINDS
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import Head, ReadOptions
from solscope.readers.kineto_scan import CODES, NONE, NULL, NUMBERS, ScanStats, new_scanner
from solscope.readers.kineto_text import compact_json, decode_text
from solscope.readers.recording import file_name_facts, guess_framework, safe_about
from solscope.readers.source import TruncatedStream, prefetch, stream

BATCH_ROWS = 1 << 17

_KIND_OF_CATEGORY = {
    "kernel": "kernel",
    "gpu_kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "cpu_op": "cpu_op",
    "operator": "cpu_op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "gpu_annotation",
    "python_function": "python",
    "overhead": "overhead",
    "runtime": "runtime",
}
_NOT_KEPT = {"trace", "cpu_instant_event", "ac2g", "async_cpu_to_gpu"}
"""Categories that are passed over on purpose; any other unknown one is reported."""

# ROCm records some copies and fills as kernels of these names.
_COPY_NAME = re.compile(r"^(Memcpy|hipMemcpy|Copy(Host|Device)To(Host|Device))")
_FILL_NAME = re.compile(r"^(Memset|hipMemset|FillBuffer)")
_JSON_COLUMNS = CODES[4:]
_RANK_LABEL = re.compile(r"^\s*\[(?P<label>[^\]]*\d[^\]]*)\]\s*(?P<pid>.*)$|^(?:rank)?(?P<rank>\d+)[_:](?P<rest>.*)$")


class KinetoReader:
    """Reads Chrome traces of the PyTorch profiler."""

    name = "kineto"
    summary = "PyTorch profiler (Kineto) traces: .json, .json.gz, .json.zst"

    def sniff(self, head: Head) -> bool:
        text = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[":
            return re.match(rb"\[\s*(\{\s*\"|\]|$)", text) is not None
        if text[:1] != b"{" or b'"rocprofiler-sdk-tool"' in text[:4096]:
            return False
        keys = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"')
        return any(key in text for key in keys)

    def read(self, path: Path, options: ReadOptions) -> Profile:
        scanner = new_scanner()
        batches: list[pl.DataFrame] = []
        cut: str | None = None
        try:
            for piece in prefetch(stream(path, options)):
                if scanner.feed(piece) >= BATCH_ROWS:
                    batches.append(_batch(scanner.take()))
        except TruncatedStream as stop:
            cut = str(stop)
        scanner.finish()
        batches.append(_batch(scanner.take()))
        stats = scanner.stats()
        _require_trace(path, stats, cut)
        texts = [decode_text(raw) for raw in scanner.texts()]
        jsons = [compact_json(raw) for raw in scanner.jsons()]
        header = _header(scanner.header())
        del scanner
        events, unknown = _assemble(batches, texts, jsons)
        return Profile(
            path=str(path),
            format=self.name,
            metadata=_metadata(path, header, events, texts, stats),
            events=events,
            warnings=tuple(_warnings(stats, cut, unknown)),
        )


READER = KinetoReader()


def _require_trace(path: Path, stats: ScanStats, cut: str | None) -> None:
    if stats["saw_events"] and not stats["not_trace"]:
        if stats["events"] > stats["damaged"] or stats["truncated_at"] < 0:
            return
        raise DamagedFileError(f"{path}: no event in this trace can be read ({_where(stats)})")
    if cut or stats["truncated_at"] >= 0:
        raise DamagedFileError(f"{path}: cut off before its first event; record it again")
    raise UnknownFormatError(f"{path}: JSON without a traceEvents array, so not a trace")


def _where(stats: ScanStats) -> str:
    if stats["damage"]:
        offset, why = stats["damage"][0]
        return f"byte {offset}: {why}"
    return f"byte {max(0, stats['truncated_at'])}"


def _batch(columns: dict[str, Any]) -> pl.DataFrame:
    """Raw columns as Polars, sentinels as nulls; codes stay numbers until all texts are known."""
    series = []
    for name in CODES:
        codes = pl.Series(name, np.frombuffer(columns.pop(name), np.uint32))
        series.append(codes.set(codes == NONE, None))
    for name in NUMBERS:
        numbers = pl.Series(name, np.frombuffer(columns.pop(name), np.int64))
        series.append(numbers.set(numbers == NULL, None))
    return pl.DataFrame(series)


def _assemble(
    batches: list[pl.DataFrame], texts: list[str], jsons: list[str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The event table, and the categories that were not understood with their event counts."""
    names = pl.Series("name", texts, dtype=pl.String).cast(pl.Categorical)
    values = pl.Series("json", jsons, dtype=pl.String).cast(pl.Categorical)
    kinds = pl.Series("kind", [_kind(text) for text in texts], dtype=pl.Enum(KINDS))
    name_kinds = pl.Series("by_name", [_kind_by_name(text) for text in texts], dtype=pl.Enum(KINDS))
    ranks = _ranks(texts)
    unknown: dict[str, int] = {}
    done = []
    while batches:
        raw = batches.pop(0)
        kind = kinds.gather(raw["cat"])
        by_name = name_kinds.gather(raw["name"])
        kind = kind.zip_with((kind != "kernel").fill_null(True) | by_name.is_null(), by_name)
        lost = raw.filter(kind.is_null() & raw["cat"].is_not_null())["cat"].value_counts()
        for code, count in lost.iter_rows():
            unknown[texts[code]] = unknown.get(texts[code], 0) + count
        table = raw.with_columns(
            kind.alias("kind"),
            names.gather(raw["name"]).alias("name"),
            _identity(raw, "pid", ranks).alias("pid"),
            _identity(raw, "tid", ranks).alias("tid"),
            _rank(raw, ranks).alias("rank"),
            *(values.gather(raw[column]).alias(column) for column in _JSON_COLUMNS),
        ).drop("cat", "pid_text", "tid_text")
        done.append(_place(table.filter(pl.col("kind").is_not_null())))
    known = {name: n for name, n in unknown.items() if name.lower() not in _NOT_KEPT}
    return pl.concat(done, rechunk=False), known


def _place(table: pl.DataFrame) -> pl.DataFrame:
    """GPU rows get device and stream (Kineto repeats them as pid and tid); host rows keep neither."""
    on_gpu = pl.col("kind").is_in(["kernel", "memcpy", "memset", "gpu_annotation", "sync"])
    small = pl.col("pid").is_between(0, 4095)
    return table.select(
        pl.when(on_gpu)
        .then(pl.coalesce("device", pl.when(small).then("pid")))
        .cast(pl.Int32, strict=False)
        .alias("device")
        if name == "device"
        else pl.when(on_gpu).then(pl.coalesce("stream", "tid")).alias("stream")
        if name == "stream"
        else pl.when(~on_gpu).then(name).alias(name)
        if name in ("pid", "tid")
        else pl.col(name).cast(dtype)
        for name, dtype in EVENT_SCHEMA.items()
    )


def _kind(category: str) -> str | None:
    lower = category.lower()
    if lower.endswith("_runtime"):
        return "runtime"
    if lower.endswith("_driver"):
        return "driver"
    return _KIND_OF_CATEGORY.get(lower)


def _kind_by_name(name: str) -> str | None:
    """The kind of something filed as a kernel that its name says is none."""
    if _COPY_NAME.match(name):
        return "memcpy"
    return "memset" if _FILL_NAME.match(name) else None


def _ranks(texts: list[str]) -> dict[int, tuple[int, int]]:
    """For each text that labels a process of a merged trace: (rank, process number)."""
    found = {code: m for code, text in enumerate(texts) if (m := _RANK_LABEL.match(text))}
    labels = sorted({m["label"] or m["rank"] for m in found.values()}, key=_natural)
    order = {label: rank for rank, label in enumerate(labels)}
    out = {}
    for code, m in found.items():
        digits = re.findall(r"\d+", m["pid"] or m["rest"] or "")
        out[code] = (order[m["label"] or m["rank"]], int(digits[-1]) if digits else -1)
    return out


def _natural(label: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", label)]


def _identity(raw: pl.DataFrame, column: str, ranks: dict[int, tuple[int, int]]) -> pl.Series:
    """Process or thread number; a text label yields the number in it, or a stable negative one."""
    codes = raw[f"{column}_text"]
    if codes.null_count() == codes.len():
        return raw[column]
    numbers = {code: ranks[code][1] if code in ranks else -2 - code for code in codes.unique() if code is not None}
    from_text = codes.replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return raw[column].zip_with(raw[column].is_not_null(), from_text)


def _rank(raw: pl.DataFrame, ranks: dict[int, tuple[int, int]]) -> pl.Series:
    codes = raw["pid_text"]
    known = {code: rank for code, (rank, _) in ranks.items()}
    if not known or codes.null_count() == codes.len():
        return pl.Series("rank", [None], dtype=pl.Int32).extend_constant(None, raw.height)[: raw.height]
    return codes.replace_strict(known, default=None, return_dtype=pl.Int32)


def _header(members: Any) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for key, raw in members:
        try:
            header[key.decode(errors="replace")] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return header


def _metadata(
    path: Path, header: dict[str, Any], events: pl.DataFrame, texts: list[str], stats: ScanStats
) -> Metadata:
    facts = file_name_facts(path)
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    return Metadata(
        events_in_file=stats["events"],
        devices=_devices(header, events),
        framework=guess_framework(texts),
        versions={
            key: str(value) for key, value in header.items() if key.endswith("_version")
        } | ({"nccl": str(distributed["nccl_version"])} if "nccl_version" in distributed else {}),
        rank=_small_int(distributed.get("rank"), facts.rank),
        world_size=_small_int(distributed.get("world_size"), None),
        host=None,
        unix_offset_ns=_unix_offset(header, events),
        stage=facts.stage,
        about=safe_about(header),
    )


def _small_int(value: Any, default: int | None) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else default


def _unix_offset(header: dict[str, Any], events: pl.DataFrame) -> int | None:
    base = header.get("baseTimeNanoseconds")
    if isinstance(base, int) and abs(base) < 1 << 62:
        return base
    first = events["start_ns"].min()
    # Traces without a base hold Unix microseconds; anything before 2001 is some other clock.
    return 0 if isinstance(first, int) and first > 1_000_000_000_000_000_000 else None


def _devices(header: dict[str, Any], events: pl.DataFrame) -> tuple[Device, ...]:
    """The devices that did something, described by the header where it does."""
    described: dict[int, Device] = {}
    properties = header.get("deviceProperties")
    for item in properties if isinstance(properties, list) else []:
        if isinstance(item, dict) and isinstance(item.get("id"), int):
            described.setdefault(item["id"], _device(item, header))
    active = events.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))["device"]
    ordinals = sorted(d for d in active.unique().to_list() if d is not None)
    if len(described) == len(ordinals) and not described.keys() & set(ordinals):
        # ROCm numbers activities by agent, CPUs included, and the header by GPU.
        pairs = zip(ordinals, sorted(described))
        described = {d: msgspec.structs.replace(described[k], ordinal=d) for d, k in pairs}
    return tuple(described.get(d, Device(ordinal=d)) for d in ordinals)


def _device(item: dict[str, Any], header: dict[str, Any]) -> Device:
    amd = item.get("warpSize") == 64 or any(key.startswith(("hip_", "roctracer")) for key in header)
    major, minor = item.get("computeMajor"), item.get("computeMinor")
    # HIP reports gfx942 as compute 9.4; the stepping is not recorded.
    arch = f"gfx{major}{minor}x" if amd else f"sm_{major}{minor}"
    name = item.get("name")
    return Device(
        ordinal=item["id"],
        name=name if isinstance(name, str) and name else None,
        vendor="amd" if amd else "nvidia",
        arch=arch if isinstance(major, int) and isinstance(minor, int) else None,
        compute_units=_small_int(item.get("numSms"), None),
        memory_bytes=item["totalGlobalMem"] if isinstance(item.get("totalGlobalMem"), int) else None,
    )


def _warnings(stats: ScanStats, cut: str | None, unknown: dict[str, int]) -> list[ProfileWarning]:
    found = []
    if stats["truncated_at"] >= 0 or cut:
        where = f"at byte {stats['truncated_at']}" if stats["truncated_at"] >= 0 else "at its end"
        found.append(
            ProfileWarning(
                "truncated",
                f"the file breaks off {where}{f' ({cut})' if cut else ''}: the profiler was probably "
                "killed while writing; what came before is shown",
            )
        )
    if stats["damaged"]:
        found.append(
            ProfileWarning(
                "damaged_events",
                f"{stats['damaged']} events are not valid JSON and were skipped (first at {_where(stats)})",
            )
        )
    counted = {
        "missing_duration": ("absent_dur", "events have no duration: counted, but without time"),
        "negative_duration": ("negative_dur", "events have a negative duration: taken as 0"),
        "absurd_number": ("wild", "numbers are out of any sensible range and were left out"),
    }
    found += [
        ProfileWarning(code, f"{stats[key]} {text}")  # type: ignore[literal-required]
        for code, (key, text) in counted.items()
        if stats[key]  # type: ignore[literal-required]
    ]
    if unknown:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(unknown.items())[:8])
        found.append(
            ProfileWarning("unknown_category", f"events of unknown categories were left out: {listed}")
        )
    return found
