"""Shares of GPU time from stored sums over all profiles of a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from solscope.corpus.aggregates.overall import POOLS
from solscope.corpus.aggregates.part import Part

Ints = npt.NDArray[np.int64]
EACH_ALONE = 1000
"""Profiles up to which each is a pool of its own when intervals are drawn."""


def add_by_pool(sums: Ints, key: Ints, pool: npt.NDArray[Any], share: Ints) -> None:
    """Add shares to `sums` by key and pool: as one index, which NumPy adds by far faster."""
    np.add.at(sums.reshape(-1), key * sums.shape[1] + pool, share)


class OverallSums:
    """Shares of the profiles of whole parts, by code; each run counts the same."""

    def __init__(self, with_pools: bool) -> None:
        self.with_pools = with_pools
        """Whether they are added by pool as well, for intervals."""
        self.share, self.spared, self.occurs = (np.zeros(0, np.int64) for _ in range(3))
        self.pooled = np.zeros((0, POOLS), np.int64)

    def hold(self, profiles: int) -> bool:
        """Whether they can answer for so many profiles: few are drawn one by one."""
        return profiles > EACH_ALONE or not self.with_pools

    def take(self, part: Part, code: Ints, codes: int) -> None:
        """Add one part; `code` is the code of each name, of `codes` in all so far."""
        self.resize(codes)
        rows = part.overall
        here = code[rows["name"].to_numpy()]
        np.add.at(self.share, here, rows["share"].to_numpy())
        np.add.at(self.spared, here, rows["spared"].to_numpy())
        np.add.at(self.occurs, here, rows["occurs"].to_numpy())
        if not self.with_pools:
            return
        pools = part.pools
        here, pool = code[pools["name"].to_numpy()], pools["pool"].to_numpy()
        add_by_pool(self.pooled, here, pool, pools["share"].to_numpy())

    def resize(self, codes: int) -> None:
        """Room for so many codes."""
        more = codes - self.share.size
        if more > 0:
            self.share, self.spared, self.occurs = (
                np.pad(sums, (0, more)) for sums in (self.share, self.spared, self.occurs)
            )
            if self.with_pools:
                self.pooled = np.pad(self.pooled, ((0, more), (0, 0)))
