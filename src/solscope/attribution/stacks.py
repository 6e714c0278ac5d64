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

from solscope.arrays import positions, series
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

    def __init__(self, table: pl.DataFrame) -> None:
        self._names = table["name"]
        self._codes = self._names.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        coded = table.drop("name").with_columns(series("code", self._codes))
        parts = coded.partition_by(THREAD, as_dict=True)
        self.threads = {key: _thread(frames) for key, frames in parts.items()}

    @cached_property
    def _distinct(self) -> tuple[Int64s, list[str | None]]:
        """Codes that occur, and their names."""
        # A row for each code that occurs; which one does not matter. The last is for -1.
        row = np.full(int(self._codes.max(initial=-1)) + 2, -1, dtype=np.int64)
        row[self._codes] = np.arange(self._codes.size)
        row[-1] = -1
        codes = np.flatnonzero(row >= 0)
        return codes, self._names.gather(series("", row[codes])).cast(pl.String).to_list()

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
        return self.events["name"].gather(self.rows(kind, names))

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
        launched = self.activities["launch_row"]
        # Kernels of one graph share a launch: each launch is looked up once.
        rows, place = np.unique(launched.drop_nulls().to_numpy(), return_inverse=True)
        calls = self.events.select("start_ns", *THREAD)[series("", rows)]
        return launched.is_not_null().to_numpy(), place, _by_thread(calls)


class _Calls(NamedTuple):
    """Calls of one thread: positions among all calls, and starts."""

    position: Int64s
    start: Int64s


def enclosing(
    events: pl.DataFrame, activities: pl.DataFrame, kind: str, names: set[str] | None = None
) -> pl.Series:
    """`Stacks.rows`, for one question."""
    return Stacks(events, activities).rows(kind, names)


def open_at(events: pl.DataFrame, calls: pl.DataFrame, kind: str) -> Int64s:
    """Row of the innermost event of `kind` open on the calling thread at each call, or -1."""
    rows = np.full(calls.height, -1, dtype=np.int64)
    if not calls.is_empty():
        _innermost(_frames(events, kind), None, _by_thread(calls), rows)
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
    table = (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .with_row_index("row")
        .filter(
            (pl.col("kind") == kind) & pl.all_horizontal(pl.col("start_ns", "dur_ns").is_not_null())
        )
        .drop("kind")
        .collect()
    )
    return _Frames(table)


def _thread(frames: pl.DataFrame) -> _Thread:
    start = frames["start_ns"].to_numpy()
    row = frames["row"].cast(pl.Int64).to_numpy()
    return _Thread(row, start, start + frames["dur_ns"].to_numpy(), frames["code"].to_numpy())


def _by_thread(calls: pl.DataFrame) -> dict[_Key, _Calls]:
    timed = calls.select("start_ns", *THREAD).with_row_index("position")
    parts = timed.filter(pl.col("start_ns").is_not_null()).partition_by(THREAD, as_dict=True)
    return {
        key: _Calls(
            calls_of_thread["position"].cast(pl.Int64).to_numpy(),
            calls_of_thread["start_ns"].to_numpy(),
        )
        for key, calls_of_thread in parts.items()
    }
