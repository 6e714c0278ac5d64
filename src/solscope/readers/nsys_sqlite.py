"""Nsight Systems `.sqlite` exports of any schema version.

Columns and tables missing in a version are read as null; only strings that events refer to are
fetched. `nsys_database.py` defines what may be read. NVTX ranges that name an operator (torch's
emit_nvtx) become operators.

Not read: NVTX marks, CUDA event records, OS runtime calls, samples and hardware counters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from solscope.errors import DamagedFileError, InputError
from solscope.events import EVENT_SCHEMA, GPU_KINDS, KINDS, conform
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_DUR_NS, MAX_TIME_NS, Head, ReadOptions
from solscope.readers.nsys_database import (
    GPU_INFO,
    INTEGERS,
    SOURCES,
    TRIPLES,
    Export,
    Source,
    connect,
    discover,
)
from solscope.readers.nvtx import operators_from_ranges
from solscope.readers.source import open_binary

MAGIC = b"SQLite format 3\0"

# The exporter's own enumerations, for exports too old to carry them as tables. They are not those
# of CUPTI, where CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE is 1.
_COPIES = (
    *("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA"),
    *("AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
)
_MEMORIES = (
    *("Pageable", "Pinned", "Device", "Array"),
    *("Managed", "Device Static", "Managed Static", "Unknown"),
)
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_RANGE_TYPES = {59: "NvtxPushPopRange", 60: "NvtxStartEndRange"}

_VERSION_KEYS = {"EXPORT_PRODUCT_VERSION": "nsys", "EXPORT_SCHEMA_VERSION": "nsys_schema"}
_API_SUFFIX = re.compile(r"(_ptsz|_ptds|_v\d{4,})+$")


def _select(source: Source, present: frozenset[str]) -> str:
    def number(*columns: str) -> str:
        # Cast, because SQLite lets any column hold any type.
        casts = [f'CAST("{c}" AS INTEGER)' for c in columns if c in present]
        return f"coalesce({', '.join(casts)})" if len(casts) > 1 else "".join(casts) or "NULL"

    fields = [number(*columns) for columns in INTEGERS.values()]
    fields += [number(c) for c in (*sum(TRIPLES.values(), ()), *source.detail)]
    fields.append('CAST("text" AS TEXT)' if "text" in present else "NULL")
    return f'SELECT {", ".join(fields)} FROM "{source.table}"'  # noqa: S608


def _batch(rows: list[Any], source: Source) -> pl.DataFrame:
    numbers = [*INTEGERS, *sum(TRIPLES.values(), ()), *source.detail]
    *columns, text = zip(*rows, strict=True) if rows else [()] * (len(numbers) + 1)
    frame = pl.DataFrame(
        [pl.Series(n, c, dtype=pl.Int64) for n, c in zip(numbers, columns, strict=True)]
    )
    joined = {name: pl.concat_str(parts, separator=",") for name, parts in TRIPLES.items()}
    if source.detail:
        filled = [pl.col(c).cast(pl.String).fill_null("") for c in source.detail]
        joined["detail"] = pl.concat_str(filled, separator=",")
    return frame.select(
        *INTEGERS,
        *(parts.cast(pl.Categorical).alias(name) for name, parts in joined.items()),
        pl.Series("text", text, dtype=pl.String).cast(pl.Categorical),
    )


def _strings(export: Export, ids: list[int], source: Source) -> dict[int, str]:
    strings: dict[int, str] = {}
    for i in range(0, len(ids) if "StringIds" in export.columns else 0, 500):
        some_ids = ids[i : i + 500]
        marks = ",".join("?" * len(some_ids))
        sql = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"  # noqa: S608
        for batch in export.batches(sql, some_ids):
            strings.update((key, _clean(str(value), source.kind)) for key, value in batch)
    return strings


def _clean(name: str, kind: str) -> str:
    if kind == "runtime":
        return _API_SUFFIX.sub("", name)
    if kind == "kernel" and name.startswith("_Z"):
        from solscope.names import demangle

        return demangle(name)
    return name


def _spell(export: Export, kind: str) -> Callable[[str], str]:
    """How the name of a copy, set, graph or sync follows from its enum columns."""
    if kind == "graph":
        return lambda _: "CUDA graph"
    if kind == "sync":
        return lambda detail: _SYNCS.get(int(detail or 0), "Sync")
    memories = export.enum("ENUM_CUDA_MEM_KIND", "label", dict(enumerate(_MEMORIES)))
    if kind == "memset":
        sets = {str(i): f"Memset ({memory})" for i, memory in memories.items()}
        return lambda detail: sets.get(detail, "Memset")
    labels = export.enum("ENUM_CUDA_MEMCPY_OPER", "label", dict(enumerate(_COPIES)))
    copies = {i: re.sub(r"(\w)\w*-to-(\w)\w*", r"\1to\2", text) for i, text in labels.items()}

    def memcpy(detail: str) -> str:
        copy, source, target = (int(field) if field else None for field in detail.split(","))
        name = f"Memcpy {copies.get(copy or 0, copy)}"
        if source is None or target is None:
            return name
        return f"{name} ({memories.get(source, source)} -> {memories.get(target, target)})"

    return memcpy


def _namer(export: Export, source: Source) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A function that adds `name` and `kind` to a batch and looks each string up only once."""
    key = "detail" if source.detail else "name_id"
    spell = _spell(export, source.kind) if source.detail else None
    names: dict[Any, str] = {}

    def name(frame: pl.DataFrame) -> pl.DataFrame:
        wanted = frame[key].drop_nulls().unique().to_list()
        new = [k for k in wanted if k not in names]
        names.update({k: spell(k) for k in new} if spell else _strings(export, new, source))
        texts = {k: names[k] for k in wanted if k in names}
        lookup = _lookup(texts, source.kind).cast({"key": frame.schema[key]})
        named = frame.join(lookup, left_on=key, right_on="key", how="left", maintain_order="left")
        return named.with_columns(
            pl.coalesce("text", "name").alias("name"),
            pl.col("kind").fill_null(pl.lit(source.kind, dtype=pl.Enum(KINDS))),
        )

    return name


def _lookup(names: dict[Any, str], kind: str) -> pl.DataFrame:
    texts = list(names.values())
    drivers = [kind == "runtime" and re.match("cu[A-Z]", text) is not None for text in texts]
    return pl.DataFrame(
        [
            pl.Series("key", list(names)),
            pl.Series("name", texts, dtype=pl.Categorical),
            pl.Series("kind", ["driver" if d else kind for d in drivers], dtype=pl.Enum(KINDS)),
        ]
    )


def _ranger(export: Export) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A function that keeps the ranges among NVTX events; marks, names and domains go."""
    types = export.enum("ENUM_NSYS_EVENT_TYPE", "name", _RANGE_TYPES)
    types = export.enum("ENUM_NVTX_EVENT_TYPE", "name", types)
    nested = [i for i, name in types.items() if name.endswith("PushPopRange")]
    free = [i for i, name in types.items() if name.endswith("StartEndRange")]
    untyped = pl.col("type").is_null() & pl.col("end").is_not_null()
    # Start/end ranges overlap and may end on another thread: they nest on none.
    thread = pl.when(~pl.col("type").is_in(free).fill_null(value=False)).then("thread")
    keep = pl.col("type").is_in(nested + free) | untyped
    return lambda frame: frame.filter(keep).with_columns(thread.alias("thread"))


def _timed(export: Export, frame: pl.DataFrame) -> pl.DataFrame:
    # Times beyond any clock are damage, and would overflow sums.
    start = pl.when(pl.col("start").is_between(-MAX_TIME_NS, MAX_TIME_NS)).then("start")
    frame = frame.with_columns(start.alias("start"))
    backwards = (pl.col("end") < pl.col("start")).fill_null(value=False)
    export.tally["no_start"] += frame["start"].null_count()
    export.tally["negative_duration"] += int(frame.select(backwards.sum()).item())
    duration = pl.col("end") - pl.col("start")
    endless = frame.select(
        # Ranges that were still open at the end are not damage.
        (pl.col("start").is_not_null() & pl.col("end").is_null() & (pl.col("kind") != "annotation"))
        .sum()
        .alias("missing"),
        (duration > MAX_DUR_NS).sum().alias("absurd"),
    )
    export.tally["missing_duration"] += int(endless["missing"][0])
    export.tally["absurd_number"] += int(endless["absurd"][0])
    return frame.filter(pl.col("start").is_not_null()).with_columns(
        pl.when(backwards)
        .then(0)
        .when(duration.is_between(0, MAX_DUR_NS))
        .then(duration)
        .alias("dur_ns")
    )


def _shaped(frame: pl.DataFrame, source: Source) -> pl.DataFrame:
    # CUPTI records no device for a sync; the export says 0 for every GPU.
    device = pl.lit(None, dtype=pl.Int64) if source.kind == "sync" else pl.col("device")
    return frame.select(
        *("kind", "name", "dur_ns", "stream", "correlation", "grid", "block", "bytes"),
        device.alias("device"),
        pl.col("start").alias("start_ns"),
        # A global id is host, process and thread, 24 bits each for the last two.
        (pl.col("process") // 2**24).alias("process"),
        (pl.col("process") // 2**24 % 2**24).alias("pid"),
        (pl.col("thread") % 2**24).alias("tid"),
        # CUPTI writes 0 for what no graph launched.
        *(pl.when(pl.col(c) != 0).then(c).alias(c) for c in ("graph_id", "graph_node")),
    )


def _read_source(export: Export, source: Source, tick: Callable[[int], None]) -> pl.DataFrame:
    name = _namer(export, source)
    keep = _ranger(export) if source.kind == "annotation" else lambda frame: frame
    frames: list[pl.DataFrame] = []

    def add(rows: list[Any]) -> None:
        frame = _timed(export, name(keep(_batch(rows, source))))
        frames.append(_shaped(frame, source))
        tick(len(rows))

    add([])
    for rows in export.batches(_select(source, export.columns[source.table])):
        add(rows)
    # Sorted here and not by SQLite, which would lose every row of a damaged table.
    return pl.concat(frames).sort("start_ns", maintain_order=True)


def _read_events(export: Export, tick: Callable[[int], None]) -> pl.DataFrame:
    sources = [source for source in SOURCES if source.table in export.columns]
    frames = [_read_source(export, source, tick) for source in sources]
    if not frames:
        return EVENT_SCHEMA.to_frame()
    events = _on_physical_gpus(export, pl.concat(frames))
    device = pl.col("device").cast(pl.Int32, strict=False)
    events = events.with_columns(device).drop("process")
    return operators_from_ranges(conform(events, EVENT_SCHEMA))


def _on_physical_gpus(export: Export, events: pl.DataFrame) -> pl.DataFrame:
    """Replace each process's own CUDA ordinals, which restart at 0 under CUDA_VISIBLE_DEVICES."""
    listed = list(export.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")))
    whole = [row for row in listed if all(isinstance(value, int) for value in row)]
    schema = {"pid": pl.Int64, "device": pl.Int64, "gpu": pl.Int64}
    mapping = pl.DataFrame(whole, schema, orient="row").unique(["pid", "device"], keep="first")
    keys = events.select("pid", "device")
    mapped = keys.join(mapping, on=["pid", "device"], how="left", maintain_order="left")
    return events.with_columns(mapped.select(pl.coalesce("gpu", "device").alias("device")))


def _devices(export: Export, events: pl.DataFrame) -> tuple[Device, ...]:
    """The GPUs that worked, as far as the export describes them."""
    seen = events.filter(pl.col("kind").is_in(GPU_KINDS))["device"].drop_nulls().unique().to_list()
    devices = {ordinal: Device(ordinal, vendor="nvidia") for ordinal in sorted(seen)}
    for row in export.rows("TARGET_INFO_GPU", GPU_INFO):
        ordinal, name, *numbers = row
        if ordinal not in devices:
            continue
        units, memory, *capability = (n if isinstance(n, int) and n >= 0 else None for n in numbers)
        major, minor = capability[:2] if capability[0] else capability[2:]
        arch = f"sm_{major}{minor or 0}" if major else None
        label = str(name) if name else None
        devices[ordinal] = Device(ordinal, label, "nvidia", arch, units or None, memory or None)
    return tuple(devices.values())


def _versions(facts: dict[str, str]) -> dict[str, str]:
    named = ((_VERSION_KEYS[key], facts[key]) for key in _VERSION_KEYS if key in facts)
    return {name: text for name, text in named if re.fullmatch(r"[\w.+-]{1,40}", text)}


def _unix_offset(export: Export, facts: dict[str, str]) -> int | None:
    shift = facts.get("EXPORT_PARAM_TIME_SHIFT", "0")
    if not re.fullmatch(r"-?\d{1,18}", shift):
        return None
    if facts.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return -int(shift)
    for (epoch,) in export.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)):
        return epoch - int(shift) if isinstance(epoch, int) else None
    return None


def _facts(export: Export) -> dict[str, str]:
    keys = (*_VERSION_KEYS, "EXPORT_PARAM_TIME_NORMALIZE", "EXPORT_PARAM_TIME_SHIFT")
    if export.columns.get("META_DATA_EXPORT", frozenset()) != {"name", "value"}:
        return {}
    where = f"WHERE name IN ({', '.join(map(repr, keys))})"
    return {str(k): str(v) for k, v in export.rows("META_DATA_EXPORT", ("name", "value"), where)}


def _has_wal(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.is_file() and log.stat().st_size > 0


def _warnings(export: Export, events: pl.DataFrame, path: Path) -> tuple[ProfileWarning, ...]:
    kinds = dict(events["kind"].value_counts().iter_rows())
    texts = {
        "truncated": export.damage
        and f"the database is damaged ({export.damage[0]}); only the readable part is shown",
        "no_gpu_activity": not any(kinds.get(kind) for kind in GPU_KINDS)
        and "the export holds no GPU activity; record with `nsys profile --trace=cuda,nvtx`",
        "graph_collapsed": kinds.get("graph")
        and f"{kinds['graph']} CUDA graph replays were recorded as one activity each, without "
        "their kernels; record with `nsys profile --cuda-graph-trace=node` to see them",
        "negative_duration": export.tally["negative_duration"]
        and f"{export.tally['negative_duration']} events end before they start; duration set to 0",
        "missing_duration": export.tally["missing_duration"]
        and f"{export.tally['missing_duration']} events have no end; they count, but without time",
        "absurd_number": export.tally["absurd_number"]
        and f"{export.tally['absurd_number']} events last over a day; their time is left out",
        "unsaved_changes": _has_wal(path)
        and "a write-ahead log is next to the file and was not read; close the program that writes "
        "it, or move the log away",
        "no_start": export.tally["no_start"]
        and f"{export.tally['no_start']} events without a sensible start time were left out",
    }
    return tuple(ProfileWarning(code, str(text)) for code, text in texts.items() if text)


class NsysSqliteReader:
    """Nsight Systems `.sqlite` exports of any schema version.

    **Accepts**: any SQLite file with at least one table of CUDA or NVTX events. Columns missing in
    a version are read as null. A compressed file must be decompressed first.

    **Fills**: kernels with grid, block and graph ids; memcpy and memset with bytes; collapsed
    graphs (kind `graph`); CUDA runtime and driver calls; synchronization; NVTX ranges as
    annotations; profiler overhead. Device ordinals are those of the machine, not of the process.
    Several processes with GPU work become ranks 0, 1, ... in order of process id. There are no
    operators or shapes in this format.

    **Reads only** the tables and columns in `ALLOWED`; SQLite itself blocks the rest. The
    environment and arguments of the profiled process stay in the file. The file is opened
    read-only.

    **Warnings**: `truncated`, `no_gpu_activity`, `graph_collapsed`, `negative_duration`,
    `no_start`.
    """

    name = "nsys_sqlite"
    summary = "Nsight Systems .sqlite export: kernels, copies, CUDA calls, syncs, NVTX, graphs"

    def sniff(self, head: Head) -> bool:
        """True for any SQLite file: no other reader takes one, and `read` says what is wrong."""
        return head.data.startswith(MAGIC)

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read the whole file; of a damaged one, what can be read."""
        with open_binary(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path}: a compressed SQLite file; decompress it first")
        with closing(connect(path)) as db:
            return self._read(discover(db, path), path, options)

    def _read(self, export: Export, path: Path, options: ReadOptions) -> Profile:
        tables = [source.table for source in SOURCES if source.table in export.columns]
        total = sum(export.count(table) for table in tables)
        events = _read_events(export, _ticker(options, path.stat().st_size, total))
        if export.damage and events.is_empty():
            raise DamagedFileError(
                f"{path}: no event can be read ({export.damage[0]}); copy or export it again"
            )
        facts = _facts(export)
        metadata = Metadata(
            events_in_file=max(total, events.height),
            devices=_devices(export, events),
            versions=_versions(facts),
            unix_offset_ns=_unix_offset(export, facts),
        )
        return Profile(
            str(path), self.name, metadata, events, warnings=_warnings(export, events, path)
        )


def _ticker(options: ReadOptions, size: int, total: int) -> Callable[[int], None]:
    done = 0

    def tick(rows: int) -> None:
        nonlocal done
        done += rows
        if options.progress is not None:
            options.progress(size * min(done, total) // max(total, 1), size)

    return tick


READER = NsysSqliteReader()
