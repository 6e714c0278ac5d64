"""What makes the numbers of a view unsafe, found by looking at the attributed profile.

Readers report what was wrong with the file; this module reports what is wrong with the recording.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.graphs import launched_by_graph
from solscope.attribution.profiler_events import profiler_time
from solscope.attribution.structure import why_unplaced
from solscope.intervals import find_stray, overlap
from solscope.profile import ProfileWarning
from solscope.views.coverage import share

_SAY_FROM_PCT = 0.1
"""Shares of GPU time below this are not worth a warning."""
STRAY_ONE_IN = 20
"""At most one activity in this many is on the sparse side of a gap that makes a span useless."""


def warnings_of(attributed: Attributed) -> list[ProfileWarning]:
    """All warnings that the attributed profile gives rise to."""
    if attributed.profile.is_aggregate:
        return []
    if attributed.activities.is_empty():
        return list(_nothing_ran(attributed))
    checks = (_untimed, _unplaced, _unlinked, _graph_replay, _stray, _overhead)
    return [warning for check in checks for warning in check(attributed)]


def _nothing_ran(attributed: Attributed) -> Iterator[ProfileWarning]:
    codes = {warning.code for warning in attributed.profile.warnings}
    if codes & {"metrics_only", "no_gpu_activity"}:
        return
    hint = (
        "the file ends too early"
        if "truncated" in codes
        else "was the profiler started with CUDA activities?"
    )
    yield ProfileWarning("no_gpu_activity", f"nothing ran on a GPU in this profile: {hint}")


def _untimed(attributed: Attributed) -> Iterator[ProfileWarning]:
    lost = attributed.activities["start_ns"].null_count()
    if lost:
        yield ProfileWarning(
            "missing_start",
            f"{lost:,} GPU activities have no usable start time: they count, but not in span, busy "
            "and idle",
        )


def _unplaced(attributed: Attributed) -> Iterator[ProfileWarning]:
    structure = why_unplaced(attributed.activities)
    if structure is not None and structure.training:
        yield ProfileWarning("training", structure.reason)
    elif structure is not None:
        yield ProfileWarning("recommendation", structure.reason)


def _unlinked(attributed: Attributed) -> Iterator[ProfileWarning]:
    rows = attributed.activities
    lost = rows["launch_row"].null_count()
    pct = share(rows, pl.col("launch_row").is_null()) or 0.0
    has_launches = lost < rows.height
    if pct >= _SAY_FROM_PCT and has_launches:
        yield ProfileWarning(
            "unlinked",
            f"{lost:,} of {rows.height:,} GPU activities ({pct:.1f} % of GPU time) have no "
            "launch in the profile, probably because they were launched before it began: they "
            "count, but have no operator",
        )
    elif not has_launches:
        yield ProfileWarning(
            "no_launches",
            "the profile holds no launch calls: operators and idle causes are not known",
        )


def _graph_replay(attributed: Attributed) -> Iterator[ProfileWarning]:
    rows = attributed.activities
    launched = launched_by_graph(attributed.profile.events, rows["launch_row"])
    replayed = launched & rows["graph_node"].is_null()
    pct = share(rows.with_columns(replayed.alias("replayed")), pl.col("replayed")) or 0.0
    if pct >= _SAY_FROM_PCT:
        yield ProfileWarning(
            "graph_replay",
            f"{pct:.1f} % of GPU time was replayed from graphs without node ids: these kernels "
            "have a launch, but their operators are unknown",
        )


def _stray(attributed: Attributed) -> Iterator[ProfileWarning]:
    """One long gap with next to nothing on one side of it makes idle percentages meaningless."""
    for (rank, device), rows in (
        attributed.activities.select("rank", "device", "start_ns", "dur_ns")
        .filter(pl.col("start_ns").is_not_null())
        .partition_by(["rank", "device"], as_dict=True)
        .items()
    ):
        start = rows["start_ns"].to_numpy()
        end = start + rows["dur_ns"].fill_null(0).to_numpy()
        stray = find_stray(start, end, STRAY_ONE_IN)
        if stray is None:
            continue
        span = int(end.max() - start.min())
        where = f"GPU {device}" if rank is None else f"rank {rank}, GPU {device}"
        yield ProfileWarning(
            "stray_activity",
            f"{where}: {stray.few:,} of {start.size:,} activities "
            f"{'lies' if stray.few == 1 else 'lie'} {stray.gap / 1e6:.2f} ms "
            f"{'before' if stray.before else 'after'} the others "
            f"({100 * stray.gap / span:.0f} % of the span). Steps leave "
            f"{'it' if stray.few == 1 else 'them'} out; the span and its idle time do not, and "
            f"say little: without the gap the span is {(span - stray.gap) / 1e6:.2f} ms",
        )


def _overhead(attributed: Attributed) -> Iterator[ProfileWarning]:
    own = profiler_time(attributed.profile.events)
    gpu = attributed.activities
    start, end = gpu["start_ns"].min(), (gpu["start_ns"] + gpu["dur_ns"]).max()
    if not own.length or not isinstance(start, int) or not isinstance(end, int) or end <= start:
        return
    spent = int(overlap(np.array([start]), np.array([end]), own)[0])
    if spent * 100 > end - start:
        yield ProfileWarning(
            "profiler_overhead",
            f"the profiler itself was at work for {spent / 1e6:.2f} ms "
            f"({100 * spent / (end - start):.1f} % of the span): the host looks slower than it is",
        )
