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
from collections.abc import Iterator

import msgspec
import polars as pl

from solscope._version import __version__
from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.names import short_name
from solscope.profile import Device, Profile
from solscope.report.lanes import lanes
from solscope.report.threads import Process, Threads, place_events
from solscope.report.tracks import Track, added_tracks, json_args, json_value

CHUNK_ROWS = 1 << 16
EXACT_NS = 1 << 53
"""Viewers keep times as doubles: beyond this many ns, times are counted from the first event."""

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
}
"""Arguments as Kineto names them."""
_FOUND = {
    "full_name": "full name",
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
"""Arguments that attribution adds to an activity. `row` leads from the added tracks to it."""
_NESTED = ("input_dims", "input_types", "input_strides", "concrete_inputs", "grid", "block")


def perfetto_json(attributed: Attributed) -> Iterator[str]:
    """The whole document, piece by piece."""
    profile = attributed.profile
    if profile.is_aggregate:
        raise UsageError(
            f"{profile.path} is a summary without single events: it has no time line to export "
            "(--csv and --parquet work)"
        )
    zero = _zero(profile.events)
    yield _header(profile, zero)
    threads = Threads(profile)
    events = place_events(profile.events, threads)
    activities = attributed.activities.with_columns(_short(attributed.activities["name"]))
    for at in range(0, events.height, CHUNK_ROWS):
        chunk = events.slice(at, CHUNK_ROWS)
        yield from _lines(_events(chunk, activities, zero))
        yield from _lines(_arrows(chunk, events, activities, zero))
    for track in added_tracks(attributed):
        yield from _lines(_track(track, threads, zero))
    # The last piece has no comma after it.
    yield ",\n".join(threads.metadata()) + "\n]}\n"


def _lines(rows: pl.Series) -> Iterator[str]:
    rows = rows.drop_nulls()
    if rows.len():
        yield rows.str.join(",\n").item() + ",\n"


def _zero(events: pl.DataFrame) -> int:
    """What to subtract from times so that a double holds their nanoseconds."""
    first, last = events["start_ns"].min(), events["start_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int):
        return 0
    return first if first < 0 or last >= EXACT_NS else 0


def _header(profile: Profile, zero: int) -> str:
    """Everything before the events, as Kineto writes it; facts of the header come back as read."""
    meta = profile.metadata
    distributed = {
        "rank": meta.rank,
        "world_size": meta.world_size,
        "nccl_version": meta.versions.get("nccl"),
    }
    header: dict[str, object] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **{k: v for k, v in meta.about.items() if not k.startswith(("distributedInfo.", "solscope"))},
        **{k: v for k, v in meta.versions.items() if k.endswith("_version") and k not in meta.about},
        "distributedInfo": {k: v for k, v in distributed.items() if v is not None},
        "deviceProperties": [_device(device) for device in meta.devices],
        "solscope_version": __version__,
    }
    header.pop("baseTimeNanoseconds", None)
    if meta.unix_offset_ns is not None:
        header["baseTimeNanoseconds"] = meta.unix_offset_ns + zero
    body = msgspec.json.encode(header).decode().removesuffix("}")
    return f'{body},"traceEvents":[\n'


def _device(device: Device) -> dict[str, object]:
    # The last character of a gfx name is the stepping.
    found = re.fullmatch(r"sm_(\d+)(\d)|gfx(\d+)(\w)\w", device.arch or "")
    major, minor = (int(part, 16) for part in found.groups() if part) if found else (None, None)
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
    first, last = chunk["row"][0], chunk["row"][-1]
    here = activities.filter(pl.col("row").is_between(first, last))
    found = here.select("row", json_args(here, _present(here, _FOUND)).alias("found"))
    table = chunk.join(found, on="row", how="left", maintain_order="left")
    table = table.with_columns(
        json_value(table["name"]).fill_null('""').alias("name"),
        table["kind"].cast(pl.String).replace_strict(_CATEGORY).alias("cat"),
        _recorded(chunk).alias("recorded"),
    )
    args = pl.concat_str(
        pl.when(pl.col("recorded") != "").then("recorded"),
        "found",
        separator=",",
        ignore_nulls=True,
    )
    head = pl.format('{"ph":"X","cat":"{}","name":{}', "cat", "name")
