"""Clocks of ranks that only send and receive: no message arrives before it was sent.

Where no collective makes all ranks wait for one another, as between the stages of a pipeline, ends
do not lie together. What holds is weaker: a receive ends after its send began, and nobody has the
data of a broadcast before its root began. Each such call limits by how much one rank's clock can be
ahead of another's, chains of calls limit ranks that never talk to each other, and traffic in both
directions limits it from both sides. Recorded clocks that contradict no call are taken as they are,
with an error as wide as the limits; where they contradict one, the middle between the limits is
taken.

An example, in microseconds: rank 1 ends its receive 250 after rank 0 began to send, by their
recorded clocks, at best; rank 0 ends a broadcast 90 after rank 1, the root, began it. So rank 1's
clock is at most 250 ahead of rank 0's, and at most 90 behind. Zero lies between: the recorded
clocks may be right, and are wrong by no more than 250.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solscope.ranks.kinds import SYNCHRONIZING
from solscope.ranks.match import Matched
from solscope.run import Run

Floats = NDArray[np.float64]

LEAST_MESSAGES = 5
"""Fewer calls between two ranks limit nothing: one of them may be matched wrongly."""
ODD = 0.02
"""Share of calls that may contradict the others: rounding, and clocks that jump."""


@dataclass(frozen=True)
class Limits:
    """Clocks against that of the first rank, ns."""

    offset: Floats
    """What to subtract from a rank's times."""
    error: Floats
    """How wrong that may be."""
    recorded: bool
    """Whether the recorded clocks contradict no call."""


def limits(run: Run, matched: Matched, start: Floats, end: Floats) -> Limits | None:
    """Offsets that the order of causes and effects allows; null when they are not limited."""
    ahead = _at_most(run, matched, start, end)
    count = ahead.shape[0]
    for by in range(count):
        ahead = np.minimum(ahead, ahead[:, [by]] + ahead[[by], :])
    high, low = ahead[0], -ahead[:, 0]
    if not np.isfinite(ahead).all() or (np.diag(ahead) < 0).any() or (low > high).any():
        return None
    recorded = bool((ahead >= 0).all())
    offset = np.zeros(count) if recorded else (low + high) / 2
    return Limits(offset, np.maximum(high - offset, offset - low), recorded)


def _at_most(run: Run, matched: Matched, start: Floats, end: Floats) -> Floats:
    """How far each rank's clock (column) can be ahead of each other's (row), by direct calls."""
    count = len(run.ranks)
    ahead = np.full((count, count), np.inf)
    np.fill_diagonal(ahead, 0.0)
    causes = _causes(run, matched)
    for cause in range(count):
        for effect in range(count):
            if cause == effect:
                continue
            apart = (end[:, effect] - start[:, cause])[causes[:, cause]]
            differences = np.sort(apart[~np.isnan(apart)])
            if differences.size >= LEAST_MESSAGES:
                ahead[cause, effect] = differences[int(ODD * differences.size)]
    return ahead


def _causes(run: Run, matched: Matched) -> NDArray[np.bool_]:
    """By collective and rank: whether the others cannot end before this rank began."""
    causes = np.zeros(matched.index.shape, bool)
    synchronizing = matched.table["kind"].is_in(list(SYNCHRONIZING)).to_numpy()
    for rank_index, rank in enumerate(run.ranks):
        has_call = matched.index[:, rank_index] >= 0
        calls = rank.calls[matched.index[has_call, rank_index]]
        sends = (calls["kind"] == "send").to_numpy()
        roots = ((calls["kind"] == "broadcast") & (calls["peer"] == rank.rank)).fill_null(False)
        causes[has_call, rank_index] = sends | roots.to_numpy() | synchronizing[has_call]
    return causes
