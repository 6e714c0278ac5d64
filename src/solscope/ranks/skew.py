"""Collectives of several ranks: how long each rank waited for the others, apart from the transfer.

The k-th collective of one rank is the k-th of every other. It cannot end before the last rank
arrives, so the shortest of its durations is the transfer, and what a rank spends beyond that is
waiting. Clocks are not compared, only durations, and the start of the recording counts, where ranks
wait for one another's profilers: who waits least need not be the straggler, which `ranks` finds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl

from solscope.attribution import Attributed


class RankWait(msgspec.Struct, frozen=True):
    """One rank's part in the collectives of a run."""

    rank: int
    collectives: int
    transfer_ms: float
    """Sum of the shortest durations over ranks."""
    wait_ms: float
    """What this rank spent beyond that, waiting for later ranks."""


class CollectiveSkew(msgspec.Struct, frozen=True):
    """Waiting in collectives over the ranks of a run; a reason when it cannot be told."""

    ranks: list[RankWait]
    slowest: int | None
    """Rank that waits least, start of the recording included; not always the straggler."""
    reason: str | None


def collective_calls(attributed: Attributed) -> pl.DataFrame:
    """`rank`, `name`, `dur_ns` of communication kernels in the order in which they started."""
    default = attributed.profile.metadata.rank
    return (
        attributed.activities.filter(
            (pl.col("category") == "comm") & pl.col("start_ns").is_not_null()
        )
        .sort("start_ns")
        .select(
            pl.coalesce("rank", pl.lit(default, pl.Int32)).alias("rank"),
            pl.col("name").cast(pl.String),
            pl.col("dur_ns").fill_null(0),
        )
    )


def collective_skew(calls: Mapping[int, pl.DataFrame]) -> CollectiveSkew:
    """Transfer and waiting per rank; `calls` holds what `collective_calls` gave for each rank."""
    ranks = sorted(calls)
    counts = {rank: calls[rank].height for rank in ranks}
    if len(ranks) < 2:
        return CollectiveSkew([], None, "one rank only")
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"rank {rank}: {count}" for rank, count in counts.items())
        return CollectiveSkew([], None, f"ranks do not have the same collectives ({listed})")
    if not next(iter(counts.values())):
        return CollectiveSkew([], None, "no collectives")
    names = [calls[rank]["name"].to_list() for rank in ranks]
    if any(other != names[0] for other in names[1:]):
        return CollectiveSkew([], None, "ranks run different collectives in a different order")
    table = pl.DataFrame({str(rank): calls[rank]["dur_ns"] for rank in ranks})
    transfer = table.min_horizontal()
    rows = [
        RankWait(
            rank,
            counts[rank],
            int(transfer.sum()) / 1e6,
            int((table[str(rank)] - transfer).sum()) / 1e6,
        )
        for rank in ranks
    ]
    slowest = min(rows, key=lambda row: (row.wait_ms, row.rank))
    return CollectiveSkew(rows, slowest.rank, None)
