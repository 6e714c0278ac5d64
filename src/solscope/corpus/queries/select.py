"""Which profiles and rows a question is about, and how profiles are grouped and weighted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.runs import ranks_of, run_of
from solscope.corpus.schema import METADATA
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError

PHASE = "phase"
TAG = "tag:"
COLUMNS = (*METADATA, "hardware", "format", "rank", "world_size")
"""Columns of `profiles` by which profiles can be chosen and grouped."""
UNKNOWN = "(unknown)"
UNIFORM = "uniform"
"""The weight that counts every profile the same."""


@dataclass(frozen=True)
class Selection:
    """Profiles, sorted by id and numbered by `at`, and the store as it was when they were read."""

    profiles: pl.DataFrame
    corpus: Corpus
    phase: str | None
    """The only phase that counts; null for all."""

    @cached_property
    def run_of(self) -> npt.NDArray[np.int64]:
        """A number of each profile that the ranks of one run share."""
        return run_of(self.profiles)

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        """How many of the profiles are of the run of each one."""
        return ranks_of(self.run_of)


def select(corpus: Corpus, where: Mapping[str, str] | None = None) -> Selection:
    """Profiles and rows whose metadata, tags or phase are as `where` says."""
    wanted = dict(where or {})
    phase = wanted.pop(PHASE, None)
    now = corpus.snapshot()
    profiles = now.profiles()
    for name, value in wanted.items():
        profiles = profiles.filter(fact(profiles, name) == value)
    if profiles.is_empty():
        asked = f" with {_written(where)}" if where else ""
        raise InputError(f"{corpus.url}: no profile{asked} in this store")
    return Selection(profiles.with_row_index("at"), now, phase)


def fact(profiles: pl.DataFrame, name: str) -> pl.Series:
    """One fact about each profile as text: a column, or a tag; `(unknown)` if missing."""
    if name in COLUMNS:
        values = profiles[name].cast(pl.String)
    else:
        values = tag(profiles, name.removeprefix(TAG))
        if values.null_count() == values.len():
            raise UsageError(
                f"no profile has a tag {name.removeprefix(TAG)!r}; besides tags, there are: "
                f"{', '.join((*COLUMNS, PHASE))}"
            )
    return values.fill_null(UNKNOWN).alias(name)


def tag(profiles: pl.DataFrame, name: str) -> pl.Series:
    """The value of one tag for each profile; null where it has none."""
    values = {
        text: msgspec.json.decode(text, type=dict[str, str]).get(name)
        for text in profiles["tags"].unique().to_list()
    }
    return pl.Series(name, [values[text] for text in profiles["tags"]], dtype=pl.String)


def weights(selection: Selection, weight: str) -> npt.NDArray[np.float64]:
    """How much each profile counts: the same, by its GPU time, or by a number in a tag.

    Ranks of a run count as one profile; GPU time is that of all of them.
    """
    profiles = selection.profiles
    if weight == UNIFORM:
        return 1.0 / selection.ranks
    if weight == "gpu-time":
        return profiles["gpu_ns"].to_numpy().astype(np.float64)
    if not weight.startswith(TAG):
        raise UsageError(f"weight must be uniform, gpu-time or tag:NAME, not {weight!r}")
    name = weight.removeprefix(TAG)
    values = tag(profiles, name)
    numbers = values.cast(pl.Float64, strict=False)
    wrong = numbers.is_null() | ~numbers.is_finite().fill_null(False) | (numbers < 0)
    if wrong.any():
        first = profiles.filter(wrong)["file"][0]
        raise InputError(
            f"{int(wrong.sum())} of {profiles.height} profiles have no number as tag {name!r} "
            f"(the first is {first}); remove them and add them again with --tag {name}=NUMBER, "
            "or leave them out with --where"
        )
    weights_of = numbers.to_numpy()
    if not weights_of.sum() > 0:
        raise InputError(f"tag {name!r} is 0 for every profile")
    return weights_of / selection.ranks


def _written(where: Mapping[str, str] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (where or {}).items())
