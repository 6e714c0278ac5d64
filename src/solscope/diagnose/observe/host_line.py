"""What a host thread was doing at every moment, as labels of a line without holes.

In order: in a synchronizing call, in an allocating call, in a garbage collection or a section that
names input or output, else in the innermost annotated section, else between sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from solscope.diagnose.labels import BETWEEN, NO_SECTIONS, idle_label
from solscope.diagnose.observe.pieces import Pieces, split
from solscope.events import THREAD
from solscope.intervals import Int64s, Intervals, innermost, overlap, union
from solscope.views.idle import ALLOC_CALL, SYNC_CALL

MOST_SECTIONS = 24
"""Most sections kept by name; the shortest ones beyond that are merged."""
OTHER_SECTIONS = "other sections"


@dataclass(frozen=True)
class Line:
    """One thread: `labels[i]` holds from `edges[i]` to `edges[i + 1]`."""

    edges: Int64s
    labels: list[str]


@dataclass(frozen=True)
class HostLines:
    """The lines of all threads that launch GPU work, and the sections on them."""

    lines: dict[tuple[object, ...], Line]
    default: str

    def label(self, thread: tuple[object, ...], pieces: Pieces) -> list[tuple[Pieces, list[str]]]:
        """Cut pieces of idle time by what a thread was doing."""
        line = self.lines.get(thread)
        if line is None or pieces.start.size == 0:
            return [(pieces, [self.default] * pieces.start.size)]
        low = min(int(pieces.start.min()), int(line.edges[0])) - 1
        high = max(int(pieces.end.max()), int(line.edges[-1])) + 1
        edges = np.concatenate([[low], line.edges, [high]])
        labels = [self.default, *line.labels, self.default]
        cut = split(pieces.start, pieces.end, np.arange(pieces.start.size), edges)
        placed = Pieces(cut.start, cut.end, pieces.owner[cut.owner], pieces.window[cut.owner])
        return [(placed, [labels[window] for window in cut.window])]


def host_lines(annotations: pl.DataFrame, calls: pl.DataFrame) -> HostLines:
    """Lines of every thread from annotations (`name`, `start_ns`, `dur_ns`) and runtime calls."""
    # An event without a start or an end is nowhere on a line.
    annotations, calls = (
        events.drop_nulls(["start_ns", "dur_ns"]) for events in (annotations, calls)
    )
    default = BETWEEN if not annotations.is_empty() else NO_SECTIONS
    sections = annotations.partition_by(THREAD, as_dict=True)
    named = {
        label: calls.filter(_matching(calls["name"], pattern)).partition_by(THREAD, as_dict=True)
        for label, pattern in (("sync", SYNC_CALL), ("alloc", ALLOC_CALL))
    }
    threads = {*sections, *named["sync"], *named["alloc"]}
    lines = {
        key: _line(
            sections.get(key),
            {label: _cover(by_thread.get(key)) for label, by_thread in named.items()},
            default,
        )
        for key in threads
    }
    return HostLines(lines, default)


def _matching(names: pl.Series, pattern: re.Pattern[str]) -> pl.Series:
    matching = [n for n in names.unique().drop_nulls() if pattern.search(n)]
    return names.cast(pl.String).is_in(matching).fill_null(False)


def _cover(calls: pl.DataFrame | None) -> Intervals:
    if calls is None:
        none = np.empty(0, np.int64)
        return Intervals(none, none)
    start = calls["start_ns"].to_numpy()
    return union(start, start + calls["dur_ns"].to_numpy())


def _line(sections: pl.DataFrame | None, calls: dict[str, Intervals], default: str) -> Line:
    start, end, names = _bounds(sections)
    ends: Iterable[Int64s] = [start, end, *(bound for cover in calls.values() for bound in cover)]
    edges = np.unique(np.concatenate(list(ends)))
    if edges.size < 2:
        return Line(np.array([0, 1], np.int64), [default])
    starts = edges[:-1]
    inside = innermost(starts, start, end)
    labels = [names[index] if index >= 0 else default for index in inside.tolist()]
    for label in ("alloc", "sync"):
        covered = overlap(starts, edges[1:], calls[label]) > 0
        for index in np.flatnonzero(covered).tolist():
            labels[index] = label
    return Line(edges, labels)


def _bounds(sections: pl.DataFrame | None) -> tuple[Int64s, Int64s, list[str]]:
    if sections is None:
        none = np.empty(0, np.int64)
        return none, none, []
    start = sections["start_ns"].to_numpy()
    labels = {name: idle_label(name) for name in sections["section"].unique()}
    return start, start + sections["dur_ns"].to_numpy(), [labels[n] for n in sections["section"]]
