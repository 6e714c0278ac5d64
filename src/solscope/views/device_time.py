"""The time line of each device: what ran when, as unions of intervals, and why nothing ran."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.intervals import Int64s, Intervals, union
from solscope.once import once
from solscope.views.idle import idle_gaps


class DeviceTime(msgspec.Struct, frozen=True):
    """One device; everything is exact interval arithmetic on nanoseconds."""

    rank: int | None
    device: int | None
    rows: pl.DataFrame
    """Its activities that have a start."""
    busy: Intervals
    """All of them."""
    working: Intervals
    """All but copies."""
    compute: Intervals
    """All but copies and communication."""
    gaps: pl.DataFrame
    """Every gap in `busy`, with the time by cause (`views.idle.idle_gaps`)."""

    @property
    def span_ns(self) -> int:
        """From the first start to the last end."""
        return int(self.busy.end[-1] - self.busy.start[0]) if self.busy.start.size else 0


@once
def device_times(attributed: Attributed) -> list[DeviceTime]:
    """The devices of a profile by rank and number; none for one without a time line."""
    if attributed.profile.is_aggregate:
        return []
    timed = attributed.activities.with_columns(pl.col("dur_ns").fill_null(0))
    if timed["start_ns"].null_count():
        timed = timed.filter(pl.col("start_ns").is_not_null())
    groups = _by_device(timed)
    order = sorted(
        groups, key=lambda key: tuple(-1 if number is None else number for number in key)
    )
    return [_device(attributed, key, groups[key]) for key in order]


def _by_device(rows: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    """Rows by rank and device; those of a single one are not copied."""
    owner = ["rank", "device"]
    if rows.height and all(rows[name].n_unique() == 1 for name in owner):
        return {tuple(rows[name][0] for name in owner): rows}
    return rows.partition_by(owner, as_dict=True, maintain_order=True)


def _device(attributed: Attributed, key: tuple[object, ...], rows: pl.DataFrame) -> DeviceTime:
    rank, device = key
    assert rank is None or isinstance(rank, int)
    assert device is None or isinstance(device, int)
    start, end = bounds(rows)
    busy = union(start, end)
    works = (rows["kind"] != "memcpy").fill_null(False).to_numpy()
    computes = works & (rows["category"] != "comm").fill_null(False).to_numpy()
    return DeviceTime(
        rank=rank,
        device=device,
        rows=rows,
        busy=busy,
        working=union(start[works], end[works]),
        compute=union(start[computes], end[computes]),
        gaps=idle_gaps(attributed, rows, busy),
    )


def bounds(rows: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Starts and ends of activities."""
    start = rows["start_ns"].to_numpy()
    return start, np.asarray(start + rows["dur_ns"].to_numpy(), dtype=np.int64)
