"""How long a step of a rank is: to the start of the next one, where that follows."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def step_bounds(steps: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each step begins and when the next one does, ns; steps are in order of start.

    The gap after a step belongs to it: there the host prepares the next step. A step without a
    successor in the recording ends with its own last activity.
    """
    number, start, end = (steps[name].to_numpy() for name in ("step", "start_ns", "end_ns"))
    until = end.copy()
    if number.size > 1:
        follows = number[1:] == number[:-1] + 1
        until[:-1] = np.where(follows, np.maximum(start[1:], end[:-1]), end[:-1])
    return start, until


def step_lengths(steps: pl.DataFrame) -> dict[int, int]:
    """Length of each step, ns, by its number."""
    ordered = steps.sort("start_ns", maintain_order=True)
    start, until = step_bounds(ordered)
    return dict(zip(ordered["step"].to_list(), (until - start).tolist(), strict=True))
