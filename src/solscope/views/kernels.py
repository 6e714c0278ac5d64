"""Statistics of GPU activities, grouped by name, short name, category or launching operator."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.names import short_name
from solscope.once import once
from solscope.views.calls import aggregate_calls, event_calls

GroupBy = Literal["name", "short", "category", "op", "call"]
NO_OPERATOR = "(no operator)"
MIXED = "mixed"
_NEARLY_ALL = 0.9
"""A group with less of its time than this in one category is `mixed`."""


class KernelRow(msgspec.Struct, frozen=True):
    """One group of GPU activities."""

    name: str
    """Full name, short name, category or operator, whatever the grouping is by."""
    short_name: str
    category: str
    """Category of the group; `mixed` when no category holds 90 % of its time."""
    calls: int
    total_ns: int
    mean_ns: float | None
    median_ns: float | None
    """Null where the source gives none, or only per name while the grouping is wider."""
    min_ns: int | None
    max_ns: int | None
    std_ns: float | None
    """Sample standard deviation; 0 for a single call."""
    pct: float
    """Share of total GPU activity time; all rows sum to 100."""
    detail: str | None = None
    """What a generic rule matched, e.g. the functor of an elementwise kernel."""
    rule: str | None = None
    """Classification rule of the largest part; null when none matched."""
    helper_ns: int = 0
    """By call: the part of `total_ns` that helper kernels took."""
    inferred: bool = False
    """By call: true when helpers were shared out by counts, because single events are not known."""
    borrowed_ns: int = 0
    """By operator: the part of `total_ns` whose operator was borrowed (`borrow.py`)."""


class KernelTable(msgspec.Struct, frozen=True):
    """All groups, most time first."""

    profile: str
    by: str
    total_ns: int
    calls: int
    kernels: list[KernelRow]


@once
def kernels(attributed: Attributed, by: GroupBy = "name") -> KernelTable:
    """Group the GPU activities (kernels, copies, fills) of a profile; rows sum to its GPU time."""
    if by not in get_args(GroupBy):
        raise UsageError(f"cannot group by {by!r}; choose one of {', '.join(get_args(GroupBy))}")
    rows = (
        _aggregate_rows(attributed, by)
        if attributed.profile.is_aggregate
        else _event_rows(attributed, by)
    )
    if by == "op" and attributed.profile.is_aggregate:
        raise UsageError(
            "this profile is a summary without operators; group by name, short or category"
        )
    rows = rows.with_columns(_group_key(rows, by).alias("key"))
    grouped = _combine(rows) if attributed.profile.is_aggregate else _measure(rows)
    extras = rows.group_by("key").agg(
        pl.col("helper_ns", "borrowed_ns").sum(), pl.col("inferred").any()
    )
    grouped = (
        grouped.join(extras, on="key", how="left", maintain_order="left")
        .join(_labels(rows), on="key", how="left", maintain_order="left")
        .with_columns(pl.col("key").cast(pl.String))
        .sort(["total_ns", "key"], descending=[True, False])
    )
    total = int(grouped["total_ns"].sum())
    return KernelTable(
        profile=attributed.profile.path,
        by=by,
        total_ns=total,
        calls=int(grouped["calls"].sum()),
        kernels=[_row(row, by, total) for row in grouped.iter_rows(named=True)],
    )


_LABELS = ("category", "detail", "rule")


_NO_EXTRAS = {"helper_ns": pl.lit(0), "borrowed_ns": pl.lit(0), "inferred": pl.lit(False)}


def _event_rows(attributed: Attributed, by: GroupBy) -> pl.DataFrame:
    if by == "call":
        return event_calls(attributed).with_columns(pl.lit(0).alias("borrowed_ns"))
    time = pl.col("dur_ns").fill_null(0)
    borrowed = pl.when(pl.col("op_borrowed").is_not_null()).then(time).otherwise(0)
    return attributed.activities.select(
        "name",
        pl.coalesce("op", "op_borrowed").alias("op"),
        *_LABELS,
        pl.lit(1, pl.Int64).alias("calls"),
        time.alias("total_ns"),
        pl.col("dur_ns").is_not_null().alias("timed"),
        **(_NO_EXTRAS | {"borrowed_ns": borrowed if by == "op" else pl.lit(0)}),
    )


def _aggregate_rows(attributed: Attributed, by: GroupBy) -> pl.DataFrame:
    rows = (
        aggregate_calls(attributed).drop("helper").with_columns(pl.lit(0).alias("borrowed_ns"))
        if by == "call"
        else attributed.aggregates.with_columns(**_NO_EXTRAS)
    )
    return rows.with_columns(pl.lit(None, pl.Categorical()).alias("op"))


def _group_key(rows: pl.DataFrame, by: GroupBy) -> pl.Series:
    if by == "op":
        return rows["op"].fill_null(NO_OPERATOR)
    if by == "category":
        return rows["category"]
    names = rows["name"].fill_null("(no name)")
    if by == "name":
        return names
    names = names.cast(pl.String)
    distinct = names.unique()
    short = [short_name(name) for name in distinct]
    return names.replace_strict(distinct, short, return_dtype=pl.String)


def _measure(rows: pl.DataFrame) -> pl.DataFrame:
    # A call without a duration counts, but not as a call of 0 ns.
    time = pl.col("total_ns").filter("timed")
    return rows.group_by("key").agg(
        pl.col("calls").sum(),
        pl.col("total_ns").sum(),
        time.mean().alias("mean_ns"),
        time.median().alias("median_ns"),
        time.min().alias("min_ns"),
        time.max().alias("max_ns"),
        time.std(ddof=1).fill_null(0.0).alias("std_ns"),
    )


def _combine(rows: pl.DataFrame) -> pl.DataFrame:
    """Statistics of groups of aggregates: exact for sums, extremes and deviation, no median."""
    calls, mean = pl.col("calls"), pl.col("mean_ns")
    grand = pl.col("total_ns").sum() / calls.sum()
    squares = ((calls - 1) * pl.col("std_ns") ** 2 + calls * (mean - grand) ** 2).sum()
    complete = pl.col("std_ns").null_count() == 0
    return rows.group_by("key").agg(
        calls.sum(),
        pl.col("total_ns").sum(),
        grand.alias("mean_ns"),
        pl.when(pl.len() == 1).then(pl.col("median_ns").first()).alias("median_ns"),
        pl.when(pl.col("min_ns").null_count() == 0).then(pl.col("min_ns").min()).alias("min_ns"),
        pl.when(pl.col("max_ns").null_count() == 0).then(pl.col("max_ns").max()).alias("max_ns"),
        pl.when(complete & (pl.len() == 1))
        .then(pl.col("std_ns").first())
        .when(complete & (calls.sum() > 1))
        .then((squares / (calls.sum() - 1)).sqrt())
        .when(complete)
        .then(0.0)
        .alias("std_ns"),
    )


def _labels(rows: pl.DataFrame) -> pl.DataFrame:
    """Category, detail and rule of the part of each group that took most time.

    A group of which no category holds nearly all is `mixed`.
    """
    parts = rows.group_by("key", *_LABELS).agg(pl.col("total_ns").sum())
    largest = parts.group_by("key", "category").agg(pl.col("total_ns").sum().alias("held"))
    pure = largest.group_by("key").agg(
        (pl.col("held").max() >= _NEARLY_ALL * pl.col("held").sum()).alias("pure")
    )
    return (
        parts.sort(["total_ns", "category"], descending=[True, False])
        .unique("key", keep="first", maintain_order=True)
        .join(pure, on="key", how="left", maintain_order="left")
        .select(
            "key",
            pl.when("pure")
            .then(pl.col("category").cast(pl.String))
            .otherwise(pl.lit(MIXED))
            .alias("category"),
            *_LABELS[1:],
        )
    )


def _row(row: dict[str, object], by: GroupBy, total: int) -> KernelRow:
    fields = {name: row[name] for name in KernelRow.__struct_fields__ if name in row}
    key, time = str(row["key"]), row["total_ns"]
    assert isinstance(time, int)
    return KernelRow(
        **fields,  # type: ignore[arg-type]
        name=key,
        short_name=short_name(key) if by == "name" else key,
        pct=100.0 * time / total if total else 0.0,
    )
