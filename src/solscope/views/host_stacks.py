"""What the launching thread was in while the GPU waited: annotations, operators, Python frames.

Each nanosecond of the waiting belongs to one stack of them, from the outermost to the innermost.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import Texts
from solscope.events import KINDS, THREAD
from solscope.intervals import Int64s, Intervals, covered_before, nest, overlap
from solscope.patterns import lazy_pattern
from solscope.text import clean
from solscope.views.host_rows import event_kinds, event_names, event_times, on_thread
from solscope.views.percent import percent_of

OUTSIDE = "(outside)"
"""Waiting in no annotation, operator or frame."""
_ADDRESS = lazy_pattern(r" at 0x[0-9a-fA-F]+")


class Waiting(msgspec.Struct, frozen=True):
    """What the host was in while the GPU waited."""

    name: str
    wait_ms: float
    """All steps together."""
    pct: float | None
    """Of all waiting."""


class WaitingStack(msgspec.Struct, frozen=True):
    """Waiting in one stack of the host."""

    stack: list[str]
    """Annotations, operators and Python frames, the outermost first; `(outside)` for none."""
    wait_ms: float
    pct: float | None
    """Of all waiting."""


class HostStack(msgspec.Struct, frozen=True, dict=True):
    """Intervals of one kind on one thread."""

    names: list[str]
    """Distinct names."""
    which: Int64s
    """The name of each interval."""
    held: Intervals

    @cached_property
    def parent(self) -> Int64s:
        """The interval around each one, or -1."""
        return nest(self.held.start, self.held.end)


def host_stacks(events: pl.DataFrame, thread: dict[str, object]) -> dict[str, HostStack]:
    """Annotations, operators and Python frames of a thread."""
    own = on_thread(events, tuple(thread[name] for name in THREAD))
    kind = event_kinds(events)
    start, dur, _ = event_times(events)
    stacks = {}
    for wanted in ("annotation", "cpu_op", "python"):
        rows = np.flatnonzero(own & (kind == KINDS.index(wanted)))
        begun = start[rows]
        if (begun[1:] < begun[:-1]).any():
            rows = rows[np.argsort(begun, kind="stable")]
            begun = start[rows]
        held = Intervals(begun, begun + dur[rows])
        stacks[wanted] = HostStack(*_distinct(event_names(events).take(rows)), held)
    return stacks


def _distinct(names: Texts) -> tuple[list[str], Int64s]:
    """The distinct names without addresses of objects, and which one each row has."""
    # Python writes the address of an object into the name of its method.
    used = names.used()
    known = [names.known[code] or "" for code in used.tolist()]
    shown = [_ADDRESS.sub("", name, count=1) if " at 0x" in name else name for name in known]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(shown))}
    code = np.zeros(len(names.known), dtype=np.int64)
    code[used] = [numbers[name] for name in shown]
    return list(numbers), code[names.codes]


def spent(stack: HostStack, waits: Intervals, *, outer: bool) -> list[Waiting]:
    """Waiting by name: of the outermost interval that holds it, or of the innermost."""
    if not stack.names or not waits.length:
        return []
    parent = stack.parent
    inside = overlap(stack.held.start, stack.held.end, waits)
    own = inside.copy()
    inner = np.flatnonzero(parent >= 0)
    if outer:
        own[inner] = 0
    else:
        np.subtract.at(own, parent[inner], inside[inner])
    times = np.zeros(len(stack.names), dtype=np.int64)
    np.add.at(times, stack.which, own)
    totals = dict(zip(stack.names, times.tolist(), strict=True))
    covered, whole = int(inside[parent < 0].sum()), waits.length
    totals[OUTSIDE] = totals.get(OUTSIDE, 0) + whole - covered
    rows = [Waiting(n, ns / 1e6, percent_of(ns, whole)) for n, ns in totals.items() if ns > 0]
    return sorted(rows, key=lambda row: (-row.wait_ms, row.name))


def waiting_stacks(stacks: Mapping[str, HostStack], waits: Intervals) -> list[WaitingStack]:
    """Waiting by everything that the host was in at the time; most waiting first."""
    if not waits.length:
        return []
    names = [name for stack in stacks.values() for name in stack.names]
    offsets = np.cumsum([0, *(len(stack.names) for stack in stacks.values())]).tolist()
    which = np.concatenate([s.which + n for s, n in zip(stacks.values(), offsets, strict=False)])
    start, end = (np.concatenate([s.held[side] for s in stacks.values()]) for side in (0, 1))
    concerned = overlap(start, end, waits) > 0
    whole = waits.length
    times = _time_by_path(which[concerned], start[concerned], end[concerned], waits)
    rows = [
        WaitingStack([names[code] for code in path] or [OUTSIDE], ns / 1e6, percent_of(ns, whole))
        for path, ns in times.items()
    ]
    return sorted(rows, key=lambda row: (-row.wait_ms, row.stack))


def _time_by_path(
    which: Int64s, start: Int64s, end: Int64s, waits: Intervals
) -> dict[tuple[int, ...], int]:
    """Waiting by the names of the intervals that are open, in the order of their starts.

    An annotation begins inside the frame that enters it and outlives that frame, so intervals of a
    thread need not nest.
    """
    number = np.arange(start.size)
    order = np.lexsort((-end, start))
    codes = which[order].tolist()
    start, end = start[order], end[order]
    when = np.concatenate([end, start])
    opens = np.repeat((False, True), start.size)
    ordered = np.lexsort((np.concatenate([number, number]), opens, when))
    moments = np.concatenate([[waits.start[0]], when[ordered], [waits.end[-1]]])
    waited = np.diff(covered_before(waits, np.maximum.accumulate(moments))).tolist()
    paths = _Paths()
    opened: list[int] = []
    at = [0]  # the path before the first of `opened`, and with each of them
    paths.times[0] += waited[0]
    for moment, ns in zip(ordered.tolist(), waited[1:], strict=True):
        interval = moment % start.size
        if moment >= start.size:
            opened.append(interval)
            at.append(paths.below(at[-1], codes[interval]))
        elif opened[-1] == interval:
            opened.pop()
            at.pop()
        else:
            place = opened.index(interval)
            del opened[place], at[place + 1 :]
            for other in opened[place:]:
                at.append(paths.below(at[-1], codes[other]))
        paths.times[at[-1]] += ns
    return {paths.codes(path): ns for path, ns in enumerate(paths.times) if ns}


class _Paths:
    """Numbers for paths, and the time spent in each: a step to a path next to it costs little."""

    def __init__(self) -> None:
        self.times = [0]
        self._above = [(0, 0)]
        """The path above each one, and what it adds to that."""
        self._numbers: dict[tuple[int, int], int] = {}

    def below(self, path: int, code: int) -> int:
        """The number of `path` with `code` at its end."""
        number = self._numbers.setdefault((path, code), len(self.times))
        if number == len(self.times):
            self.times.append(0)
            self._above.append((path, code))
        return number

    def codes(self, path: int) -> tuple[int, ...]:
        codes = []
        while path:
            path, code = self._above[path]
            codes.append(code)
        return tuple(reversed(codes))


def folded_stacks(rows: list[WaitingStack]) -> str:
    """Stacks as flame graph programs read them: frames with semicolons, then nanoseconds."""
    return "".join(
        f"{';'.join(_frame(name) for name in row.stack)} {round(1e6 * row.wait_ms)}\n"
        for row in rows
    )


def _frame(name: str) -> str:
    """A name without what separates frames and lines."""
    return clean(name).replace(";", ",")
