"""From an attributed profile to lanes of events.

A lane is one row of the picture. Events that overlap on a stream, and calls that are nested, go to
lanes of their own below the first (`depth`), up to `MAX_DEPTH`.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import Texts, pick, take, texts_of
from solscope.attribution import Attributed
from solscope.events import KINDS, LAUNCH_KINDS, THREAD
from solscope.intervals import Int64s, nesting_depth
from solscope.names import short_name
from solscope.views.device_time import DeviceTime, device_times
from solscope.views.host_rows import event_kinds, event_names, event_times, of_kinds, on_thread
from solscope.views.idle import ALLOC_CALL, SYNC_CALL
from solscope.views.lanes.base import Label, Lane, LaneKind
from solscope.views.lanes.labels import COLUMNS, Labels

MAX_DEPTH = 128
"""Lanes of nested calls, and of overlapping activities.

Deeper calls are counted. Further activities share the last lane, so that no GPU time is missing.
"""
_AROUND = ("cpu_op", "python", "annotation")
_BEFORE = ("host", "sync", "alloc", "unlinked")
"""What the GPU can wait for before a launch."""
_CALLS = ("sync", "alloc", "launch", "call")
_KNOWN = ("layer", "step", "wait")
_NUMBERS = ("lane", "start", "dur", "label", *_KNOWN)
"""Columns of `Laned`."""


class Laned(msgspec.Struct, frozen=True):
    """The events of a profile by lane, in the order of lanes and starts."""

    origin_ns: int
    span_ns: int
    lanes: list[Lane]
    labels: list[Label]
    lane: Int64s
    start: Int64s
    """From the origin."""
    dur: Int64s
    label: Int64s
    layer: Int64s
    """One too large, and 0 where unknown; so are `step` and `wait`, which is in nanoseconds."""
    step: Int64s
    wait: Int64s
    too_deep: int
    """Host calls that are nested deeper than `MAX_DEPTH`."""


_Owner = tuple[int | None, int | None]


class _Source(NamedTuple):
    """Events of lanes that belong together, in any order."""

    kind: LaneKind
    title: str
    owner: _Owner
    """Rank and device."""
    start: Int64s
    dur: Int64s
    texts: dict[str, Texts]
    """What they are called; see `labels.COLUMNS`."""
    numbers: dict[str, Int64s]
    """`layer`, `step` and `wait` as in `Laned`, where they are known."""


class _Part(NamedTuple):
    """A source in the order of its lanes."""

    lanes: list[Lane]
    lane: Int64s
    rows: Int64s | slice
    """Where its events are in the source."""
    too_deep: int


def lay_out(attributed: Attributed) -> Laned:
    """All lanes of a profile, from steps at the top to the host's calls at the bottom."""
    sources = [source for source in _sources(attributed) if source.start.size]
    lanes: list[Lane] = []
    parts: list[_Part] = []
    for source in sources:
        parts.append(_in_lanes(source, len(lanes)))
        lanes += parts[-1].lanes
    labels = Labels()
    size = sum(part.lane.size for part in parts)
    columns = {name: np.zeros(size, dtype=np.int64) for name in _NUMBERS}
    end = 0
    for source, part in zip(sources, parts, strict=True):
        first, end = end, end + part.lane.size
        columns["lane"][first:end] = part.lane
        columns["start"][first:end] = source.start[part.rows]
        columns["dur"][first:end] = source.dur[part.rows]
        texts = {name: column.take(part.rows) for name, column in source.texts.items()}
        columns["label"][first:end] = labels.number(texts)
        for name, values in source.numbers.items():
            columns[name][first:end] = values[part.rows]
    origin = int(columns["start"].min()) if size else 0
    columns["start"] -= origin
    span = int((columns["start"] + columns["dur"]).max()) if size else 0
    too_deep = sum(part.too_deep for part in parts)
    return Laned(origin, span, lanes, labels.all, **columns, too_deep=too_deep)


def _in_lanes(source: _Source, first: int) -> _Part:
    """The lanes of a source, numbered from `first` on."""
    start, dur = source.start, source.dur
    order = None
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, dur = start[order], dur[order]
    depth = np.minimum(_depths(source.kind, start, start + dur), MAX_DEPTH)
    if depth.any():
        # Short integers are sorted by their digits.
        by_depth = np.argsort(depth.astype(np.int16), kind="stable")
        order = by_depth if order is None else order[by_depth]
    counts = np.bincount(depth)[:MAX_DEPTH]
    kept = int(counts.sum())
    lanes = [
        Lane(source.kind, source.title, number, *source.owner, events=events)
        for number, events in enumerate(counts.tolist())
    ]
    lane = np.repeat(np.arange(first, first + counts.size), counts)
    return _Part(lanes, lane, slice(kept) if order is None else order[:kept], start.size - kept)


def _sources(attributed: Attributed) -> Iterator[_Source]:
    """Events of lanes that belong together; some may be empty."""
    # First what needs no devices: they may be under way on another thread.
    host = [*_host_lanes(attributed)]
    devices = device_times(attributed)
    yield from _tracks(attributed, devices)
    for device in devices:
        yield from _device_lanes(attributed, device, devices)
    yield from host


def _source(kind: LaneKind, title: str, owner: _Owner, table: pl.DataFrame) -> _Source:
    """The rows of a table."""

    def shifted(name: str) -> Int64s:
        return (table[name].cast(pl.Int64) + 1).fill_null(0).to_numpy()

    return _Source(
        *(kind, title, owner),
        start=table["start_ns"].to_numpy(),
        dur=table["dur_ns"].fill_null(0).to_numpy(),
        texts={name: texts_of(table[name]) for name in COLUMNS if name in table.columns},
        numbers={name: shifted(name) for name in _KNOWN if name in table.columns},
    )


def _tracks(attributed: Attributed, devices: list[DeviceTime]) -> Iterator[_Source]:
    nobody: _Owner = (None, None)
    steps = attributed.steps.filter(pl.col("start_ns").is_not_null())
    for (process,), track in steps.partition_by("process", as_dict=True).items():
        title = "steps" if steps["process"].n_unique() == 1 else f"steps of process {process}"
        dur = (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
        named = track.select("start_ns", dur, "name", pl.col("phase").alias("category"), "step")
        yield _source("step", title, nobody, named)
    if not devices:
        return
    first = devices[0]
    passes = _extents(first.rows, ["step", "pass", "phase"])
    if passes.height > steps.height:
        name = pl.col("phase").cast(pl.String).fill_null("pass")
        phase = pl.col("phase").alias("category")
        named = passes.select("start_ns", "dur_ns", "step", phase, name.alias("name"))
        yield _source("pass", "passes", nobody, named)
    layers = _extents(first.rows, ["step", "pass", "layer", "layer_kind"]).filter(
        pl.col("layer").is_not_null()
    )
    title = "layers" if len(devices) == 1 else f"layers of {_device_title(first, devices)}"
    named = layers.select(
        *("start_ns", "dur_ns", "step", "layer"),
        pl.col("layer_kind").alias("category"),
        pl.format("layer {}", "layer").alias("name"),
    )
    yield _source("layer", title, (first.rank, first.device), named)


def _extents(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """From the first start to the last end of the activities that have the same key."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    placed = rows.select("start_ns", "dur_ns", *key).filter(pl.col("step").is_not_null())
    return placed.group_by(key, maintain_order=True).agg(
        pl.col("start_ns").min(), (end.max() - pl.col("start_ns").min()).alias("dur_ns")
    )


def _device_title(device: DeviceTime, devices: list[DeviceTime]) -> str:
    ranks = len({device.rank for device in devices}) > 1
    rank = f"rank {device.rank} " if ranks and device.rank is not None else ""
    return f"{rank}GPU {device.device}" if device.device is not None else f"{rank}GPU"


def _device_lanes(
    attributed: Attributed, device: DeviceTime, devices: list[DeviceTime]
) -> Iterator[_Source]:
    title, owner = _device_title(device, devices), (device.rank, device.device)
    yield _idle(f"{title} idle", owner, device.gaps)
    starts = attributed.profile.events["start_ns"]
    rows = device.rows.select(
        *("start_ns", "dur_ns", "name", "category", "role", "op", "layer", "step", "stream"),
        take(starts, device.rows["launch_row"]).alias("launched_ns"),
    )
    for stream in rows["stream"].unique().sort(nulls_last=True):
        stream_rows = rows.filter(pl.col("stream").eq_missing(pl.lit(stream, pl.Int64)))
        name = f"{title} stream {stream}" if stream is not None else f"{title}, no stream"
        yield _activities(name, owner, stream_rows)


def _activities(title: str, owner: _Owner, rows: pl.DataFrame) -> _Source:
    wait = pl.col("start_ns") - pl.col("launched_ns")
    # Clocks of host and GPU that disagree give no waiting time.
    known = pl.when(wait >= 0).then(wait).alias("wait")
    table = rows.select("start_ns", "dur_ns", "category", "role", "op", "layer", "step", known)
    source = _source("gpu", title, owner, table)
    names = texts_of(rows["name"])
    full = ["(no name)" if name is None else name for name in names.known]
    short = [short_name(name) for name in full]
    longer = [long if long != name else None for long, name in zip(full, short, strict=True)]
    source.texts.update(name=Texts(names.codes, [*short]), full=Texts(names.codes, longer))
    return source


def _idle(title: str, owner: _Owner, gaps: pl.DataFrame) -> _Source:
    """Gaps, cut where the launch that ends them began: before it by the main cause, then `launch`.

    The time before the launch can have several causes; it is shown as the largest of them.
    """
    before = [gaps[cause].to_numpy() for cause in _BEFORE]
    begin, end, launch = (gaps[name].to_numpy() for name in ("start_ns", "end_ns", "launch"))
    cause = np.argmax(before, axis=0)
    start = np.concatenate([begin, end - launch])
    dur = np.concatenate([end - launch - begin, launch])
    names = np.concatenate([cause, np.full(cause.size, len(_BEFORE))])
    rows = np.flatnonzero(dur > 0)
    texts = {"name": Texts(names[rows], [*_BEFORE, "launch"])}
    return _Source("idle", title, owner, start[rows], dur[rows], texts, {})


def _host_lanes(attributed: Attributed) -> Iterator[_Source]:
    """Calls into the runtime, and what was around them, of every thread that launches."""
    events = attributed.profile.events
    launches = attributed.activities["launch_row"].drop_nulls()
    launched = np.zeros(events.height, dtype=bool)
    launched[launches.to_numpy()] = True
    threads = pick(events, launches.cast(pl.UInt32), THREAD).unique()
    is_call, is_around = of_kinds(events, LAUNCH_KINDS), of_kinds(events, _AROUND)
    by_thread = []
    # Few threads launch: to compare each row with each of them is faster than to hash all rows.
    for key in threads.rows():
        own = on_thread(events, key)
        calls, around = np.flatnonzero(own & is_call), np.flatnonzero(own & is_around)
        if calls.size or around.size:
            by_thread.append((key, calls, around))
    by_thread.sort(key=lambda thread: min(int(rows[0]) for rows in thread[1:] if rows.size))
    for (rank, _, thread), calls, around in by_thread:
        title = f"thread {thread}" if thread is not None else "host"
        names = event_names(events).take(calls)
        texts = {"name": names, "category": _call_kinds(names, launched[calls])}
        yield _host_source("call", f"{title} launches", rank, events, calls, texts)
        kinds = Texts(event_kinds(events)[around].astype(np.int64), [*KINDS])
        texts = {"name": event_names(events).take(around), "category": kinds}
        yield _host_source("stack", f"{title} calls", rank, events, around, texts)


def _host_source(
    kind: LaneKind,
    title: str,
    rank: int | None,
    events: pl.DataFrame,
    rows: Int64s,
    texts: dict[str, Texts],
) -> _Source:
    start, dur, _ = event_times(events)
    return _Source(kind, title, (rank, None), start[rows], dur[rows], texts, {})


def _call_kinds(names: Texts, launched: np.ndarray) -> Texts:
    """What each call does; one that waits or allocates may launch as well."""
    by_code = np.full(len(names.known), -1, dtype=np.int64)
    for code in names.used().tolist():
        name = names.known[code]
        kind = None if name is None else _kind_of(name)
        by_code[code] = -1 if kind is None else _CALLS.index(kind)
    known = by_code[names.codes]
    plain = np.where(launched, _CALLS.index("launch"), _CALLS.index("call"))
    return Texts(np.where(known < 0, plain, known), [*_CALLS])


def _kind_of(name: str) -> str | None:
    """Whether a call waits or allocates; it may launch as well."""
    if SYNC_CALL.search(name):
        return "sync"
    return "alloc" if ALLOC_CALL.search(name) else None


def _depths(kind: LaneKind, start: Int64s, end: Int64s) -> Int64s:
    """The lane of each event among those of its source, which are in the order of starts."""
    if kind in ("call", "stack"):
        return nesting_depth(start, end)
    if kind == "gpu" and (start[1:] < np.maximum.accumulate(end)[:-1]).any():
        return _stacked(start, end)
    return np.zeros(start.size, dtype=np.int64)


def _stacked(start: Int64s, end: Int64s) -> Int64s:
    """The first lane that is free when an event starts; the last one when all are busy."""
    depth = np.zeros(start.size, dtype=np.int64)
    free = list(range(MAX_DEPTH))
    busy: list[tuple[int, int]] = []
    rows = _overlapping(start, end)
    for index, begin, until in zip(
        rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True
    ):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            depth[index] = heappop(free)
            heappush(busy, (until, int(depth[index])))
        else:
            depth[index] = MAX_DEPTH - 1
    return depth


def _overlapping(start: Int64s, end: Int64s) -> Int64s:
    """Events that are not alone from their start to their end; the others need no second lane."""
    # Where everything before has ended, all lanes are free again.
    begins = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    return np.flatnonzero(~(begins & np.append(begins[1:], True)))
