"""Samples of sensors on the clock of the events."""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.profile import Profile
from solscope.views.lanes.base import Sensor

MOST_SAMPLES = 2_000
"""Samples of one sensor; of more, the lowest and the highest of each stretch."""


def sensors(profile: Profile, origin_ns: int, span_ns: int) -> tuple[list[Sensor], int]:
    """Sensors that change during the profile, and how many others there are."""
    offset = profile.metadata.unix_offset_ns
    if profile.metrics is None or offset is None:
        return [], 0
    time_ns = pl.col("t_ns") - (offset + origin_ns)
    inside = profile.metrics.select("metric", "device", "value", time_ns.alias("at")).filter(
        (pl.col("at") >= 0) & (pl.col("at") <= span_ns) & pl.col("value").is_finite()
    )
    groups = inside.sort("at").partition_by(["metric", "device"], as_dict=True, maintain_order=True)
    changing = {key: samples for key, samples in groups.items() if samples["value"].n_unique() > 1}
    order = sorted(changing, key=lambda key: (str(key[0]), -1 if key[1] is None else key[1]))
    return [_sensor(key, changing[key]) for key in order], len(groups) - len(changing)


def _sensor(key: tuple[object, ...], samples: pl.DataFrame) -> Sensor:
    name, device = key
    assert device is None or isinstance(device, int)
    times, values = samples["at"].to_numpy(), samples["value"].to_numpy()
    if times.size > MOST_SAMPLES:
        parts = np.array_split(np.arange(times.size), MOST_SAMPLES // 2)
        ends = [chunk[[values[chunk].argmin(), values[chunk].argmax()]] for chunk in parts]
        kept = np.unique(np.concatenate(ends))
        times, values = times[kept], values[kept]
    return Sensor(
        str(name),
        device,
        float(values.min()),
        float(values.max()),
        times.tolist(),
        values.tolist(),
    )
