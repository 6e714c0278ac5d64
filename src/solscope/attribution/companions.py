"""Companion profiles: which files they are, and why they gave nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from solscope.attribution import Attributed, lenders
from solscope.attribution.borrow import all_nodes, with_replays
from solscope.attribution.capture_matching import match_captures
from solscope.attribution.replays import refusals, replays
from solscope.patterns import lazy_pattern
from solscope.profile import Profile, is_saved_profile
from solscope.readers import find_profiles

CAPTURE_FOLDER = "capture_traces"
"""Where vLLM and SGLang write recordings of their graph captures, beside the profiles."""
_RANK = lazy_pattern(r"rank_?(\d{1,7})(?!\d)")


def captures_beside(path: str) -> Path | None:
    """The folder with recordings of graph captures beside a profile, if there is one."""
    folder = Path(path).parent / CAPTURE_FOLDER
    try:
        return folder if folder.is_dir() and any(folder.iterdir()) else None
    except OSError:
        return None


def companion_files(given: str | os.PathLike[str], rank: int | None) -> list[str]:
    """The profiles that `given` means: a file, or a folder of captures, of one rank if they say."""
    path = Path(given)
    if not path.is_dir() or is_saved_profile(path):
        return [os.fspath(given)]
    files = find_profiles([given])
    ranks = [_RANK.search(Path(file).name) for file in files]
    same = [f for f, m in zip(files, ranks, strict=True) if m is not None and int(m[1]) == rank]
    return same or files


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
