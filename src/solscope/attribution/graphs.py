"""Which activities were replayed from a CUDA or HIP graph."""

from __future__ import annotations

import polars as pl

from solscope.arrays import holds, take
from solscope.once import once

GRAPH_CALL = r"(?i)^(cu|cuda|hip)GraphLaunch"
"""Names of calls that launch a graph."""


@once
def graph_calls(events: pl.DataFrame) -> pl.Series:
    """Whether each event is a call that launches a graph; null without a name."""
    return _launch_graphs(events["name"])


def launched_by_graph(events: pl.DataFrame, launch_row: pl.Series) -> pl.Series:
    """Whether each of these launches is such a call; false where the launch is not known."""
    return _launch_graphs(take(events["name"], launch_row)).fill_null(False)


def _launch_graphs(names: pl.Series) -> pl.Series:
    return holds(names, lambda texts: texts.str.contains(GRAPH_CALL))


def replayed(events: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """Whether a graph launched each activity, it is a node of one, or it is a whole graph.

    `activities` have `kind`, `launch_row` and `graph_node`.
    """
    launched = launched_by_graph(events, activities["launch_row"])
    # Writers put 0 where there is no node.
    node = activities["graph_node"].fill_null(0) != 0
    return (launched | node | (activities["kind"] == "graph")).alias("replayed")
