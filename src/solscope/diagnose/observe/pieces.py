"""Disjoint pieces of time, cut at edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solscope.intervals import Int64s


class Pieces(NamedTuple):
    """Disjoint intervals; `owner` says of what each is a part."""

    start: Int64s
    end: Int64s
    owner: Int64s
    window: Int64s


def split(start: Int64s, end: Int64s, owner: Int64s, edges: Int64s) -> Pieces:
    """Cut intervals at `edges` (ascending); parts outside of them are left out."""
    start, end = np.maximum(start, edges[0]), np.minimum(end, edges[-1])
    nonempty = end > start
    start, end, owner = start[nonempty], end[nonempty], owner[nonempty]
    first = np.searchsorted(edges, start, side="right") - 1
    last = np.searchsorted(edges, end, side="left") - 1
    parts = last - first + 1
    piece_of = np.repeat(np.arange(start.size), parts)
    nth = np.arange(piece_of.size) - np.repeat(np.cumsum(parts) - parts, parts)
    window = first[piece_of] + nth
    return Pieces(
        np.maximum(start[piece_of], edges[window]),
        np.minimum(end[piece_of], edges[window + 1]),
        owner[piece_of],
        window,
    )


def per_step(size: int, window: Int64s, amount: Int64s) -> list[int]:
    """Sum amounts by the step (window) they belong to; whole numbers, exact."""
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, window, amount)
    return out.tolist()
