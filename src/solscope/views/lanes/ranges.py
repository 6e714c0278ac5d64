"""What ran in a range of the time line, name by name, and why nothing ran."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from solscope.views.lanes.base import LaneKind
from solscope.views.lanes.levels import Levels


class RangeRow(msgspec.Struct, frozen=True):
    """The events of one label, as far as they lie in the range."""

    label: int
    calls: int
    """Events that are under way in the range."""
    total_ns: int
    """The part of them that lies in it."""
    max_ns: int
    """The longest of them, as a whole."""


class RangeSums(msgspec.Struct, frozen=True):
    """A range of time."""

    from_ns: int
    to_ns: int
    gpu: list[RangeRow]
    """GPU activities, most time first."""
    idle: list[RangeRow]
    """Idle time by cause; the label says which."""
    calls: list[RangeRow]
    """Calls into the GPU runtime and driver."""


def range_sums(levels: Levels, from_ns: int, to_ns: int) -> RangeSums:
    """What lies in [from_ns, to_ns), times counted from the origin of the time line."""
    return RangeSums(
        from_ns,
        to_ns,
        gpu=_rows(levels, "gpu", from_ns, to_ns),
        idle=_rows(levels, "idle", from_ns, to_ns),
        calls=_rows(levels, "call", from_ns, to_ns),
    )


class Found(msgspec.Struct, frozen=True):
    """One event."""

    lane: int
    label: int
    start_ns: int
    dur_ns: int


def next_event(
    levels: Levels, labels: Sequence[int], from_ns: int, backwards: bool = False
) -> Found | None:
    """The first event after `from_ns` that has one of the labels, or the last one before it."""
    if not levels.widths:
        return None
    raw = levels.raw
    side = raw.start < from_ns if backwards else raw.start > from_ns
    rows = np.flatnonzero(np.isin(raw.label, labels) & side)
    if not rows.size:
        return None
    starts = raw.start[rows]
    row = rows[starts.argmax() if backwards else starts.argmin()]
    return Found(*(int(column[row]) for column in (raw.lane, raw.label, raw.start, raw.dur)))


def _rows(levels: Levels, kind: LaneKind, from_ns: int, to_ns: int) -> list[RangeRow]:
    if not levels.widths:
        return []
    raw = levels.raw
    lanes = [lane_index for lane_index, lane in enumerate(levels.laned.lanes) if lane.kind == kind]
    end = raw.start + raw.dur
    inside = np.isin(raw.lane, lanes) & (raw.start < to_ns) & (end > from_ns)
    label, dur = raw.label[inside], raw.dur[inside]
    inside_ns = np.minimum(end[inside], to_ns) - np.maximum(raw.start[inside], from_ns)
    names, group = np.unique(label, return_inverse=True)
    total, longest = np.zeros(names.size, dtype=np.int64), np.zeros(names.size, dtype=np.int64)
    np.add.at(total, group, inside_ns)
    np.maximum.at(longest, group, dur)
    calls = np.bincount(group, minlength=names.size)
    columns = (names.tolist(), calls.tolist(), total.tolist(), longest.tolist())
    rows = [RangeRow(*row) for row in zip(*columns, strict=True)]
    return sorted(rows, key=lambda row: (-row.total_ns, row.label))
