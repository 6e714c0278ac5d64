"""How well two ranks agree when their calls are paired: beyond chance, and how likely."""

from __future__ import annotations

import numpy as np

from solscope.ranks.offsets import TOGETHER_NS, Calls, Ints, clock_line

LEAST_SHARE = 0.5
"""Two ranks are matched when this share of the calls that both recorded end together."""
TIGHT = 0.1
"""Ends are together when they are closer than this share of the way to the next call."""
LEAST_NS = 100.0
"""Shorter differences are noise."""
LOST = 4.0
"""A call that both ranks recorded finds no partner with a chance of 1 in exp(4), about 2 %."""
LIKELY_NS = 1e6
"""Recorded clocks of hosts that are kept in time differ by about this."""


def evidence(base: Calls, other: Calls, pairs: tuple[Ints, Ints]) -> float:
    """How much the ends agree beyond chance, in standard deviations; 0 when most do not.

    At a wrong offset, an end lies anywhere between two of the other rank: close to one of them,
    on either side, with a chance of twice `TIGHT`.
    """
    mine, theirs = pairs
    if mine.size < 3:
        return 0.0
    x, y = base.end[mine], other.end[theirs] - base.end[mine]
    apart = np.abs(y - np.polyval(clock_line(x - x[0], y), x - x[0]))
    spacing = float(np.median(np.diff(base.end))) if base.end.size > 1 else TOGETHER_NS
    together = int((apart <= TIGHT * spacing).sum())
    shared = _shared(base, other, pairs)
    if together < LEAST_SHARE * shared:
        return 0.0
    chance = 2 * TIGHT
    return float((together - chance * shared) / np.sqrt(chance * (1 - chance) * shared))


def likelihood(base: Calls, other: Calls, pairs: tuple[Ints, Ints]) -> float:
    """How likely pairs are, to choose between offsets at which calls end together.

    In a regular program that is so at several: one call or one step further, ends fit again. But
    no call takes exactly as long as another, so what counts is how much closer the times between
    calls are on both ranks than those of different calls of one rank. Calls that both recorded and
    that find no partner speak against an offset, and so do recorded clocks that are far apart.
    """
    mine, theirs = pairs
    apart = float(np.median(np.abs(np.diff(base.end[mine]) - np.diff(other.end[theirs]))))
    offset = float(np.median(other.end[theirs] - base.end[mine]))
    lost = _shared(base, other, pairs) - mine.size
    return mine.size * closeness(apart, usual_difference(base)) - LOST * lost - clocks_apart(offset)


def usual_difference(base: Calls) -> float:
    """How much the times between different calls of a rank differ, in the middle."""
    gaps = np.diff(base.end)
    return float(np.median(np.abs(gaps - np.random.default_rng(7).permutation(gaps))))


def closeness(apart: float, usual: float) -> float:
    """How much closer times between calls are than those of different calls, as a logarithm."""
    return float(np.log(max(usual, LEAST_NS) / max(min(apart, usual), LEAST_NS)))


def clocks_apart(offset: float) -> float:
    """What recorded clocks that differ so much weigh against an offset."""
    return float(2 * np.log1p(abs(offset) / LIKELY_NS))


def _shared(base: Calls, other: Calls, pairs: tuple[Ints, Ints]) -> float:
    """How many calls both recorded, were the pairs right."""
    mine, theirs = pairs
    before = min(mine[0], theirs[0])
    after = min(base.row.size - 1 - mine[-1], other.row.size - 1 - theirs[-1])
    return float(min(np.ptp(mine), np.ptp(theirs)) + 1 + before + after)
