"""Limits on what a file may claim, since work grows with it and not only with the file's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.errors import LimitError

if TYPE_CHECKING:
    import polars as pl

    from solscope.profile import Profile

MAX_DEVICES = 256
"""GPUs of one file. Every view computes the timeline of each; no process sees as many."""
MAX_RANKS = 1 << 16
"""More ranks than this are a damaged number in a header or a file name."""


def check_limits(profile: Profile) -> Profile:
    """The profile, unless it claims more devices than any recording has."""
    tables = (profile.events, profile.metrics, profile.cycles)
    claimed = max(
        len(profile.metadata.devices),
        *(_devices(table["device"]) for table in tables if table is not None and table.height),
        0,
    )
    if claimed > MAX_DEVICES:
        raise LimitError(
            f"{profile.path}: {claimed:,} GPUs; a file of more than {MAX_DEVICES} is damaged"
        )
    return profile


def _devices(column: pl.Series) -> int:
    """How many devices there are, or may be: counted only where the range does not tell."""
    low, high = column.min(), column.max()
    if not isinstance(low, int) or not isinstance(high, int) or high - low < MAX_DEVICES:
        return 0
    return column.n_unique()
