"""Quantiles of call times and bounds, from counts that files have, or from those of a sample.

Where all profiles of a part are selected and are one group, its counts are exact to the precision
at which durations are stored. Otherwise calls are counted profile by profile: in each group up to
`MOST_PROFILES` of them, beyond that those of a sample that is drawn by the hash of their contents,
with the same outcome every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.durations import quantiles_of
from solscope.corpus.queries.shares import Cells, SplitPart

MOST_PROFILES = 2000
"""Profiles that quantiles are of, at most; with groups, shared by up to `MOST_SHARES` of them."""
MOST_SHARES = 8
CALL = 1 << 10
"""One call as an integer: sums, and with them quantiles, do not depend on the order of rows."""
_KEYS = ["group", "code"]
_COUNTS = pl.Schema(
    {**dict.fromkeys(_KEYS, pl.Int64()), "value": pl.Float64(), "calls": pl.Int64()}
)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CallTimes:
    """Quantiles by `group` and `code`."""

    quantiles: pl.DataFrame
    """`q50` and `q90` of call times, `limit` of bounds; null without calls of known duration."""
    sampled: int
    """Profiles in the sample; 0 when nothing was sampled."""


def call_times(cells: Cells) -> CallTimes:
    """The quantiles of all keys."""
    whole = pl.col("calls").cast(pl.Int64) * CALL
    durations, limits = ([one.with_columns(whole)] for one in (cells.durations, cells.limits))
    sampled = 0
    if cells.split:
        factor = _factors(cells)
        chosen = factor > 0
        sampled = int(chosen.sum()) if (factor[chosen] > 1).any() else 0
        for split in cells.split:
            entries = np.flatnonzero((split.at >= 0) & chosen[split.at])
            if entries.size:
                counts = split.part.call_counts(entries)
                durations.append(_weighted(counts.durations, split, cells, factor))
                limits.append(_weighted(counts.limits, split, cells, factor))
    times = quantiles_of(_added(durations), _KEYS, (0.5, 0.9))
    bounds = quantiles_of(_added(limits), _KEYS, (0.5,)).rename({"q50": "limit"})
    joined = times.join(bounds, on=_KEYS, how="full", coalesce=True)
    return CallTimes(joined.collect(), sampled)


def _factors(cells: Cells) -> Floats:
    """How many profiles of its group each one stands for; 0 for those outside the sample."""
    profile_rows = np.unique(np.concatenate([split.at[split.at >= 0] for split in cells.split]))
    fact = cells.fact_of[profile_rows]  # Rows are in the order of ids, which are hashes.
    groups, sizes = np.unique(fact, return_counts=True)
    most = MOST_PROFILES // min(max(groups.size, 1), MOST_SHARES)
    number = pl.DataFrame({"fact": fact}).select(pl.int_range(pl.len()).over("fact"))
    in_sample = number.to_series().to_numpy() < most
    size = sizes[np.searchsorted(groups, fact)]
    factor = np.zeros(cells.fact_of.size)
    factor[profile_rows[in_sample]] = (size / np.minimum(size, most))[in_sample]
    return factor


def _weighted(counts: pl.DataFrame, split: SplitPart, cells: Cells, factor: Floats) -> pl.DataFrame:
    """Counts by group and code, each profile as often as it stands for others; one is `CALL`."""
    phase = split.phase[counts["phase"].to_numpy()]
    profile_rows = split.at[counts["entry"].to_numpy()]
    unit = profile_rows * cells.stride + (phase if cells.stride > 1 else 0)
    group = np.where(phase >= 0, cells.group_of[unit], -1)
    times = np.rint(factor * CALL).astype(np.int64)
    rows = counts.select(
        pl.Series("group", group),
        pl.Series("code", split.code[counts["name"].to_numpy()]),
        "value",
        pl.Series("calls", times[profile_rows] * counts["calls"].cast(pl.Int64).to_numpy()),
    )
    return _added([rows.filter(group >= 0)]).collect()


def _added(counts: Sequence[pl.DataFrame]) -> pl.LazyFrame:
    """Calls by group, key and value."""
    every = pl.concat(some.select(pl.col(n).cast(t) for n, t in _COUNTS.items()) for some in counts)
    return every.lazy().group_by(*_KEYS, "value").agg(pl.col("calls").sum())
