"""Why companion profiles gave nothing."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.borrow import all_nodes, with_replays
from solscope.attribution.capture_matching import match_captures
from solscope.attribution.replays import refusals, replays
from solscope.attribution.stages import lenders
from solscope.profile import Profile


def unmatched(attributed: Attributed, companions: Iterable[Profile]) -> list[str]:
    """Why kernels took nothing from companions, one reason each; empty where all did.

    `companions` are opened only if something is missing.
    """
    rows = attributed.activities
    own = with_replays(attributed.profile.events, rows, attributed.steps)
    lacking = own.filter("replayed") if own["replayed"].any() else own
    lent = (lacking["borrowed_by"] == "companion").fill_null(value=False)
    if lent.all() and not lacking["dims_borrowed"].null_count():
        return []
    if not own["replayed"].any():
        complete = not rows["op_row"].null_count()
        return [
            "all its kernels have operators of their own" if complete else "it replays no graph"
        ]
    lending = lenders(list(companions), attributed.rules)
    nodes = all_nodes(lending)
    if nodes.height:
        matches = match_captures(own, nodes)
        refused, several = matches.refused, matches.several_batches
    else:
        refused = refusals(own, pl.concat([_order(each.activities) for each in lending]))
        several = []
    count = replays(own).height
    return [f"{r.replays:,} of {count:,} replays: {r.reason}" for r in (*refused, *several)]


def _order(activities: pl.DataFrame) -> pl.DataFrame:
    return activities.select("rank", "device", "start_ns", pl.col("name").cast(pl.String))
