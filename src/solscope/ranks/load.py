"""How the work is spread over ranks: tokens and requests, and rows that reach experts.

In expert parallelism rows of tokens travel to the ranks of their experts (dispatch) and back
(combine). An all-to-all records how many rows go to and come from each rank. Rows travel back the
way they came, so the second of two calls with exchanged sizes is the combine, and what the first
one receives is the work of the rank's experts.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from solscope.run import Rank

UNEVEN = 1.02
"""Below this, all ranks have about as much."""


class LayerLoad(msgspec.Struct, frozen=True):
    """Rows that reach the experts of one layer."""

    layer: int
    tokens: list[float | None]
    """Rows received per step, by rank."""
    max_over_mean: float
    rank: int
    """The rank with most."""


class Imbalance(msgspec.Struct, frozen=True):
    """How uneven the work is."""

    tokens_max_over_mean: float | None
    """Of the tokens of a step or of the rows that reach experts, whichever is more uneven."""
    of: str | None
    """`received_tokens` or `tokens`."""
    rank: int | None
    """The rank with most; null where all have about as much."""
    by_layer: list[LayerLoad]


def received(rank: Rank, steps: set[int], shift: int) -> pl.DataFrame:
    """Rows that reach this rank's experts, by `step` and `layer`, in steps of the run."""
    calls = rank.calls.filter(pl.col("received_rows").is_not_null()).with_columns(
        pl.col("step") + shift
    )
    same_way = pl.col("sent_rows").shift(1).over("step", "group")
    returns = (pl.col("received_rows") == same_way) & (
        pl.col("sent_rows") == pl.col("received_rows").shift(1).over("step", "group")
    )
    table = calls.with_columns(returns.fill_null(False).alias("returns"))
    # A call after a combine begins anew, whatever its sizes.
    flags = table["returns"].to_list()
    for index in range(1, len(flags)):
        if flags[index] and flags[index - 1]:
            flags[index] = False
    return (
        table.filter(~pl.Series(flags, dtype=pl.Boolean))
        .filter(pl.col("step").is_in(sorted(steps)))
        .select("step", "layer", pl.col("received_rows").list.sum().alias("rows"))
    )


def imbalance(
    numbers: list[int],
    tokens: list[float | None],
    totals: list[float | None],
    layers: list[dict[int, float]],
) -> Imbalance:
    """Imbalance from tokens per step, rows received per step and rows by layer, all by rank."""
    by_layer = []
    for layer in sorted({layer for rows_of_rank in layers for layer in rows_of_rank}):
        rows = [rows_of_rank.get(layer) for rows_of_rank in layers]
        uneven = _uneven(numbers, rows)
        if uneven is not None:
            by_layer.append(LayerLoad(layer, rows, *uneven))
    both = {"received_tokens": _uneven(numbers, totals), "tokens": _uneven(numbers, tokens)}
    uneven_by = {name: uneven for name, uneven in both.items() if uneven is not None}
    if not uneven_by:
        return Imbalance(None, None, None, by_layer)
    of = max(uneven_by, key=lambda name: uneven_by[name][0])
    ratio, rank = uneven_by[of]
    return Imbalance(ratio, of, rank if ratio >= UNEVEN else None, by_layer)


def _uneven(numbers: list[int], values: list[float | None]) -> tuple[float, int] | None:
    positive = [(value, number) for value, number in zip(values, numbers, strict=True) if value]
    if len(positive) < 2:
        return None
    most, rank = max(positive, key=lambda pair: pair[0])
    return most / float(np.mean([value for value, _ in positive])), rank
