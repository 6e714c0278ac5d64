"""Levels of detail: what is too short to be seen is merged with its neighbors.

A level has a width in nanoseconds. Events at least as long stay as they are. Of the others, those
that start within the same multiple of the width become one block, which is drawn as the label that
takes most of its time. Every level holds the same time and the same number of events, lane by lane.
A level, or one lane of it, is merged when it is first asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from solscope.attribution import Attributed
from solscope.intervals import Int64s
from solscope.views.lanes.base import EventBlock, EventTimeline, LanePart
from solscope.views.lanes.pack import pack
from solscope.views.lanes.rows import Laned, lay_out
from solscope.views.lanes.sensors import sensors

Bools = np.ndarray[Any, np.dtype[np.bool_]]
FINEST_NS = 4_096
"""Width of level 1, a power of two like all widths; level 0 merges nothing."""
FACTOR = 4
"""How much wider each level is."""
BLOCKS = 1_000
"""The coarsest level has at most that many widths."""
TILE = 4_096
"""Widths that a block should cover when it is asked for by range."""
IN_REPORT = 200_000
"""Events in a report; beyond that, lanes become coarser, those of the host first."""
IN_ANSWER = 25_000
"""Events that the dashboard begins with; it asks for others when it needs them."""
_ORDER = ("step", "pass", "gpu", "idle", "layer", "call", "stack")
"""Kinds of lanes, those first that should be in full detail."""


class Level(msgspec.Struct, frozen=True, dict=True):
    """Events, or blocks of them, in the order of lanes and starts."""

    width_ns: int
    lane: Int64s
    start: Int64s
    dur: Int64s
    """From the first start to the last end."""
    busy: Int64s
    """Sum of the durations."""
    count: Int64s
    label: Int64s
    layer: Int64s
    """One too large, and 0 where unknown or of several; so are `step` and `wait`."""
    step: Int64s
    wait: Int64s

    def take(self, rows: Int64s | Bools | slice) -> Level:
        """Some of the rows."""
        return Level(self.width_ns, *(getattr(self, name)[rows] for name in _COLUMNS))

    @cached_property
    def bounds(self) -> dict[int, tuple[int, int]]:
        """First row and the one after the last, by lane."""
        if not self.lane.size:
            return {}
        lanes = np.arange(self.lane[0], self.lane[-1] + 1)
        first, end = (np.searchsorted(self.lane, lanes, side=side).tolist() for side in _SIDES)
        every = zip(lanes.tolist(), first, end, strict=True)
        return {lane: (begin, stop) for lane, begin, stop in every if begin < stop}


_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_COLUMNS = ("lane", "start", "dur", "busy", "count", "label", "layer", "step", "wait")


class Levels(msgspec.Struct, frozen=True, dict=True):
    """The time line of one profile."""

    laned: Laned
    raw: Level
    """Level 0: every event."""
    widths: list[int]
    """By level; none where there are no events."""

    def level(self, number: int) -> Level:
        """One level of all lanes."""
        if number == 0:
            return self.raw
        if number not in self._merged:
            self._merged[number] = merge(self.raw, self.widths[number])
        return self._merged[number]

    @cached_property
    def _merged(self) -> dict[int, Level]:
        return {}

    def block(self, level: int, from_ns: int, to_ns: int) -> EventBlock:
        """What a range shows at one level: everything that is under way in it."""
        if not self.widths:
            return _block([], from_ns, to_ns)
        level = max(0, min(level, len(self.widths) - 1))
        chosen = self.level(level)
        rows = (chosen.start < to_ns) & (chosen.start + np.maximum(chosen.dur, 1) > from_ns)
        return _block([(level, chosen.take(rows))], from_ns, to_ns)

    def whole(self, most: int) -> EventBlock:
        """All of the time in at most about `most` rows, the GPU in more detail than the host."""
        lanes = sorted(
            range(len(self.laned.lanes)),
            key=lambda lane: (
                _ORDER.index(self.laned.lanes[lane].kind),
                self.laned.lanes[lane].depth,
            ),
        )
        chosen = {lane: len(self.widths) - 1 for lane in lanes}
        coarsest = {lane: self._rows(level, lane) for lane, level in chosen.items()}
        left = most - sum(coarsest.values())
        for lane in lanes:
            level = self._finest(lane, left + coarsest[lane])
            if level < chosen[lane]:
                chosen[lane], left = level, left - self._rows(level, lane) + coarsest[lane]
        parts = [(level, self._lane(level, lane)) for lane, level in sorted(chosen.items())]
        return _block(parts, 0, self.laned.span_ns)

    def _finest(self, lane: int, most: int) -> int:
        """The finest level on which a lane has at most so many rows; the number of levels if none.

        No level has more rows than a finer one: what it merges becomes a block in place of an
        event, or part of one.
        """
        return bisect_left(
            range(len(self.widths)), -most, key=lambda level: -self._rows(level, lane)
        )

    def _rows(self, level: int, lane: int) -> int:
        """How many rows a lane has on a level, without merging it."""
        first, end = self.raw.bounds.get(lane, (0, 0))
        if level == 0:
            return end - first
        small = self.raw.dur[first:end] < self.widths[level]
        bucket = _buckets(self.raw.start[first:end][small], self.widths[level])
        blocks = 1 + int(np.count_nonzero(bucket[1:] != bucket[:-1])) if bucket.size else 0
        return end - first - bucket.size + blocks

    def _lane(self, level: int, lane: int) -> Level:
        rows = self.raw.take(slice(*self.raw.bounds.get(lane, (0, 0))))
        return rows if level == 0 else merge(rows, self.widths[level])


def levels_of(attributed: Attributed) -> Levels:
    """The lanes of a profile at every level."""
    laned = lay_out(attributed)
    raw = Level(
        0,
        *(laned.lane, laned.start, laned.dur, laned.dur, np.ones_like(laned.dur), laned.label),
        *(laned.layer, laned.step, laned.wait),
    )
    return Levels(laned, raw, _widths(laned.span_ns) if laned.lane.size else [])


def _widths(span_ns: int) -> list[int]:
    widths, width = [0], FINEST_NS
    while width * BLOCKS < span_ns * FACTOR:
        widths.append(width)
        width *= FACTOR
    return widths


def _buckets(start: Int64s, width: int) -> Int64s:
    """Which multiple of the width each start lies in."""
    return start >> (width.bit_length() - 1)


def merge(level: Level, width: int) -> Level:
    """Events, none of them merged yet, as a level with blocks of this width."""
    small = level.dur < width
    rows = np.flatnonzero(small)
    if not rows.size:
        return replace(level, width_ns=width)
    start, busy, label = level.start[rows], level.busy[rows], level.label[rows]
    bucket = _buckets(start, width)
    new = np.ones(rows.size, dtype=np.bool_)
    np.not_equal(bucket[1:], bucket[:-1], out=new[1:])
    if level.lane[0] != level.lane[-1]:
        lane = level.lane[rows]
        new[1:] |= lane[1:] != lane[:-1]
    first = np.flatnonzero(new)
    end = np.maximum.reduceat(start + level.dur[rows], first)
    # A block takes the row of its first event, which keeps the order of lanes and starts.
    stays = ~small
    stays[rows[first]] = True
    coarse = level.take(np.flatnonzero(stays))
    target = (np.cumsum(stays) - 1)[rows[first]]
    coarse.dur[target] = end - start[first]
    coarse.busy[target] = np.add.reduceat(busy, first)
    coarse.count[target] = np.diff(first, append=rows.size)
    coarse.label[target] = _main_label(first, label, busy)
    for every, merged in ((level.layer, coarse.layer), (level.step, coarse.step)):
        if merged.any():  # those of the host have none
            values = every[rows]
            merged[target] = np.where(_same(values, first), values[first], 0)
    coarse.wait[target] = 0
    return replace(coarse, width_ns=width)


def _main_label(first: Int64s, label: Int64s, busy: Int64s) -> Int64s:
    """For each block, which begins at `first`, the label with the most time."""
    main = label[first]
    sizes = np.diff(first, append=label.size)
    mixed = np.repeat(~_same(label, first), sizes)
    if not mixed.any():
        return main
    block, label, busy = np.repeat(np.arange(first.size), sizes)[mixed], label[mixed], busy[mixed]
    # Labels of these events by number, in their order.
    number = np.zeros(int(label.max()) + 1, dtype=np.int64)
    number[label] = 1
    known = np.flatnonzero(number)
    number[known] = np.arange(known.size)
    key = block * known.size + number[label]
    if first.size * known.size <= label.size:
        time = np.zeros(first.size * known.size, dtype=np.int64)
        np.add.at(time, key, busy)
        key = np.flatnonzero(np.bincount(key, minlength=time.size))
        time = time[key]
    else:
        # Blocks ascend already, which this kind of sorting makes use of.
        order = np.argsort(key, kind="stable")
        key = key[order]
        begins = np.flatnonzero(np.diff(key, prepend=-1))
        key, time = key[begins], np.add.reduceat(busy[order], begins)
    # Written in the order of time, so that the largest stays.
    ordered = key[np.argsort(time, kind="stable")]
    main[ordered // known.size] = known[ordered % known.size]
    return main


def _same(values: Int64s, first: Int64s) -> Bools:
    """Which groups, each of which begins at `first`, have one value."""
    changes = np.empty(values.size, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    changes[first] = False
    return ~np.logical_or.reduceat(changes, first)


def _block(parts: list[tuple[int, Level]], from_ns: int, to_ns: int) -> EventBlock:
    columns: dict[str, list[Int64s]] = {name: [] for name in _COLUMNS[1:]}
    sizes = []
    for level, rows in parts:
        for lane, (first, end) in rows.bounds.items():
            sizes.append(LanePart(lane, level, end - first))
            for name, values in columns.items():
                column = getattr(rows, name)[first:end]
                values.append(np.diff(column, prepend=0) if name == "start" else column)
    joined = {
        name: np.concatenate(values) if values else np.zeros(0, dtype=np.int64)
        for name, values in columns.items()
    }
    if all(level == 0 for level, _ in parts):
        del joined["busy"], joined["count"]
    return EventBlock(from_ns, to_ns, sizes, pack(joined))


def event_timeline(attributed: Attributed, most: int = IN_REPORT) -> EventTimeline:
    """The time line of a profile, with at most about `most` rows of events."""
    return timeline_of(levels_of(attributed), attributed, most)


def timeline_of(levels: Levels, attributed: Attributed, most: int) -> EventTimeline:
    """`event_timeline` of levels that are there already."""
    laned = levels.laned
    block = levels.whole(most)
    shown, left_out = sensors(attributed.profile, laned.origin_ns, laned.span_ns)
    return EventTimeline(
        origin_ns=laned.origin_ns,
        span_ns=laned.span_ns,
        focus=_focus(attributed, laned),
        events=laned.lane.size,
        complete=all(lane.level == 0 for lane in block.parts),
        levels=levels.widths,
        tile=TILE,
        lanes=laned.lanes,
        labels=laned.labels,
        block=block,
        sensors=shown,
        sensors_left_out=left_out,
        too_deep=laned.too_deep,
    )


def _focus(attributed: Attributed, laned: Laned) -> tuple[int, int]:
    steps = attributed.steps.filter(
        ~attributed.steps["cut"] & attributed.steps["start_ns"].is_not_null()
    )
    if steps.is_empty():
        return 0, laned.span_ns
    start = int(steps["start_ns"].min()) - laned.origin_ns  # type: ignore[arg-type]
    end = int(steps["end_ns"].max()) - laned.origin_ns  # type: ignore[arg-type]
    return (start, end) if 2 * (end - start) < laned.span_ns else (0, laned.span_ns)
