"""Whether the host lacks a core in one run: what the scheduler counted, without another run."""

from __future__ import annotations

from solscope.diagnose.changes.counters import by_key, series
from solscope.diagnose.changes.decompose import family_of
from solscope.diagnose.thresholds import Thresholds
from solscope.intervals import Int64s
from solscope.readers.packed import Observations
from solscope.views.core_wait import EXPLAINS, LEAST_SAMPLES, MOST_OF_TIME

NOT_THE_HOST = ("launch_wait", "unlinked")
"""Idle time in which the GPU does not wait for the host, or nobody knows."""


def lacks_core_pct(run: Observations, rows: Int64s, limits: Thresholds) -> float | None:
    """Percent of the recording in which the main thread was ready to run and had no core.

    Null where that was not sampled, or the GPU does not wait for the host in these steps (indices
    `rows`), or waits mostly for something else: as `show` has it (`views/core_wait.py`).
    """
    counters = by_key(run)
    found = [series(run, counters.get((name, None))) for name in ("runq_ns", "oncpu_ns")]
    waits, runs = (counted.overall for counted in found)
    if waits is None or runs is None or min(counted.samples for counted in found) < LEAST_SAMPLES:
        return None
    wall = sum(run.steps[row].wall_ns for row in rows.tolist())
    waiting = sum(
        tile.ns[row]
        for tile in run.tiles
        if tile.kind == "idle" and family_of((tile.kind, tile.name)) not in NOT_THE_HOST
        for row in rows.tolist()
    )
    host_bound = waiting >= limits.host_bound * wall > 0
    explained = waits / 100 * wall >= EXPLAINS * waiting
    return waits if host_bound and explained and waits + runs <= 100 * MOST_OF_TIME else None
