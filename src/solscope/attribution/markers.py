"""Kernels that mark runs through the model, where no annotation does.

A sampler ends a pass, an embedding begins one. Other kernels of these categories occur inside
layers (the gathers of a mixture of experts). What marks passes has the same number of mixers
between any two marks, two or more; of several such marks, the one with most mixers between them
holds a whole pass. Gathers of every second layer have that as well, but a token is chosen after all
mixers of its pass, and not after those of half a layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.intervals import Int64s

MIN_PASSES = 2
_MIXERS = ("attention", "linear_attention")
_BACK = "DtoH"
"""Copies of sampled tokens to the host belong to the pass that made them."""


class _Marks(NamedTuple):
    starts: Int64s
    """When each pass begins on the GPU."""
    mixers: int
    """Mixers in each pass."""


def marked_passes(activities: pl.DataFrame) -> Int64s:
    """When each pass begins; empty when nothing marks them."""
    ordered = activities.filter(pl.col("start_ns").is_not_null()).sort("start_ns")
    ordered = ordered.select("name", "category", "start_ns").with_row_index("at")
    for mixers in _mixers(ordered):
        regular = [
            marks
            for category, ends in (("sampling", True), ("embedding", False))
            for candidates in _candidates(ordered, category)
            if (marks := _regular(ordered, mixers, candidates, ends=ends)) is not None
        ]
        if regular:
            return max(regular, key=lambda marks: marks.mixers).starts
    return np.empty(0, np.int64)


def holds_passes(activities: pl.DataFrame, launched: pl.Series, starts: Int64s) -> bool:
    """False when ranges that begin at `starts` hold one mixer each, or less: parts of a pass."""
    mixers = activities["category"].is_in(_MIXERS)
    times = launched.filter(mixers).drop_nulls().sort().to_numpy()
    if starts.size < 3 or times.size < 2 * MIN_PASSES:
        return True
    inside = np.diff(np.searchsorted(times, starts))
    return bool(np.median(inside[inside > 0]) >= 2) if (inside > 0).any() else True


def _mixers(ordered: pl.DataFrame) -> list[Int64s]:
    """Positions of mixers, the surest first.

    Linear attention written out has no kernel of its own but its short convolution; attention
    written out has only its softmax.
    """
    choices = (_MIXERS, (*_MIXERS, "conv"), ("softmax",))
    positions = [ordered.filter(pl.col("category").is_in(names))["at"] for names in choices]
    return [rows.cast(pl.Int64).to_numpy() for rows in positions if not rows.is_empty()]


def _candidates(ordered: pl.DataFrame, category: str) -> list[Int64s]:
    """Positions of all kernels of a category, and of each name among them."""
    of_category = ordered.filter(pl.col("category") == category)
    groups = [of_category, *of_category.partition_by("name", maintain_order=True)]
    return [group["at"].cast(pl.Int64).to_numpy() for group in groups if group.height > 1]


def _regular(ordered: pl.DataFrame, mixers: Int64s, marks: Int64s, *, ends: bool) -> _Marks | None:
    """Passes from marks that have the same number of mixers between any two, two at least."""
    before = np.searchsorted(mixers, marks)
    # Marks with no mixer between them are one.
    fresh = np.flatnonzero(np.diff(before, prepend=-1))
    counts = np.diff(before[fresh])
    if counts.size < MIN_PASSES - 1 or not counts.size or counts.min() != counts.max():
        return None
    each = int(counts[0])
    if each < 2 or int(before[0]) > each or mixers.size - int(before[-1]) > each:
        return None
    if not ends:
        if _chosen_early(ordered, mixers, marks[fresh], each):
            return None
        return _Marks(_times(ordered, marks[fresh]), each)
    last = np.append(fresh[1:], marks.size) - 1
    after = [_next(ordered, int(mark)) for mark in marks[last]]
    whole = [0] if int(before[0]) == each else []
    opened = [mark for mark, done in zip(after, before[last], strict=True) if done < mixers.size]
    return _Marks(_times(ordered, np.array([*whole, *opened], np.int64)), each)


def _chosen_early(ordered: pl.DataFrame, mixers: Int64s, starts: Int64s, each: int) -> bool:
    """Whether a token is chosen after fewer mixers than a pass has that would begin at `starts`.

    What runs more often than passes do chooses experts, or is one of several kernels of a sampler.
    """
    sampling = ordered.filter(pl.col("category") == "sampling")
    seldom = sampling.filter(pl.len().over("name") <= starts.size)["at"].cast(pl.Int64).to_numpy()
    inside = np.searchsorted(starts, seldom, side="right") - 1
    seldom, begun = seldom[inside >= 0], starts[inside[inside >= 0]]
    mixed = np.searchsorted(mixers, seldom) - np.searchsorted(mixers, begun)
    return bool((mixed < each).any())


def _next(ordered: pl.DataFrame, position: int) -> int:
    """The position after a mark and the copies of its result to the host."""
    names, categories = ordered["name"], ordered["category"]
    position += 1
    while (
        position < ordered.height
        and categories[position] == "memcpy"
        and _BACK in str(names[position])
    ):
        position += 1
    return min(position, ordered.height - 1)


def _times(ordered: pl.DataFrame, positions: Int64s) -> Int64s:
    return ordered["start_ns"].gather(positions).to_numpy()
