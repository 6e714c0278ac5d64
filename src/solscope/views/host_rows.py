"""Times, names, kinds and threads of all events as arrays, for the time line and the host side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import Texts, texts_of
from solscope.events import KINDS, THREAD
from solscope.intervals import Int64s
from solscope.once import once

Bools = np.ndarray[Any, np.dtype[np.bool_]]


class EventTimes(NamedTuple):
    """When the events of a profile ran, in nanoseconds."""

    start: Int64s
    """0 where it is not known, as in `dur`."""
    dur: Int64s
    known: Bools
    """Whether both are."""


@once
def event_times(events: pl.DataFrame) -> EventTimes:
    """The times of every event."""
    known = np.ones(events.height, dtype=bool)
    for name in ("start_ns", "dur_ns"):
        if events[name].null_count():
            known &= events[name].is_not_null().to_numpy()
    start, dur = (events[name].fill_null(0).to_numpy() for name in ("start_ns", "dur_ns"))
    return EventTimes(start, dur, known)


@once
def event_names(events: pl.DataFrame) -> Texts:
    """The name of every event."""
    return texts_of(events["name"])


@once
def event_kinds(events: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The kind of every event, as its number in `KINDS`."""
    kinds: np.ndarray[Any, np.dtype[np.uint8]] = events["kind"].to_physical().to_numpy()
    return kinds


def of_kinds(events: pl.DataFrame, kinds: Sequence[str]) -> Bools:
    """Which events are of these kinds."""
    of_event = event_kinds(events)
    wanted = np.zeros(of_event.size, dtype=bool)
    for kind in kinds:
        wanted |= of_event == KINDS.index(kind)
    return wanted


def on_thread(events: pl.DataFrame, thread: tuple[object, ...]) -> Bools:
    """Which events have times and ran on a thread, given as the values of `THREAD`."""
    own = np.zeros(events.height, dtype=bool)
    own[_rows_on_thread(events, thread)] = True
    return own


@once
def _rows_on_thread(events: pl.DataFrame, thread: tuple[object, ...]) -> Int64s:
    """Their rows, which are kept: those of all threads together are no more than the events."""
    same = event_times(events).known.copy()
    for name, value in zip(THREAD, thread, strict=True):
        column = events[name]
        if value is not None:
            same &= (column == value).fill_null(False).to_numpy()
        elif column.null_count() < events.height:
            same &= column.is_null().to_numpy()
    return np.flatnonzero(same)
