"""Helper kernels merged into the kernels they serve, before statistics are taken.

With single events the owner of each helper is known. An aggregate profile only has counts: there
the time of a helper is shared among the kernels of its category that it can serve, in proportion to
their launches (a split-K reduction among the products whose name says split-K), and the result is
marked as inferred.
"""

from __future__ import annotations

import polars as pl

from solscope.attribution import Attributed

_LABELS = ("category", "detail", "rule")


def event_calls(attributed: Attributed) -> pl.DataFrame:
    """One row per call: the owner's name and labels, the time of owner and helpers together."""
    rows = attributed.activities.select(
        pl.coalesce("owner_row", "row").alias("call"),
        "row",
        "name",
        "op",
        *_LABELS,
        pl.col("dur_ns").fill_null(0).alias("total_ns"),
        pl.col("owner_row").is_not_null().alias("helper"),
        pl.col("dur_ns").is_not_null().alias("timed"),
    )
    times = rows.group_by("call").agg(
        pl.col("total_ns").sum(),
        pl.col("total_ns").filter("helper").sum().alias("helper_ns"),
    )
    owners = rows.filter(~pl.col("helper")).drop("call", "helper", "total_ns")
    return owners.join(times, left_on="row", right_on="call", maintain_order="left").with_columns(
        pl.lit(1, pl.Int64).alias("calls"), pl.lit(False).alias("inferred")
    )


def aggregate_calls(attributed: Attributed) -> pl.DataFrame:
    """Aggregates with the time of helpers shared out; sums stay exact to the nanosecond."""
    helpers = {rule.id for rule in attributed.rules.rules if rule.helper is not None}
    rows = attributed.aggregates.with_columns(
        pl.col("rule").cast(pl.String).is_in(sorted(helpers)).fill_null(False).alias("helper")
    )
    total = rows["total_ns"].to_list()
    shared = [0] * rows.height
    dropped = []
    for index, row in enumerate(rows.iter_rows(named=True)):
        if not row["helper"]:
            continue
        owners = _owners(rows, row)
        if owners:
            dropped.append(index)
            for owner, time in zip(
                owners, _split(total[index], [rows["calls"][o] for o in owners]), strict=True
            ):
                shared[owner] += time
    remaining = [index for index in range(rows.height) if index not in set(dropped)]
    served = pl.Series("helper_ns", shared, dtype=pl.Int64)
    return rows.with_columns(
        (pl.col("total_ns") + served).alias("total_ns"),
        ((pl.col("total_ns") + served) / pl.col("calls")).alias("mean_ns"),
        served,
        (served > 0).alias("inferred"),
        # Extremes and spread of the sum of two kernels do not follow from those of each.
        *(
            pl.when(served == 0).then(pl.col(name)).alias(name)
            for name in ("median_ns", "min_ns", "max_ns", "std_ns")
        ),
    )[remaining]


def _owners(rows: pl.DataFrame, helper: dict[str, object]) -> list[int]:
    """Rows that a helper can serve: its category, and split-K products for a split-K reduction."""
    category = "gemm" if helper["category"] == "quant" else helper["category"]
    same = rows.with_row_index("at").filter((pl.col("category") == category) & ~pl.col("helper"))
    if "splitK" in str(helper["name"]):
        named = same.filter(pl.col("name").cast(pl.String).str.contains("(?i)splitk"))
        same = named if not named.is_empty() else same
    return same["at"].to_list()


def _split(total: int, weights: list[int]) -> list[int]:
    """`total` in whole parts proportional to `weights`, adding up exactly."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    for index in range(total - sum(parts)):
        parts[index % len(parts)] += 1
    return parts
