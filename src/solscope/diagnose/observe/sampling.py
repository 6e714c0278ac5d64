"""Sensor samples of a run, cut to the time of its steps, each sample once."""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.intervals import Int64s
from solscope.readers.metric_kinds import metric_kind
from solscope.readers.packed import CLOCK_NS, Counter

MOST_SAMPLES = 400
"""Samples kept of a sensor; of more, evenly spaced ones."""


def cut_samples(
    metrics: pl.DataFrame, start_unix_ns: int, span_ns: int
) -> tuple[list[list[int]], list[Counter]]:
    """Clocks and counters: samples from `start_unix_ns` on, for `span_ns`.

    A repeated row, as in files joined by hand, is one sample.
    """
    within = pl.col("t_ns").is_between(start_unix_ns, start_unix_ns + span_ns)
    inside = metrics.filter(within).unique(maintain_order=True).sort("t_ns", maintain_order=True)
    clocks: dict[tuple[int, ...], int] = {}
    counters = []
    groups = inside.with_columns(pl.col("metric").cast(pl.String)).partition_by(
        ["metric", "device"], as_dict=True
    )
    for (metric, device), samples in sorted(groups.items(), key=lambda item: repr(item[0])):
        assert isinstance(metric, str)
        assert device is None or isinstance(device, int)
        keep = _spaced(samples.height)
        ticks = (samples["t_ns"].to_numpy()[keep] - start_unix_ns) // CLOCK_NS
        clock = clocks.setdefault(tuple(ticks.tolist()), len(clocks))
        values = samples["value"].to_numpy()[keep]
        cumulative = metric_kind(metric).counter
        if cumulative:
            values = values - values[0]
        counters.append(
            Counter(metric, device, cumulative, clock, _compact(values), int(keep.size))
        )
    return [list(clock) for clock in clocks], counters


def _spaced(size: int) -> Int64s:
    if size <= MOST_SAMPLES:
        return np.arange(size)
    return np.unique(np.linspace(0, size - 1, MOST_SAMPLES).round().astype(np.int64))


def _compact(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """One value for a constant; whole numbers without decimals, others with six digits."""
    if (values == values[0]).all():
        values = values[:1]
    return [int(v) if v == int(v) else float(f"{v:.6g}") for v in values.tolist()]
