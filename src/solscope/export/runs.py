"""A run as one Chrome trace: its ranks on one clock, and arrows along each collective.

Ranks are read again one after the other, moved to the clock that their collectives agree on, and
written at once, so memory holds one profile however many ranks there are. A viewer shows the
processes of each rank together (`rank 1 GPU 0`). An arrow leads through every matched collective,
from the rank that entered it first to the one that the others waited for; what each rank waited is
a track of its own.

A trace of many ranks can be too large for any viewer. Beyond `MOST_EVENTS` host events are left
out, those that matter least first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.attribution import Attributed
from solscope.errors import InputError, UsageError
from solscope.events import GPU_KINDS
from solscope.export.files import Written, write_text
from solscope.export.perfetto import (
    close_document,
    event_lines,
    header_facts,
    lines,
    open_document,
    place,
    track_lines,
    where,
)
from solscope.export.threads import Threads
from solscope.export.tracks import Track, added_tracks, json_args
from solscope.ranks.analysis import Analysis
from solscope.ranks.clock import Correction
from solscope.views.run_roles import step_phases
from solscope.views.step_rows import cut_out_step

Ints = NDArray[np.int64]

MOST_EVENTS = 4_000_000
"""About 1.5 GB of JSON, which viewers still open."""
_EXPENDABLE = ("python", "overhead", "cpu_op", "annotation", "driver", "runtime")
"""Kinds of host events in the order in which they are left out."""
_PROCESSES = 1 << 12
"""More processes than a rank has: where the next rank begins in the order of a viewer."""

Progress = Callable[[int, int, str], None]


class Extent(msgspec.Struct, frozen=True):
    """What a rank's profile has to be written: counted where it is read."""

    first_ns: int | None
    """Start of its first event, Unix ns; null without events."""
    events: dict[str, int]
    """Events by kind."""


class AlignedRun(msgspec.Struct, frozen=True):
    """What is in the trace of a run."""

    ranks: list[int]
    clock: str
    """How the clocks were aligned: see `ranks`; `durations` means that they were not."""
    clock_error_us: float | None
    collectives: int
    """Matched collectives, each with an arrow through its ranks."""
    left_out: dict[str, int]
    """Events that would have made the file too large, by kind."""
    without_step: list[int]
    """Ranks that did not record the step that was asked for."""


def extent(attributed: Attributed) -> Extent:
    """Count the events of a profile."""
    profile = attributed.profile
    if profile.is_aggregate:
        raise UsageError(
            f"{profile.path} is a summary without single events: it has no time line to export"
        )
    timed = profile.events.filter(pl.col("start_ns").is_not_null())
    kinds = timed.group_by(pl.col("kind").cast(pl.String)).agg(pl.len()).sort("kind")
    first = timed["start_ns"].min()
    unix = profile.metadata.unix_offset_ns or 0
    return Extent(first + unix if isinstance(first, int) else None, dict(kinds.iter_rows()))


def export_run(
    analysis: Analysis,
    extents: Mapping[int, Extent],
    open_rank: Callable[[str], Attributed],
    target: Path,
    *,
    step: int | None = None,
    progress: Progress | None = None,
) -> tuple[Written, AlignedRun]:
    """Write a run, or one of its steps, for viewers; `open_rank` opens the profile of a path."""
    trace = RunTrace(analysis, extents, step)
    size = write_text(target, trace.pieces(open_rank, progress))
    return Written(str(target), "perfetto", trace.written, size), trace.described()


def slowest_step_of(analysis: Analysis) -> int:
    """The step of a run that exceeds the median of its phase by most."""
    steps, length = analysis.charge.steps, analysis.charge.length
    if not steps.size:
        raise InputError(f"{analysis.run.name}: no whole steps that all ranks recorded")
    phase_of = step_phases(analysis)
    names = np.array([phase_of[int(step)] or "" for step in steps])
    usual = {name: float(np.median(length[names == name])) for name in np.unique(names)}
    return int(steps[np.argmax(length - np.array([usual[name] for name in names]))])


class RunTrace:
    """The document of a run, written rank by rank."""

    def __init__(self, analysis: Analysis, extents: Mapping[int, Extent], step: int | None) -> None:
        self.written = 0
        """Events of the profiles that were written so far."""
        self._analysis = analysis
        self._step = step
        self._shifts = analysis.shifts
        self._without_step: list[int] = []
        self._joined: set[int] = set()
        if step is not None:
            self._check_step(step)
        self._left_out = {} if step is not None else _left_out(extents.values())
        starts = [
            self._correction(rank_index).applied(np.array([first]))[0]
            for rank_index, rank in enumerate(analysis.run.ranks)
            if (first := extents[rank.rank].first_ns) is not None
        ]
        self._zero = int(min(starts, default=0))
        self._flows = _turns(analysis.times.start)

    def described(self) -> AlignedRun:
        """What was written."""
        clock = self._analysis.clock
        return AlignedRun(
            ranks=[rank.rank for rank in self._analysis.run.ranks],
            clock=clock.method,
            clock_error_us=clock.error_us,
            collectives=len(self._joined),
            left_out=self._left_out,
            without_step=self._without_step,
        )

    def pieces(
        self, open_rank: Callable[[str], Attributed], progress: Progress | None
    ) -> Iterator[str]:
        """The whole document."""
        ranks = self._analysis.run.ranks
        yield open_document(self._header(), self._zero)
        metadata: list[str] = []
        first_id = self._analysis.matched.table.height
        for rank_index, rank in enumerate(ranks):
            attributed = self._cut(open_rank(rank.path), rank_index)
            if attributed is not None:
                threads = Threads(attributed.profile)
                yield from self._rank(attributed, rank_index, threads, first_id)
                metadata += threads.metadata(rank_index * _PROCESSES)
                first_id += attributed.profile.events.height
            if progress is not None:
                progress(rank_index + 1, len(ranks), rank.path)
        yield close_document(metadata)

    def _rank(
        self, attributed: Attributed, rank_index: int, threads: Threads, first_id: int
    ) -> Iterator[str]:
        rank = self._analysis.run.ranks[rank_index].rank
        calls = self._calls(attributed, rank_index)
        moved = _on_common_clock(attributed, rank, self._correction(rank_index))
        events = place(moved.profile.events, threads)
        # Rows still count from the start of the profile, which is what activities point to.
        events = events.filter(~pl.col("kind").cast(pl.String).is_in(list(self._left_out)))
        self.written += events.height
        yield from event_lines(moved, events, self._zero, first_id)
        shown = calls.join(events.select("row", "start_ns", "out_pid", "out_tid"), on="row")
        self._joined.update(shown["collective"].to_list())
        yield from lines(_collective_arrows(shown, self._zero))
        for track in self._tracks(moved, calls, rank):
            yield from track_lines(track, threads, self._zero)

    def _tracks(self, moved: Attributed, calls: pl.DataFrame, rank: int) -> Iterator[Track]:
        yield from added_tracks(moved)
        activities = moved.activities.select("row", "start_ns", "device")
        waits = calls.filter(pl.col("dur_ns") > 0).join(activities, on="row", maintain_order="left")
        columns = ("collective", "kind", "group", "bytes", "step", "layer")
        args = json_args(waits, {name: name for name in columns})
        waits = waits.with_columns(args.alias("args"))
        for (device,), slices in waits.partition_by(["device"], as_dict=True).items():
            yield Track(
                rank, device, "waiting", slices.select("name", "start_ns", "dur_ns", "args")
            )

    def _calls(self, attributed: Attributed, rank_index: int) -> pl.DataFrame:
        """Collectives of a rank that others have too, with the row of their event."""
        matched, split = self._analysis.matched, self._analysis.split
        rank = self._analysis.run.ranks[rank_index]
        here = np.flatnonzero(matched.index[:, rank_index] >= 0)
        unix = attributed.profile.metadata.unix_offset_ns or 0
        numbers = [each.rank for each in self._analysis.run.ranks]
        last = split.last[here]
        names = [f"waits for rank {numbers[who]}" if who >= 0 else "waits" for who in last]
        wait = np.where(last == rank_index, 0.0, np.nan_to_num(split.wait[here, rank_index]))
        own = rank.calls[matched.index[here, rank_index]].select(
            pl.col("start_ns") - unix, "stream", pl.col("name").alias("kernel")
        )
        facts = matched.table[here].select("kind", "group", "bytes", "step", "layer")
        keys = ["start_ns", "stream", "kernel"]
        rows = attributed.activities.select(
            "row", "start_ns", "stream", pl.col("name").cast(pl.String).alias("kernel")
        ).unique(keys, keep="first", maintain_order=True)
        calls: pl.DataFrame = pl.concat([own, facts], how="horizontal")
        return (
            calls.with_columns(
                pl.Series("collective", here, dtype=pl.Int64),
                pl.Series("turn", self._flows[here, rank_index], dtype=pl.String),
                pl.Series("name", names, dtype=pl.String),
                pl.Series("dur_ns", np.rint(wait), dtype=pl.Int64),
            )
            .join(rows, on=keys, nulls_equal=True, maintain_order="left")
            .drop(keys)
        )

    def _correction(self, rank_index: int) -> Correction:
        return self._analysis.times.corrections[rank_index]

    def _header(self) -> dict[str, object]:
        """The header of the first rank, with the devices and groups of all."""
        run = self._analysis.run
        metas = [rank.metadata for rank in run.ranks]
        devices = {device.ordinal: device for meta in reversed(metas) for device in meta.devices}
        merged = msgspec.structs.replace(
            metas[0],
            rank=None,
            world_size=run.world_size,
            devices=tuple(devices[ordinal] for ordinal in sorted(devices)),
            groups=run.groups,
            unix_offset_ns=None if metas[0].unix_offset_ns is None else 0,
        )
        return header_facts(merged)

    def _check_step(self, step: int) -> None:
        ranks = self._analysis.run.ranks
        steps = {
            int(number) + shift
            for rank, shift in zip(ranks, self._shifts, strict=True)
            for number in rank.steps["step"].to_list()
        }
        if step not in steps:
            name, count = self._analysis.run.name, len(steps)
            span = f"; there are {count}, from {min(steps)} to {max(steps)}" if steps else ""
            raise UsageError(f"{name}: no step {step}{span}")

    def _cut(self, attributed: Attributed, rank_index: int) -> Attributed | None:
        """The step that was asked for; null where this rank does not have it."""
        if self._step is None:
            return attributed
        own = self._step - self._shifts[rank_index]
        if own not in attributed.steps["step"].to_list():
            self._without_step.append(self._analysis.run.ranks[rank_index].rank)
            return None
        return cut_out_step(attributed, own)


def _left_out(extents: Iterable[Extent]) -> dict[str, int]:
    """Kinds of events that have no room, with their number."""
    total: dict[str, int] = {}
    for extent in extents:
        for kind, count in extent.events.items():
            total[kind] = total.get(kind, 0) + count
    left: dict[str, int] = {}
    for kind in _EXPENDABLE:
        if sum(total.values()) <= MOST_EVENTS:
            return left
        if kind in total:
            left[kind] = total.pop(kind)
    count = sum(total[kind] for kind in GPU_KINDS if kind in total)
    if count > MOST_EVENTS:
        raise UsageError(
            f"{count:,} GPU activities are too many for a viewer (at most {MOST_EVENTS:,}): "
            "export one step with --step N or --slowest"
        )
    return left


def _turns(start: NDArray[np.float64]) -> NDArray[np.object_]:
    """By collective and rank: `s` for the rank that enters first, `f` for the last, else `t`."""
    order = np.argsort(start, axis=1, kind="stable")
    turn = np.argsort(order, axis=1, kind="stable")
    last = (~np.isnan(start)).sum(1, keepdims=True) - 1
    names = np.where(turn == 0, "s", np.where(turn == last, "f", "t"))
    return names.astype(object)


def _collective_arrows(calls: pl.DataFrame, zero: int) -> pl.Series:
    """One event of a flow for each collective of a rank."""
    bind = pl.when(pl.col("turn") == "f").then(pl.lit('","bp":"e')).otherwise(pl.lit(""))
    return calls.select(
        pl.concat_str(
            pl.lit('{"ph":"'),
            "turn",
            bind,
            pl.lit('","cat":"collective","name":"collective","id":'),
            pl.col("collective").cast(pl.String),
            *where("out_pid", "out_tid", pl.col("start_ns") - zero),
            pl.lit("}"),
        ).alias("line")
    )["line"]


def _on_common_clock(attributed: Attributed, rank: int, correction: Correction) -> Attributed:
    """The same with all times as Unix time on the common clock, and every event of this rank.

    Starts and ends are moved, so that what nests still does; where a drift is corrected, durations
    change by it, some millionths.
    """
    profile = attributed.profile
    unix = profile.metadata.unix_offset_ns or 0

    def moved(values: pl.Series) -> pl.Series:
        times = correction.applied(values.fill_null(0).to_numpy() + unix)
        return pl.Series(values.name, times, dtype=pl.Int64).zip_with(
            values.is_not_null(), pl.Series([None], dtype=pl.Int64)
        )

    def of_rank(table: pl.DataFrame) -> pl.DataFrame:
        start = moved(table["start_ns"])
        end = moved(table["start_ns"] + table["dur_ns"])
        return table.with_columns(
            start, (end - start).alias("dur_ns"), pl.lit(rank, pl.Int32).alias("rank")
        )

    metadata = msgspec.structs.replace(profile.metadata, unix_offset_ns=0)
    steps = attributed.steps
    return replace(
        attributed,
        profile=replace(profile, events=of_rank(profile.events), metadata=metadata),
        activities=of_rank(attributed.activities),
        steps=steps.with_columns(moved(steps["start_ns"]), moved(steps["end_ns"])),
    )
