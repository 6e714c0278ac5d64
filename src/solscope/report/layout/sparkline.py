"""Sparklines: values in order as a line of block characters.

Only for a terminal that can draw; a pipe and Markdown have the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

BLOCKS = "▁▂▃▄▅▆▇█"
NONE = " "
"""Where there is no value."""

Values = Sequence[float | None]


def sparkline(values: Values, width: int, *, top: float | None = None) -> str:
    """At most `width` characters, one per value where they fit; height is the value over `top`.

    Heights start at 0, so that they can be compared: twice the value is twice the block. Without
    `top` the highest block is the largest value. What is negative is drawn as 0.
    """
    shown = thinned(values, width)
    highest = top_of(shown) if top is None else top
    return "".join(_block(value, highest) for value in shown)


def top_of(*series: Values) -> float:
    """The largest value of several series, for a scale that they share; 0 when there is none."""
    checked = [_known(value) for values in series for value in values]
    return max((value for value in checked if value is not None), default=0.0)


def thinned(values: Values, most: int) -> list[float | None]:
    """At most `most` of the values, one from each of as many equal parts, in order.

    From each part the value furthest from the median of all is kept, of two as far the larger one:
    a single peak or dip stays, however many values there are.
    """
    checked = [_known(value) for value in values]
    if len(checked) <= most:
        return checked
    # Importing `statistics` takes longer than laying out a page, and most pages have no sparkline.
    from statistics import median

    middle = median([value for value in checked if value is not None] or [0.0])
    edges = [len(checked) * index // most for index in range(most + 1)]
    return [
        max(
            (value for value in checked[begin:end] if value is not None),
            key=lambda value: (abs(value - middle), value),
            default=None,
        )
        for begin, end in pairwise(edges)
    ]


def _known(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _block(value: float | None, top: float) -> str:
    if value is None:
        return NONE
    share = min(max(value / top, 0.0), 1.0) if top > 0 else 0.0
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]
