"""Memory copies during which nothing else runs, as means over the devices of a profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import take as take_rows
from solscope.attribution import Attributed
from solscope.hardware import Hardware
from solscope.intervals import overlap, union
from solscope.views.costs import CallTable
from solscope.views.device_time import bounds
from solscope.views.hotspots import advice
from solscope.views.hotspots.base import Hotspot, lost_time, mean_count, take
from solscope.views.hotspots.window import Window
from solscope.views.typical_step import COPIES, copy_direction


class _Spent(msgspec.Struct):
    """Copies of one direction, summed over devices."""

    count: int = 0
    time_ns: int = 0
    exposed_ns: int = 0
    bytes: int | None = 0
    """Null where the size of any of them is not known."""


def copies_between(calls: pl.DataFrame, table: CallTable, card: Hardware | None) -> dict[int, str]:
    """The calls that are copies, with their direction; not those that have a bound of HBM."""
    kinds = {
        kind_index: copy_direction(kind.kernel)
        for kind_index, kind in enumerate(table.kinds)
        if kind.category == "memcpy"
    }
    kinds = {
        kind_index: name for kind_index, name in kinds.items() if card is None or name != "DtoD"
    }
    copies = calls.select("call", "kind").filter(pl.col("kind").is_in(list(kinds)))
    return {call: kinds[kind] for call, kind in copies.iter_rows()}


def exposed_copies(
    attributed: Attributed, copies: Mapping[int, str], table: CallTable, window: Window
) -> list[Hotspot]:
    """Copies by direction: the part that nothing else hides."""
    timed = pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    used = ("row", "rank", "device", "step", "kind", "start_ns", "dur_ns")
    rows = window.of(attributed.activities.select(used)).filter(timed)
    devices = rows.partition_by(["rank", "device"], maintain_order=True)
    spent: dict[str, _Spent] = defaultdict(_Spent)
    other_ns = 0
    for device in devices:
        copied = device.filter(pl.col("kind") == "memcpy").sort("start_ns", maintain_order=True)
        start, end = bounds(copied)
        # What two copies share belongs to the first of them.
        before = np.maximum.accumulate(np.concatenate([start[:1], end]))[:-1]
        first = np.minimum(np.maximum(start, before), end)
        other = union(*bounds(device.filter(pl.col("kind") != "memcpy")))
        other_ns += int((other.end - other.start).sum())
        exposed = end - first - overlap(first, end, other)
        calls = copied.select("row").join(table.activities, on="row", maintain_order="left")["call"]
        sizes = take_rows(attributed.profile.events["bytes"], copied["row"])
        for call, time, shown, size in zip(calls, end - start, exposed, sizes, strict=True):
            if (direction := copies.get(call)) is not None:
                sums = spent[direction]
                sums.count += 1
                sums.time_ns += int(time)
                sums.exposed_ns += int(shown)
                sums.bytes = None if size is None or sums.bytes is None else sums.bytes + size
    can_hide = sum(sums.exposed_ns for sums in spent.values()) <= other_ns
    return [_row(name, sums, window, can_hide=can_hide) for name, sums in spent.items()]


def _row(direction: str, sums: _Spent, window: Window, *, can_hide: bool) -> Hotspot:
    per_step = sums.count / window.count
    time_us, saved = (window.per_step(ns) for ns in (sums.time_ns, sums.exposed_ns))
    where = COPIES.get(direction, "copies").removeprefix("copies")
    return lost_time(
        "copy",
        f"memcpy {direction}" if direction in COPIES else "memcpy",
        window,
        calls_per_step=per_step,
        time_us=time_us,
        saved_us=saved,
        confidence="low",
        why=(
            f"{mean_count(per_step, 'copy', 'copies')}{where} {take(per_step)} {time_us:,.2f} µs"
            f"{_rate(sums)}, {saved:,.2f} µs of it while nothing else runs"
        ),
        advice=advice.COPIES.get(direction, advice.OTHER_COPIES)
        if can_hide
        else advice.TOO_MANY_COPIES.get(direction, advice.ANY_TOO_MANY_COPIES),
    )


def _rate(sums: _Spent) -> str:
    """How much they move how fast, where that is known."""
    if not sums.bytes or not sums.time_ns:
        return ""
    return f" ({sums.bytes / sums.time_ns:,.1f} GB/s)"
