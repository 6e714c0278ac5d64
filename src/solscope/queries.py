"""Queries of Polars on tables that are in memory already."""

from __future__ import annotations

import polars as pl


def collect(query: pl.LazyFrame) -> pl.DataFrame:
    """The result of a query, by the engine that works on whole columns.

    By itself Polars chooses the streaming engine, which cuts tables into batches for threads of its
    own. That is for what does not fit into memory; ours do, and starting it takes longer than most
    of these queries.
    """
    return query.collect(engine="in-memory")
