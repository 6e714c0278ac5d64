"""Which profiles of a store are the ranks of one run: together they count once.

A store has one row per file. Ranks of a run are files of one folder with the same world size and
the same facts about the program, recorded within `TOGETHER_NS` of the first, each rank once. Their
names differ only in what tells ranks apart: `rank0` and `rank1` do, `bs1` and `bs64` do not. A rank
that comes again begins another run, as where a job writes the same names every night.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

TOGETHER_NS = 600 * 10**9
"""Ranks that begin later than this after the first of a run are another run."""
_RANK_PARTS = (
    # Host, process and time, as torch's handler for TensorBoard names traces.
    (r"^[\w.-]*?_\d+\.\d{10,}(\.pt\.trace\.)", "#${1}"),
    # Times since 1970, in seconds or less: each rank may have its own.
    (r"\d{10,}(\.\d+)?", "#"),
    (r"(?i)(^|[^a-z])(rank|node|pid|tp|dp|pp|ep|cp|dcp)[-_.]?\d+", "${1}${2}#"),
)
"""What differs between the names of the ranks of one run."""
_SAME = ("folder", "stem", "world_size", "format", "model", "framework", "version", "gpu")


def run_of(profiles: pl.DataFrame) -> npt.NDArray[np.int64]:
    """A number for each profile that the ranks of one run share."""
    runs = np.arange(profiles.height)
    rows = profiles.with_row_index("place").filter(
        pl.col("rank").is_not_null() & (pl.col("world_size") > 1)
    )
    folder = pl.col("file").str.extract(r"^(.*[/\\])", 1).fill_null("")
    rows = rows.with_columns(
        folder.str.replace_all(r"(?i)rank[-_.]?\d+", "rank#").alias("folder"), stem=_stem()
    ).sort(*_SAME, "recorded_ns", "rank", "id", nulls_last=True)
    before: tuple[object, ...] = ()
    seen: set[int] = set()
    first, first_ns = 0, 0
    for *same, recorded, rank, place in rows.select(
        *_SAME, "recorded_ns", "rank", "place"
    ).iter_rows():
        late = recorded is not None and recorded - first_ns > TOGETHER_NS
        if tuple(same) != before or rank in seen or late:
            before, seen, first = tuple(same), set(), place
            first_ns = recorded or 0
        runs[place] = first
        seen.add(rank)
    return runs


def _stem() -> pl.Expr:
    """The name of a file without what tells the ranks of its run apart.

    Where no part says what it counts (`trace_3.json`), the last number does if it is the rank that
    the recording states.
    """
    name = pl.col("file").str.extract(r"([^/\\]*)$", 1)
    stem = name
    for pattern, blank in _RANK_PARTS:
        stem = stem.str.replace_all(pattern, blank)
    last = name.str.extract(r"(\d{1,9})\D*$", 1).cast(pl.Int64)
    unnamed = name.str.replace(r"\d+(\D*)$", "#${1}")
    return pl.when((stem == name) & (last == pl.col("rank"))).then(unnamed).otherwise(stem)


def ranks_of(runs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many profiles share the number of each one in `run_of`; 1 for a profile of its own."""
    return np.bincount(runs, minlength=runs.size)[runs]


def by_run(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per run: of its lowest rank, with the mean `value`, and how many `ranks` it has."""
    together = rows.with_columns(pl.Series("run", run_of(rows))).sort("rank", nulls_last=True)
    mean, ranks = pl.col("value").mean(), pl.len().alias("ranks")
    others = pl.exclude("run", "value").first()
    return together.group_by("run", maintain_order=True).agg(others, mean, ranks).drop("run")
