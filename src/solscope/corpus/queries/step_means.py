"""The mean step of every profile of a store, by phase: what is normal, for a diagnosis."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from solscope.corpus.store import Corpus


class StepMeans(NamedTuple):
    """One profile."""

    file: str
    phases: dict[str | None, tuple[int, float]]
    """Whole steps of each phase, and their mean time from first start to last end, ms."""


def step_means(corpus: Corpus) -> list[StepMeans]:
    """Profiles with whole steps, in order of their files; of several processes the first counts."""
    whole = ~pl.col("cut") & pl.col("dur_ns").is_not_null() & (pl.col("process") == 0)
    files = corpus.profiles().lazy().select("entry", "file")
    rows = (
        corpus.raw("steps")
        .filter(whole)
        .join(files, on="entry")
        .group_by("file", "entry", "phase")
        .agg(pl.len().alias("steps"), (pl.col("dur_ns").mean() / 1e6).alias("mean_ms"))
        .sort("file", "entry", "phase")
        .collect()
    )
    by_entry: dict[str, StepMeans] = {}
    for file, entry, phase, steps, mean_ms in rows.iter_rows():
        by_entry.setdefault(entry, StepMeans(file, {})).phases[phase] = (steps, mean_ms)
    return list(by_entry.values())
