"""What was open on the host around each launch: operators, annotations, Python frames.

Attribution asks this several times of the same launches, about other names each time. The events of
a kind are therefore collected once (`Stacks`), and a question costs no more than their search.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import numbers, pick, positions, series, take, where
from solscope.events import THREAD
from solscope.intervals import Int64s, innermost

_Key = tuple[object, ...]


class _Thread(NamedTuple):
    """Timed events of one kind on one thread."""

    row: Int64s
    start: Int64s
    end: Int64s
    code: Int64s
    """Of the name; -1 where there is none."""


class _Frames:
    """Timed events of one kind."""

    def __init__(self, events: pl.DataFrame, rows: pl.Series) -> None:
        self._names = take(events["name"], rows)
        self._codes = numbers(self._names.to_physical())
        start = take(events["start_ns"], rows).to_numpy()
        end = start + take(events["dur_ns"], rows).to_numpy()
        every = _Thread(numbers(rows), start, end, self._codes)
        threads = _by_thread(pick(events, rows, THREAD))
        self.threads = {
            key: _Thread(*(column[at] for column in every)) for key, at in threads.items()
        }

    @cached_property
    def _distinct(self) -> tuple[Int64s, list[str | None]]:
        """Codes that occur, and their names."""
        # A row for each code that occurs; which one does not matter. The last is for -1.
        row = np.full(int(self._codes.max(initial=-1)) + 2, -1, dtype=np.int64)
        row[self._codes] = np.arange(self._codes.size)
        row[-1] = -1
        codes = np.flatnonzero(row >= 0)
        return codes, take(self._names, series("", row[codes])).cast(pl.String).to_list()

    def named(self, names: AbstractSet[str]) -> np.ndarray:
        """Whether a code is that of one of these names, by code; False for -1."""
        codes, texts = self._distinct
        wanted = np.zeros(int(codes.max(initial=-1)) + 2, dtype=bool)
        wanted[codes] = [text in names for text in texts]
        return wanted


class Stacks:
    """The launches of some activities, and the events that were open around them."""

    def __init__(self, events: pl.DataFrame, activities: pl.DataFrame) -> None:
        self.events = events
        self.activities = activities
        self._frames: dict[str, _Frames] = {}

    def rows(self, kind: str, names: AbstractSet[str] | None = None) -> pl.Series:
        """For each activity the row of the innermost event of `kind` around its launch, or null.

        `kind` is `annotation`, `python` or `cpu_op`; `names` restricts it to events of these names.
        """
        rows = np.full(self.activities.height, -1, dtype=np.int64)
        launched, place, calls = self._launches
        if names != set():
            rows[launched] = self._search(kind, names, calls, place)
        return positions("found", rows).cast(pl.UInt32)

    def names(self, kind: str, names: AbstractSet[str]) -> pl.Series:
        """For each activity the innermost of these names that was open at its launch."""
        if not names:
            null = pl.Series([None], dtype=pl.Categorical())
            return null.new_from_index(0, self.activities.height)
        return take(self.events["name"], self.rows(kind, names))

    def _search(
        self, kind: str, names: AbstractSet[str] | None, calls: dict[_Key, _Calls], place: Int64s
    ) -> Int64s:
        if kind not in self._frames:
            self._frames[kind] = _frames(self.events, kind)
        rows = np.full(int(place.max()) + 1 if place.size else 0, -1, dtype=np.int64)
        _innermost(self._frames[kind], names, calls, rows)
        return rows[place]

    @cached_property
    def _launches(self) -> tuple[np.ndarray, Int64s, dict[_Key, _Calls]]:
        """Which activities have a launch, which one of the distinct launches, and these."""
        launches = numbers(self.activities["launch_row"])
        launched = launches >= 0
        # Kernels of one graph share a launch: each launch is looked up once.
        rows, place = np.unique(launches[launched], return_inverse=True)
        calls = pick(self.events, series("", rows.astype(np.uint32)), ("start_ns", *THREAD))
        return launched, place, _calls(calls)


class _Calls(NamedTuple):
    """Calls of one thread: positions among all calls, and starts."""

    position: Int64s
    start: Int64s


def enclosing(
    events: pl.DataFrame, activities: pl.DataFrame, kind: str, names: AbstractSet[str] | None = None
) -> pl.Series:
    """`Stacks.rows`, for one question."""
    return Stacks(events, activities).rows(kind, names)


def open_at(events: pl.DataFrame, calls: pl.DataFrame, kind: str) -> Int64s:
    """Row of the innermost event of `kind` open on the calling thread at each call, or -1."""
    rows = np.full(calls.height, -1, dtype=np.int64)
    if not calls.is_empty():
        _innermost(_frames(events, kind), None, _calls(calls), rows)
    return rows


def _innermost(
    frames: _Frames, names: AbstractSet[str] | None, calls: dict[_Key, _Calls], rows: Int64s
) -> None:
    """Write the row of the innermost event around each call into `rows`."""
    wanted = None if names is None else frames.named(names)
    for key, asked in calls.items():
        if (thread := frames.threads.get(key)) is None:
            continue
        if wanted is not None:
            chosen = np.flatnonzero(wanted[thread.code])
            thread = _Thread(*(column[chosen] for column in thread))
        index = innermost(asked.start, thread.start, thread.end)
        inside = index >= 0
        rows[asked.position[inside]] = thread.row[index[inside]]


def _frames(events: pl.DataFrame, kind: str) -> _Frames:
    rows = where(events["kind"] == kind)
    for column in ("start_ns", "dur_ns"):
        values = take(events[column], rows)
        if values.null_count():
            rows = rows.filter(values.is_not_null())
    return _Frames(events, rows)


def _calls(calls: pl.DataFrame) -> dict[_Key, _Calls]:
    start, threads = calls["start_ns"], pl.DataFrame([calls[name] for name in THREAD])
    if not start.null_count():
        begun = start.to_numpy()
        return {key: _Calls(at, begun[at]) for key, at in _by_thread(threads).items()}
    timed = start.is_not_null()
    position, begun = numbers(where(timed)), start.drop_nulls().to_numpy()
    found = _by_thread(threads.filter(timed))
    return {key: _Calls(position[at], begun[at]) for key, at in found.items()}


def _by_thread(threads: pl.DataFrame) -> dict[_Key, Int64s]:
    """Positions of the rows of each thread."""
    at = series("at", np.arange(threads.height))
    parts = threads.insert_column(0, at).partition_by(THREAD, as_dict=True)
    return {key: part["at"].to_numpy() for key, part in parts.items()}
