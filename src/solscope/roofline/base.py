"""From a cost and a GPU to the least time: the contract of `roofline/`.

A bound is a bound: no correct kernel can take less. A term that cannot be computed, because the
hardware file has no figure, is left out and named in `missing`; it is never replaced by a guess.
"""

from __future__ import annotations

from typing import Literal

import msgspec

BoundKind = Literal["corrected", "published"]
"""`corrected`: a time that no correct kernel can beat. `published`: as the public suite has it,
max(FLOP / peak, bytes / HBM), with the FLOP and bytes that it states; can be beaten in places."""


class Bound(msgspec.Struct, frozen=True):
    """The least time that one call can take on one GPU."""

    time_us: float | None
    """The largest term; null when no term could be computed (`missing` says why)."""
    limiter: str | None
    """The term that sets it: a pipe (`tensor.bf16`, `vector.fp32`, `sfu`; `tensor` or `vector` when
    several precisions share the pipe), `hbm`, `l2`, `llc`, `l1`, `interconnect`, `host`,
    `launch` or `serial`."""
    terms_us: dict[str, float]
    """Every term that could be computed."""
    missing: list[str]
    """Terms that apply to this cost but could not be computed."""

    def score(self, time_us: float) -> float | None:
        """S = bound / time: 1 is the speed of light, more than 1 means that a figure is wrong."""
        return None if self.time_us is None else self.time_us / time_us
