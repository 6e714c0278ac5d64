"""Which profiles and rows a question is about, and how profiles are grouped and weighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.schema import METADATA
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError

PHASE = "phase"
TAG = "tag:"
COLUMNS = (*METADATA, "hardware", "format", "rank", "world_size")
"""Columns of `profiles` by which profiles can be chosen and grouped."""
UNKNOWN = "(unknown)"


@dataclass(frozen=True)
class Selection:
    """Profiles, sorted by id, and their rows of `times` with the number of the profile, `at`."""

    profiles: pl.DataFrame
    times: pl.LazyFrame


def select(corpus: Corpus, where: Mapping[str, str] | None = None) -> Selection:
    """Profiles and rows whose metadata, tags or phase are as `where` says."""
    wanted = dict(where or {})
    phase = wanted.pop(PHASE, None)
    profiles = corpus.profiles()
    for name, value in wanted.items():
        profiles = profiles.filter(fact(profiles, name) == value)
    if profiles.is_empty():
        asked = f" with {_written(where)}" if where else ""
        raise InputError(f"{corpus.url}: no profile{asked} in this store")
    profiles = profiles.with_row_index("at")
    times = corpus.raw("times").join(profiles.lazy().select("entry", "at"), on="entry")
    if phase is not None:
        times = times.filter(pl.col(PHASE).fill_null(UNKNOWN) == phase)
    return Selection(profiles, times)


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
    known = {
        text: msgspec.json.decode(text, type=dict[str, str]).get(name)
        for text in profiles["tags"].unique().to_list()
    }
    return pl.Series(name, [known[text] for text in profiles["tags"]], dtype=pl.String)


def weights(profiles: pl.DataFrame, weight: str) -> npt.NDArray[np.float64]:
    """How much each profile counts: the same, by its GPU time, or by a number in a tag."""
    if weight == "uniform":
        return np.ones(profiles.height)
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
    return weights_of


def groups(selection: Selection, names: Sequence[str]) -> pl.LazyFrame:
    """The rows of `times` with one column per name in `names`."""
    facts = selection.profiles.select(
        "at", *(fact(selection.profiles, name) for name in names if name != PHASE)
    )
    rows = selection.times.with_columns(pl.col(PHASE).fill_null(UNKNOWN))
    return (
        rows
        if names in ([], [PHASE])
        else rows.drop([name for name in facts.columns if name != "at"], strict=False).join(
            facts.lazy(), on="at"
        )
    )


def _written(where: Mapping[str, str] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (where or {}).items())
