"""The trace again as Chrome JSON, for ui.perfetto.dev and chrome://tracing, with added tracks.

All events of the event table are written in file order, so that solscope reads the result back as
the same table; then arrows from launches to activities, then the tracks of `tracks.py`, in a
category that readers pass over. Text is built column by column, `CHUNK_ROWS` events at a time, and
times never pass through a float.

What a viewer cannot draw is changed as little as possible: an event that overlaps another of its
thread only in part moves to a lane of its own; one without a start is left out; one without a
duration gets 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
import polars as pl

from solscope._version import __version__
from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.events import GPU_KINDS
from solscope.export.lanes import lanes
from solscope.export.threads import Process, Threads, place_events
from solscope.export.tracks import Track, added_tracks, json_args, json_value, quote
from solscope.names import short_name
from solscope.profile import Device, Metadata

CHUNK_ROWS = 1 << 16
EXACT_NS = 1 << 51
"""Viewers keep microseconds as doubles, which hold single nanoseconds up to here (26 days).

Later times are counted from the first event instead.
"""

_CATEGORY = {
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "graph": "kernel",  # Chrome traces have no word for it
    "sync": "cuda_sync",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "cpu_op": "cpu_op",
    "python": "python_function",
    "annotation": "user_annotation",
    "gpu_annotation": "gpu_user_annotation",
    "overhead": "overhead",
}
_RECORDED = {
    "device": "device",
    "stream": "stream",
    "correlation": "correlation",
    "external_id": "External id",
    "graph_id": "graph id",
    "graph_node": "graph node id",
    "grid": "grid",
    "block": "block",
    "bytes": "bytes",
    "input_dims": "Input Dims",
    "input_types": "Input type",
    "input_strides": "Input Strides",
    "concrete_inputs": "Concrete Inputs",
    "launched": "kernel",
    "collective": "Collective name",
    "process_group": "Process Group Name",
    "process_group_ranks": "Process Group Ranks",
    "sequence": "Seq",
    "sender": "Src Rank",
    "receiver": "Dst Rank",
}
"""Arguments as Kineto names them."""
_FOUND = {
    "short_name": "short name",
    "category": "category",
    "operator": "operator",
    "role": "role",
    "layer": "layer",
    "step": "step",
    "phase": "phase",
    "op": "op",
    "row": "row",
}
"""Arguments that attribution adds to an activity; `row` leads to it from the added tracks."""
_IS_JSON = ("input_dims", "input_types", "input_strides", "concrete_inputs")


def perfetto_json(attributed: Attributed) -> Iterator[str]:
    """The whole document, piece by piece."""
    profile = attributed.profile
    if profile.is_aggregate:
        raise UsageError(
            f"{profile.path} is a summary without single events: it has no time line to export "
            "(--csv and --parquet work)"
        )
    zero = _zero(profile.events)
    yield open_document(header_facts(profile.metadata), zero)
    threads = Threads(profile)
    events = place(profile.events, threads)
    yield from event_lines(attributed, events, zero)
    for track in added_tracks(attributed):
        yield from track_lines(track, threads, zero)
    yield close_document(threads.metadata())


def open_document(header: dict[str, object], zero: int) -> str:
    """Everything before the events; `zero` is what their times are counted from."""
    base = header.pop("baseTimeNanoseconds", None)
    if isinstance(base, int):
        header["baseTimeNanoseconds"] = base + zero
    body = msgspec.json.encode(header).decode().removesuffix("}")
    return f'{body},"traceEvents":[\n'


def close_document(metadata: Iterable[str]) -> str:
    """Names of processes and threads, and the end; the last event has no comma after it."""
    return ",\n".join(metadata) + "\n]}\n"


def place(events: pl.DataFrame, threads: Threads) -> pl.DataFrame:
    """Events with the process and thread that a viewer shows them in."""
    return place_events(_unique_ids(events), threads)


def event_lines(
    attributed: Attributed, events: pl.DataFrame, zero: int, first_id: int = 0
) -> Iterator[str]:
    """Events that were placed, and arrows from launches, whose ids count from `first_id`."""
    activities = attributed.activities.with_columns(_short(attributed.activities["name"]))
    for first in range(0, events.height, CHUNK_ROWS):
        chunk = events.slice(first, CHUNK_ROWS)
        yield from lines(_events(chunk, activities, zero))
        yield from lines(_arrows(chunk, events, activities, zero, first_id))


def track_lines(track: Track, threads: Threads, zero: int) -> Iterator[str]:
    """The slices of an added track."""
    for rows in _track(track, threads, zero):
        yield from lines(rows)


def lines(rows: pl.Series) -> Iterator[str]:
    """Events as one piece of the document; none where there are no events."""
    rows = rows.drop_nulls()
    if rows.len():
        yield rows.str.join(",\n").item() + ",\n"


def _zero(events: pl.DataFrame) -> int:
    """What to subtract from times so that a double holds their nanoseconds."""
    first, last = events["start_ns"].min(), events["start_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int):
        return 0
    return first if first < 0 or last >= EXACT_NS else 0


def _unique_ids(events: pl.DataFrame) -> pl.DataFrame:
    """Distinct correlation ids for several processes, which may use the same numbers."""
    gpu = events.filter(pl.col("kind").is_in(GPU_KINDS))
    if gpu["pid"].drop_nulls().n_unique() < 2:
        return events
    own = pl.struct("pid", "correlation").rank("dense").cast(pl.Int64)
    return events.with_columns(pl.when(pl.col("correlation") != 0).then(own).alias("correlation"))


def header_facts(meta: Metadata) -> dict[str, object]:
    """What Kineto writes before the events; header fields are written as read."""
    groups = [
        {"pg_name": group.name, "pg_desc": group.name, "ranks": list(group.ranks)}
        for group in meta.groups
    ]
    distributed = {
        "rank": meta.rank,
        "world_size": meta.world_size,
        "nccl_version": meta.versions.get("nccl"),
        "pg_config": groups or None,
    }
    facts = {k: v for k, v in meta.about.items() if not k.startswith("distributedInfo.")}
    versions = {k: v for k, v in meta.versions.items() if k.endswith("_version")}
    facts.pop("baseTimeNanoseconds", None)
    header: dict[str, object] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **versions,
        **facts,
        "distributedInfo": {k: v for k, v in distributed.items() if v is not None},
        "deviceProperties": [_device(device) for device in meta.devices],
        "solscope_version": __version__,
    }
    if meta.unix_offset_ns is not None:
        header["baseTimeNanoseconds"] = meta.unix_offset_ns
    return header


def _device(device: Device) -> dict[str, object]:
    # The last character of a gfx name is the stepping.
    match = re.fullmatch(r"sm_(\d+)(\d)|gfx(\d+)(\d)\w", device.arch or "")
    major, minor = (int(digits) for digits in match.groups() if digits) if match else (None, None)
    facts = {
        "id": device.ordinal,
        "name": device.name,
        "totalGlobalMem": device.memory_bytes,
        "computeMajor": major,
        "computeMinor": minor,
        "numSms": device.compute_units,
        "warpSize": {"amd": 64, "nvidia": 32}.get(device.vendor or ""),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _events(chunk: pl.DataFrame, activities: pl.DataFrame, zero: int) -> pl.Series:
    """Complete events ("ph":"X") with what was recorded and what was found."""
    here = _activities_in(chunk, activities)
    arguments = here.select("row", json_args(here, _FOUND).alias("found"))
    table = chunk.with_columns(_recorded(chunk).alias("recorded")).join(
        arguments, on="row", how="left", maintain_order="left"
    )
    categories = table["kind"].cast(pl.String).replace_strict(_CATEGORY)
    return table.select(
        pl.concat_str(
            pl.lit('{"ph":"X","cat":"'),
            categories.alias("category"),
            pl.lit('","name":'),
            json_value(table["name"]).fill_null('""').alias("quoted"),
            *where("out_pid", "out_tid", pl.col("start_ns") - zero),
            pl.lit(',"dur":'),
            *_microseconds(pl.col("dur_ns")),
            pl.lit(',"args":{'),
            pl.concat_str(_none_if_empty("recorded"), "found", separator=",", ignore_nulls=True),
            pl.lit("}}"),
        ).alias("line")
    )["line"]


def _none_if_empty(column: str) -> pl.Expr:
    return pl.when(pl.col(column) != "").then(column)


def _recorded(table: pl.DataFrame) -> pl.Series:
    """Arguments that the profiler recorded, in Kineto's names."""
    size = [_as_list(table[name]) for name in ("grid", "block")]
    texts = [_checked_json(table[name]) for name in _IS_JSON]
    receives = pl.col("collective").cast(pl.String).str.contains("(?i)recv").fill_null(False)
    peers = (
        pl.when(receives).then("peer").alias("sender"),
        pl.when(~receives).then("peer").alias("receiver"),
    )
    table = table.with_columns(*size, *texts, *peers)
    return json_args(table, _RECORDED, raw=(*_IS_JSON, "grid", "block"))


def _as_list(column: pl.Series) -> pl.Series:
    texts = column.cast(pl.String)
    return texts.to_frame().select(pl.format("[{}]", column.name).alias(column.name)).to_series()


def _checked_json(column: pl.Series) -> pl.Series:
    """JSON texts as they are; one that is none becomes a string."""
    texts = column.cast(pl.String)
    wrong = {text: quote(text) for text in texts.unique().drop_nulls() if not _is_json(text)}
    return texts.replace(wrong) if wrong else texts


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _arrows(
    chunk: pl.DataFrame,
    events: pl.DataFrame,
    activities: pl.DataFrame,
    zero: int,
    first_id: int,
) -> pl.Series:
    """Two flow events for each activity of the chunk: at its launch and at its own start."""
    number = (pl.col("row").cast(pl.Int64) + first_id).cast(pl.String)
    place = ["start_ns", "out_pid", "out_tid"]
    ends = _activities_in(chunk, activities).select("row", "launch_row").drop_nulls()
    ends = ends.join(chunk.select("row", *place), on="row")
    table = ends.join(
        events.select("row", *place), left_on="launch_row", right_on="row", suffix="_l"
    )
    begin = pl.concat_str(
        pl.lit('{"ph":"s","cat":"ac2g","name":"ac2g","id":'),
        number,
        *where("out_pid_l", "out_tid_l", pl.col("start_ns_l") - zero),
        pl.lit("}"),
    )
    end = pl.concat_str(
        pl.lit('{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":'),
        number,
        *where("out_pid", "out_tid", pl.col("start_ns") - zero),
        pl.lit("}"),
    )
    return table.select(pl.concat_str(begin, end, separator=",\n").alias("line"))["line"]


def _track(track: Track, threads: Threads, zero: int) -> Iterator[pl.Series]:
    """The slices of one added track, in as many threads as it needs lanes."""
    process = Process("solscope", track.rank, track.device)
    start = track.slices["start_ns"].to_numpy()
    lane = pl.Series("lane", lanes(start, start + track.slices["dur_ns"].to_numpy()))
    for (number,), events in sorted(
        track.slices.with_columns(lane).partition_by(["lane"], as_dict=True).items()
    ):
        name = f"{track.name} ({number + 1})" if number else track.name
        tid = threads.tid(process, None, name)
        yield events.select(
            pl.concat_str(
                pl.lit('{"ph":"X","cat":"Trace","name":'),
                json_value(events["name"]).alias("quoted"),
                pl.lit(f',"pid":{threads.pid(process)},"tid":{tid},"ts":'),
                *_microseconds(pl.col("start_ns") - zero),
                pl.lit(',"dur":'),
                *_microseconds(pl.col("dur_ns")),
                pl.lit(',"args":{'),
                pl.col("args"),
                pl.lit("}}"),
            ).alias("line")
        )["line"]


def _activities_in(chunk: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    return activities.filter(pl.col("row").is_between(chunk["row"][0], chunk["row"][-1]))


def where(pid: str, tid: str, time_ns: pl.Expr) -> Iterator[pl.Expr]:
    """Members of an event that say where it is shown, and when."""
    yield from (pl.lit(',"pid":'), pl.col(pid), pl.lit(',"tid":'), pl.col(tid), pl.lit(',"ts":'))
    yield from _microseconds(time_ns)


def _microseconds(time_ns: pl.Expr) -> tuple[pl.Expr, ...]:
    """Whole microseconds, a point and three digits: exact, and never below zero."""
    whole, rest = time_ns // 1000, time_ns % 1000
    return whole.cast(pl.String), pl.lit("."), rest.cast(pl.String).str.zfill(3)


def _short(names: pl.Series) -> pl.Series:
    texts = names.cast(pl.String)
    short = {text: short_name(text) for text in texts.unique().drop_nulls()}
    shortened = texts.replace_strict(short, default=None, return_dtype=pl.String)
    return shortened.alias("short_name")
