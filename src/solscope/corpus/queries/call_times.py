"""Quantiles of call times and bounds, from counts that files have, or from rows of a sample.

Where all profiles of a part are selected, its counts are exact to the precision at which durations
are stored. Where only some are, their rows are read: all of them up to `MOST_PROFILES`, beyond that
those of a sample that is drawn by the hash of their contents, with the same outcome every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from solscope.corpus.aggregates.part import KeyKind, bounds_of_calls, key_columns
from solscope.corpus.durations import counts, quantiles_of
from solscope.corpus.queries.select import UNKNOWN, Selection
from solscope.corpus.queries.shares import Cells

MOST_PROFILES = 2000
"""Profiles whose rows are read for quantiles, at most."""


@dataclass(frozen=True)
class CallTimes:
    """Quantiles by `group` and `code`."""

    quantiles: pl.DataFrame
    """`q50` and `q90` of call times, `limit` of bounds; null without calls of known duration."""
    sampled: int
    """Profiles in the sample; 0 when nothing was sampled."""


def call_times(selection: Selection, cells: Cells, kind: KeyKind) -> CallTimes:
    """The quantiles of all keys."""
    durations, limits, sampled = [cells.durations], [cells.limits], 0
    if not cells.split.is_empty():
        sample = cells.split.sort("at").head(MOST_PROFILES)  # By id, which is a hash.
        factor = cells.split.height / sample.height
        sampled = 0 if factor == 1 else sample.height
        rows = _rows(selection, sample, cells, kind)
        durations.append(_weighted(counts(rows, ["group", "code"]), factor))
        limits.append(_weighted(bounds_of_calls(rows, ["group", "code"]), factor))
    keys = ["group", "code"]
    times = quantiles_of(pl.concat(durations).lazy(), keys, (0.5, 0.9))
    bounds = quantiles_of(pl.concat(limits).lazy(), keys, (0.5,)).rename({"q50": "limit"})
    joined = times.join(bounds, on=keys, how="full", coalesce=True)
    return CallTimes(joined.collect(), sampled)


def _weighted(calls: pl.LazyFrame, factor: float) -> pl.DataFrame:
    return (
        calls.select("group", "code", "value", pl.col("calls") * factor)
        .select(
            pl.col("group", "code").cast(pl.Int64),
            pl.col("value", "calls").cast(pl.Float64),
        )
        .collect()
    )


def _rows(selection: Selection, sample: pl.DataFrame, cells: Cells, kind: KeyKind) -> pl.LazyFrame:
    """Rows of the sampled profiles with group and code."""
    columns = key_columns(kind)
    names = cells.names.rename(dict(zip(cells.names.columns, columns, strict=True)))
    rows = (
        selection.corpus.raw("times")
        .filter(pl.col("entry").is_in(sample["entry"].to_list()))
        .select(
            *("entry", "phase", *columns, "calls", "bound_ns"),
            *("durations_ns", "durations_calls"),
        )
        .with_columns(pl.col("phase").fill_null(UNKNOWN))
    )
    if selection.phase is not None:
        rows = rows.filter(pl.col("phase") == selection.phase)
    units = pl.DataFrame({"at": cells.at_of, "group": cells.group_of}).with_columns(
        pl.col("at").cast(sample["at"].dtype)
    )
    keys = ["at"]
    if cells.phase_of is not None:
        units = units.with_columns(pl.Series("phase", cells.phase_of))
        keys = ["at", "phase"]
    group = units.filter(pl.col("group") >= 0).select(*keys, "group")
    return (
        rows.join(sample.lazy(), on="entry")
        .join(group.lazy(), on=keys)
        .join(names.with_row_index("code").lazy(), on=columns, nulls_equal=True)
    )
