"""Time that the profiler itself takes from the program it records.

CUPTI reports it as *overhead*, and with it time that the CUDA driver takes whether a profiler runs
or not: compiling and loading code, and waiting for room in the launch queue. Nsight Systems labels
the first kind "(Profiler)" and the second "(CUDA)"; only the first is counted here.
"""

from __future__ import annotations

import polars as pl

from solscope.intervals import Intervals, union
from solscope.once import once
from solscope.queries import collect

OF_THE_DRIVER = ("compiler", "module loading", "function loading", "command buffer full")
"""Kinds of `CUpti_ActivityOverheadKind` that a program has without a profiler too, as named by
Kineto and Nsight Systems."""


@once
def profiler_time(events: pl.DataFrame) -> Intervals:
    """When the profiler was at work, as disjoint intervals."""
    name = pl.col("name").cast(pl.String).str.to_lowercase()
    of_the_driver = pl.any_horizontal(name.str.contains(k, literal=True) for k in OF_THE_DRIVER)
    own = collect(
        events.lazy()
        .filter(
            (pl.col("kind") == "overhead")
            & pl.col("dur_ns").is_not_null()
            & pl.col("start_ns").is_not_null()
        )
        .filter(~of_the_driver.fill_null(value=False))
        .select("start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    )
    return union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
