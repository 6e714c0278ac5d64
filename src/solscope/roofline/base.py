"""From a cost and a GPU to the least time: the contract of `roofline/`."""

from __future__ import annotations

import msgspec


class Bound(msgspec.Struct, frozen=True):
    """The least time that one call can take on one GPU."""

    time_us: float
    limiter: str
    """The term that sets it: a pipe (`tensor.bf16`), `sfu`, `hbm`, `l2`, `llc`, `launch`, ...."""
    terms_us: dict[str, float]
    """Every term that could be computed; the bound is the largest."""
    missing: list[str]
    """Terms that could not be computed, because the hardware file lacks the figure."""
