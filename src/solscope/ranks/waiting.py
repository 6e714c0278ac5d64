"""Where the time of a collective goes: the transfer, and waiting for the rank that came last.

On the common clock a collective's last arrival is the latest start among its ranks. What a rank
spends before it is waiting, what it spends after it is the transfer, and both add up to the
duration, to the nanosecond. A rank came late for a reason that lies before its arrival: it left the
collective before later than others (`late`), the GPU worked longer (`busy`), the GPU did not run
what was launched (`held`), or nothing was launched (`idle`).

A call is classed against calls of its kind, size and group in which nobody waited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.clock import Clock, Times
from solscope.ranks.groups import members
from solscope.ranks.match import Matched
from solscope.run import Run

Floats = NDArray[np.float64]

PARTS = ("late", "busy", "held", "idle")
"""What makes a rank late, in the order of time."""
MOSTLY = 2 / 3
"""A class is named when this share of the time speaks for it."""
AT_BASELINE = 0.25
"""A call that takes no longer than this beyond its baseline is all transfer."""
CALM = 0.1
"""A call is calm when its ranks wait for no more than this share of it."""
TINY = 16
"""Messages are tiny beside ones that are this many times as large."""
LEAST_CALM = 3
"""A baseline takes this many calls; the calmest fifth where fewer are calm."""


@dataclass(frozen=True)
class Waiting:
    """Collectives by rank: waiting, transfer and what came before; NaN where a rank has none."""

    wait: Floats
    transfer: Floats
    arrival: Floats
    """When each rank began, ns after the first."""
    cost: Floats
    """What the last rank's lateness beyond the next to last cost the others; else 0."""
    last: NDArray[np.int64]
    """Position of the rank that came last; -1 where that is not known."""
    parts: dict[str, Floats]
    """`PARTS`, ns, since the collective before."""
    classes: pl.Series
    """`transfer`, `arrival`, `mixed` or `inconclusive`, by collective."""
    baseline: Floats
    """Transfer of a calm call of the same kind, size and group, ns; NaN where none is known."""
    busiest: NDArray[np.int64]
    """Position of the rank that sends or receives most rows; -1 where all do about as much."""
    uneven: Floats
    """What an all-to-all takes longer than with rows spread evenly, ns; else 0."""


def waiting(run: Run, matched: Matched, clock: Clock, times: Times) -> Waiting:
    """Split the time of every matched collective."""
    start, end = times.start, times.end
    duration = end - start
    if clock.method == "durations":
        # Without a clock: the rank that spends least time in a collective came last.
        shortest = _least(duration)[:, None]
        wait = duration - shortest
        arrival = _most(duration)[:, None] - duration
    else:
        wait = np.clip(_most(start)[:, None] - start, 0.0, duration)
        arrival = start - _least(start)[:, None]
    last, cost = _costs(arrival, wait)
    if clock.method == "durations":
        # A send may end before its receive begins: durations tell nothing of who came last.
        synchronizing = matched.table["synchronizing"].to_numpy()
        last, cost = np.where(synchronizing, last, -1), np.where(synchronizing, cost, 0.0)
    transfer = duration - wait
    baseline = _baseline(matched.table, wait, duration, transfer)
    busiest, uneven = _uneven(run, matched, transfer)
    return Waiting(
        wait=wait,
        transfer=transfer,
        arrival=arrival,
        cost=cost,
        last=last,
        parts=_parts(run, matched, end),
        classes=_classes(wait, duration, baseline, clock, _complete(run, matched)),
        baseline=baseline,
        busiest=busiest,
        uneven=uneven,
    )


def _uneven(run: Run, matched: Matched, transfer: Floats) -> tuple[NDArray[np.int64], Floats]:
    """All-to-alls take as long as their busiest rank: who that is, and what it costs.

    The transfer of the smallest messages of the recording is latency; what is beyond it goes with
    the rows of the busiest rank.
    """
    rows = np.full(matched.index.shape, np.nan)
    for rank_index, rank in enumerate(run.ranks):
        has_call = matched.index[:, rank_index] >= 0
        sums = [rank.calls[name].list.sum() for name in ("sent_rows", "received_rows")]
        values = pl.DataFrame(sums).max_horizontal().cast(pl.Float64).to_numpy()
        rows[has_call, rank_index] = values[matched.index[has_call, rank_index]]
    busiest, cost = np.full(len(rows), -1), np.zeros(len(rows))
    compared = (~np.isnan(rows)).sum(1) > 1
    if not compared.any():
        return busiest, cost
    latency = _latency(matched.table, transfer)
    most, mean = np.nanmax(rows[compared], axis=1), np.nanmean(rows[compared], axis=1)
    beyond = np.nanmedian(transfer[compared], axis=1) - latency[compared]
    saved = np.maximum(0.0, np.nan_to_num(beyond)) * (1 - mean / np.maximum(1.0, most))
    busiest[compared] = np.where(saved > 0, np.nanargmax(rows[compared], axis=1), -1)
    cost[compared] = saved
    return busiest, cost


def _latency(table: pl.DataFrame, transfer: Floats) -> Floats:
    """Transfer of messages that are tiny beside each call's own, of its kind and group, ns."""
    latency = np.full(table.height, np.nan)
    middle = np.full(table.height, np.nan)
    timed = ~np.isnan(transfer).all(1)
    middle[timed] = np.nanmedian(transfer[timed], axis=1)
    for _, alike in table.with_row_index("at").group_by("kind", "group", maintain_order=True):
        collectives, size = alike["at"].to_numpy(), alike["bytes"].cast(pl.Float64).to_numpy()
        least = np.nanmin(size) if not np.isnan(size).all() else np.nan
        tiny = collectives[size <= 2 * least]
        if tiny.size >= LEAST_CALM:
            small = size[np.isin(collectives, tiny)].max() <= size / TINY
            latency[collectives[small]] = np.nanmedian(middle[tiny])
    return latency


def _most(values: Floats) -> Floats:
    return np.nanmax(values, axis=1) if values.size else np.empty(values.shape[0])


def _least(values: Floats) -> Floats:
    return np.nanmin(values, axis=1) if values.size else np.empty(values.shape[0])


def _costs(arrival: Floats, wait: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Who came last, and how long the others waited for this rank alone."""
    count = arrival.shape[0]
    if count == 0:
        return np.empty(0, np.int64), np.empty(0)
    filled = np.where(np.isnan(arrival), -np.inf, arrival)
    last = np.argmax(filled, axis=1)
    two = np.partition(filled, -2, axis=1)[:, -2:]
    alone = two[:, 1] - two[:, 0]
    return last, np.minimum(alone, _most(wait))


def _parts(run: Run, matched: Matched, end: Floats) -> dict[str, Floats]:
    """What lies between the collective before and each arrival, by rank."""
    parts = {name: np.full(matched.index.shape, np.nan) for name in PARTS}
    for rank_index, rank in enumerate(run.ranks):
        has_call = matched.index[:, rank_index] >= 0
        rows = matched.index[has_call, rank_index]
        for name in ("busy", "held", "idle"):
            parts[name][has_call, rank_index] = rank.calls[f"{name}_ns"].to_numpy()[rows]
    if end.shape[0]:
        # On the common clock: how long after the first rank this one left the collective before.
        before = np.vstack((np.full((1, end.shape[1]), np.nan), end[:-1]))
        timed = ~np.isnan(before).all(1)
        first = np.full(before.shape[0], np.nan)
        first[timed] = np.nanmin(before[timed], axis=1)
        parts["late"] = np.where(np.isnan(before), np.nan, before - first[:, None])
    return parts


def _complete(run: Run, matched: Matched) -> NDArray[np.bool_]:
    """Whether all ranks of a collective's group are at hand."""
    present = (matched.index >= 0).sum(1)
    sizes = [len(members(group) or ()) for group in matched.table["group"].to_list()]
    size = np.array(sizes, np.int64)
    everyone = not run.missing
    return np.asarray(np.where(size > 0, present >= size, everyone), dtype=bool)


def _baseline(table: pl.DataFrame, wait: Floats, duration: Floats, transfer: Floats) -> Floats:
    """Transfer without skew: of the calm calls of the same kind, size and group."""
    baseline = np.full(table.height, np.nan)
    if not table.height:
        return baseline
    share = np.nanmean(wait, axis=1) / np.maximum(1.0, np.nanmean(duration, axis=1))
    middle = np.nanmedian(transfer, axis=1)
    keys = ("kind", "group", _size_class().alias("size"))
    for _, alike in table.with_row_index("at").group_by(*keys, maintain_order=True):
        collectives = alike["at"].to_numpy()
        calm = collectives[share[collectives] <= CALM]
        if calm.size < LEAST_CALM:
            calm = collectives[np.argsort(share[collectives], kind="stable")][
                : max(LEAST_CALM, collectives.size // 5)
            ]
        if calm.size >= LEAST_CALM:
            baseline[collectives] = np.median(middle[calm])
    return baseline


def _size_class() -> pl.Expr:
    """Message sizes: equal, or within a factor of two where ranks send different amounts."""
    even = pl.col("kind").is_in(["all_to_all", "dispatch", "combine"])
    power = pl.col("bytes").cast(pl.Float64).log(2).floor().cast(pl.Int64)
    return pl.when(even).then(power).otherwise("bytes")


def _classes(
    wait: Floats,
    duration: Floats,
    baseline: Floats,
    clock: Clock,
    complete: NDArray[np.bool_],
) -> pl.Series:
    """The class of each collective."""
    if not wait.shape[0]:
        return pl.Series("class", [], dtype=pl.String)
    waited, whole = np.nanmean(wait, axis=1), np.nanmean(duration, axis=1)
    error = 1e3 * (clock.error_us or 0.0)
    unsure = np.isnan(baseline) | (error > 0.5 * whole) | (clock.method == "durations")
    # What is beyond the baseline is waiting, or a slow transfer.
    beyond = whole - baseline
    share = waited / np.maximum(1.0, beyond)
    names = np.where(share >= MOSTLY, "arrival", np.where(share <= 1 - MOSTLY, "transfer", "mixed"))
    names = np.where(beyond <= AT_BASELINE * baseline, "transfer", names)
    # Without some ranks, waiting can only be more than what is seen.
    unsure |= ~complete & (names != "arrival")
    return pl.Series("class", np.where(unsure, "inconclusive", names).tolist(), dtype=pl.String)
