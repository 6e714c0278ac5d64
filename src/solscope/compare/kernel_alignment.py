"""The kernels of two steps, aligned in order.

Two runs of one program launch the same kernels in the same order, whatever their names. A global
alignment (Needleman-Wunsch) of two steps pairs them, with gaps where one has more:

    before  norm  gemm_a  silu  gemm_b  add
    after   norm  gemm_c  -     gemm_b  add     gemm_a -> gemm_c: between the same neighbors
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from solscope.intervals import Int64s

MAX_KERNELS = 6000
"""Longer steps are not aligned: the table has a cell for each pair of kernels."""
SCORES = {"name": 4, "family": 3, "launched_by": 3, "launch": 2, "category": 1}
"""What agreement in a property is worth; the strongest that two kernels agree in counts."""
_WEAKEST_FIRST = sorted(SCORES, key=SCORES.__getitem__)
MISMATCH = -1
"""A pair that agrees in nothing: better than two gaps, so that a renamed kernel keeps its place."""
OTHER_KIND = -4
"""A kernel and a copy are never the same work: worse than two gaps."""
GAP = -1
SURE = 2
"""Score from which a pair is the same work by more than its position."""


class Pairs(NamedTuple):
    """Positions that belong together, in order."""

    first: Int64s
    second: Int64s
    score: Int64s

    @property
    def sure(self) -> npt.NDArray[np.bool_]:
        """Pairs that agree in more than their position."""
        return self.score >= SURE

    @property
    def one_for_one(self) -> npt.NDArray[np.bool_]:
        """Pairs between two sure ones without a gap: as many kernels before as after.

        Where kernels were fused or split, position alone does not say which is which.
        """
        edges = np.stack([self.first, self.second])[:, self.sure]
        start, end = np.array([[-1], [-1]]), np.array([[MAX_KERNELS], [MAX_KERNELS * 2]])
        edges = np.concatenate([start, edges, end], axis=1)
        following = np.searchsorted(edges[0], self.first, side="right")
        lengths = edges[:, following] - edges[:, following - 1]
        even: npt.NDArray[np.bool_] = lengths[0] == lengths[1]
        return even


def align(first: Mapping[str, Int64s], second: Mapping[str, Int64s]) -> Pairs | None:
    """Pair two sequences; null when one is empty or too long.

    A sequence has an array for `kind` and for each key of `SCORES`, with numbers that are equal
    where the property is, and negative where it is not known.
    """
    sizes = (first["kind"].size, second["kind"].size)
    if min(sizes) == 0 or max(sizes) > MAX_KERNELS:
        return None
    steps = _steps(first, second)
    pairs: list[tuple[int, int]] = []
    row, column = sizes
    while row and column:
        step = steps[row - 1, column - 1]
        if step == 0:
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif step == 1:
            row -= 1
        else:
            column -= 1
    table = np.array(pairs[::-1], np.int64).reshape(-1, 2)
    own = {name: values[table[:, 0]] for name, values in first.items()}
    other = {name: values[table[:, 1]] for name, values in second.items()}
    return Pairs(table[:, 0], table[:, 1], _scores(own, other))


def _steps(first: Mapping[str, Int64s], second: Mapping[str, Int64s]) -> np.ndarray:
    """How the best alignment of two prefixes ends: 0 with a pair, 1 and 2 with a gap."""
    rows, columns = first["kind"].size, second["kind"].size
    steps = np.empty((rows, columns), np.uint8)
    ramp = GAP * np.arange(columns + 1, dtype=np.int64)
    best = ramp.copy()
    for row in range(rows):
        paired = best[:-1] + _scores({name: first[name][row] for name in first}, second)
        above = best[1:] + GAP
        open_ = np.concatenate([[best[0] + GAP], np.maximum(paired, above)])
        # A gap in the first sequence can have any length: the best start of it so far.
        along = np.maximum.accumulate(open_ - ramp) + ramp
        steps[row] = np.where(along[1:] > open_[1:], 2, np.where(paired >= above, 0, 1))
        best = along
    return steps


def _scores(own: Mapping[str, Any], other: Mapping[str, Int64s]) -> Int64s:
    """What pairing kernels is worth: one with each of the others, or each with its counterpart."""
    score = np.full(other["kind"].size, MISMATCH, np.int64)
    for name in _WEAKEST_FIRST:
        score[(other[name] == own[name]) & (other[name] >= 0)] = SCORES[name]
    score[other["kind"] != own["kind"]] = OTHER_KIND
    return score


def numbered(columns: Sequence[Sequence[object]]) -> list[Int64s]:
    """Equal numbers for equal values over several sequences, -1 for null."""
    seen: dict[object, int] = {}
    return [
        np.array([-1 if v is None else seen.setdefault(v, len(seen)) for v in column], np.int64)
        for column in columns
    ]
