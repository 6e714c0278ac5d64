"""How long a call takes when its work changes: its own efficiency, carried over.

A kernel takes longer than its bound for two kinds of reasons. Latency (launch, first loads, last
blocks, dependent steps) stays when the work grows; inefficiency (layout, instruction mix, banks)
grows with it. One recording cannot separate them, but size can: what a kernel of a few µs loses is
mostly latency, what one of hundreds of µs loses is mostly inefficiency. So, with the bound b before
and b' after, all memory from HBM and without the launch floor,

    t' = w t b'/b + (1 - w) (max(t - b/A, floor) + b'/A),   w = b / (b + LATENCY)

where A is the share of the bound that large kernels reach. A and the middle `LATENCY` were chosen
from what GPUs of this class do and are fitted to no recording. The interval takes `LATENCY` so
small that nearly all of the loss grows, and so large that nearly none does; how small and how large
was set on the recordings of batch and context that docs/explain/what-if.md scores, as were
`NOISE` and `DTYPE_NOISE`.
"""

from __future__ import annotations

from typing import NamedTuple

ATTAINABLE = 0.85
"""A: share of the bound that large kernels reach."""
LATENCY_US = (0.25, 5.0, 100.0)
"""Bounds (µs) at which latency and inefficiency are as likely: low, middle, high."""
FLOOR_US = 0.3
"""No kernel takes less than this besides its work."""
NOISE = 0.08
"""Part of a predicted GPU time that recordings of the same work differ by."""
DTYPE_NOISE = 0.15
"""The same for kernels of another dtype."""
GPU_NOISE = 0.25
"""The same for kernels of another GPU, whose libraries may be better or worse."""
HOST_NOISE = 2.0
"""Factor by which the same code of a host takes longer or shorter in another recording.

The largest ratio between two of the 30 undisturbed eager recordings of one loop in `results/lab` is
1.96; none of the recordings that docs/explain/what-if.md scores is among them."""
QUANTIZE_US = (0.0, 1.5, 3.0)
"""Time of a kernel that quantizes a small input: fused into another kernel, usual, slow."""


class Range(NamedTuple):
    """A time with the interval that it is expected in."""

    low: float
    middle: float
    high: float

    def __mul__(self, factor: float) -> Range:  # type: ignore[override]
        return Range(*(value * factor for value in self))

    def times(self, other: Range) -> Range:
        """Product with an uncertain factor whose errors go the same way."""
        return Range(*(a * b for a, b in zip(self, other, strict=True)))

    def plus(self, other: Range) -> Range:
        """Sum of times whose errors go the same way."""
        return Range(*(a + b for a, b in zip(self, other, strict=True)))


def exactly(time: float) -> Range:
    """A time that does not change."""
    return Range(time, time, time)


def carried_over(time_us: float, before_us: float, after_us: float) -> Range:
    """Time of a call whose bound changes from `before_us` to `after_us`."""
    if not before_us or before_us == after_us:
        return exactly(time_us)
    proportional = time_us * after_us / before_us
    lost = max(time_us - before_us / ATTAINABLE, FLOOR_US)
    added = lost + after_us / ATTAINABLE
    if before_us > ATTAINABLE * time_us:
        added = proportional
    guesses = [
        weight * proportional + (1 - weight) * added
        for weight in (before_us / (before_us + latency) for latency in LATENCY_US)
    ]
    return Range(min(guesses), guesses[1], max(guesses))
