"""Use of the KV cache, where the engine's own metric was sampled along with the recording.

An engine takes one block of GPU memory for the cache when it starts, so events of the allocator do
not show how much of it is in use. vLLM and SGLang publish that share, from 0 to 1.
"""

from __future__ import annotations

import re

import msgspec
import polars as pl

from solscope.attribution import Attributed

USAGE = re.compile(r"(?:^|[:_])(?:(?:kv|gpu)_cache_usage(?:_perc)?|token_usage)$")
"""`vllm:kv_cache_usage_perc`, formerly `vllm:gpu_cache_usage_perc`, and `sglang:token_usage`."""


class KvCacheUse(msgspec.Struct, frozen=True):
    """Share of the KV cache in use during the recording."""

    metric: str
    samples: int
    mean_pct: float
    peak_pct: float


def kv_cache_use(attributed: Attributed) -> KvCacheUse | None:
    """From samples during the recording; null where there are none, or they are not shares."""
    profile = attributed.profile
    timed = attributed.activities.filter(pl.col("start_ns").is_not_null())
    offset = profile.metadata.unix_offset_ns
    if profile.metrics is None or offset is None or timed.is_empty():
        return None
    names = [
        n for n in profile.metrics["metric"].cast(pl.String).unique().sort() if USAGE.search(n)
    ]
    if not names:
        return None
    start = timed["start_ns"].min()
    end = (timed["start_ns"] + timed["dur_ns"].fill_null(0)).max()
    values = profile.metrics.filter(
        (pl.col("metric").cast(pl.String) == names[0])
        & (pl.col("t_ns") - offset).is_between(start, end)
        & pl.col("value").is_finite()
    )["value"].to_list()
    if not values or not 0 <= min(values) <= max(values) <= 1:
        return None
    return KvCacheUse(names[0], len(values), 100 * sum(values) / len(values), 100 * max(values))
