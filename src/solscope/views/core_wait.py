"""How long the main thread was ready to run and had no core: what the host waited for itself."""

from __future__ import annotations

import polars as pl

from solscope.attribution import Attributed

LEAST_SAMPLES = 3
"""Of a counter within the recording; fewer say little about it."""
EXPLAINS = 0.6
"""Share of the time that a GPU waits for the host, from which on a missing core is the reason."""
MOST_OF_TIME = 1.1
"""A thread cannot run and wait for more than the time that passes, save for what sampling blurs:
counters that do are sums over several threads. Sums that stay below are not noticed."""


def core_wait_pct(attributed: Attributed) -> float | None:
    """Share of the recording, from `runq_ns`; null if not sampled, or not of one thread."""
    profile = attributed.profile
    timed = attributed.activities.filter(pl.col("start_ns").is_not_null())
    offset = profile.metadata.unix_offset_ns
    if profile.metrics is None or offset is None or timed.is_empty():
        return None
    start = timed["start_ns"].min()
    end = (timed["start_ns"] + timed["dur_ns"].fill_null(0)).max()
    during = profile.metrics.filter(
        (pl.col("t_ns") - offset).is_between(start, end) & pl.col("value").is_finite()
    )
    waits, runs = (_share(during, name) for name in ("runq_ns", "oncpu_ns"))
    if waits is None or runs is None or waits + runs > MOST_OF_TIME:
        return None
    return 100 * waits


def lacks_core_pct(attributed: Attributed, wall: float, waiting: float) -> float | None:
    """The same where it explains most of the `waiting` for the host within `wall`; else null."""
    share = core_wait_pct(attributed)
    explains = share is not None and waiting > 0 and share / 100 * wall >= EXPLAINS * waiting
    return share if explains else None


def _share(metrics: pl.DataFrame, name: str) -> float | None:
    """Growth of a counter of ns over the time between its first and its last sample."""
    samples = metrics.filter(pl.col("metric").cast(pl.String) == name).sort("t_ns")
    if samples.height < LEAST_SAMPLES:
        return None
    passed = samples["t_ns"][-1] - samples["t_ns"][0]
    grown = samples["value"][-1] - samples["value"][0]
    return grown / passed if passed > 0 and grown >= 0 else None
