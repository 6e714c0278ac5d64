"""The ranks of a run as rows of one time line: when each waits in collectives, when it transfers.

Times are on the common clock of the run (`ranks/clock.py`). What lies between two collectives of a
rank is its own work. Long recordings show as many steps from the first counted one on as fit.
"""

from __future__ import annotations

import msgspec
import numpy as np

from solscope.ranks.analysis import Analysis

MOST = 6_000
"""Collectives of all ranks together that a picture holds."""


class RankLane(msgspec.Struct, frozen=True):
    """The collectives of one rank in order of time; equal places of the lists belong together."""

    rank: int
    start_us: list[float]
    """From the first start of any rank."""
    wait_us: list[float]
    transfer_us: list[float]
    kind: list[int]
    """Places in `kinds`."""


class RankLanes(msgspec.Struct, frozen=True):
    """All ranks on one clock."""

    kinds: list[str]
    """Kinds of collectives."""
    span_us: float
    steps: list[tuple[int, float]]
    """Steps with the first start of a collective in them."""
    lanes: list[RankLane]
    left_out: int
    """Steps beyond those shown."""


def rank_lanes(analysis: Analysis) -> RankLanes | None:
    """The collectives of the counted steps; null where the ranks have no common clock."""
    if analysis.clock.method == "durations" or not analysis.steps.size:
        return None
    step = analysis.matched.table["step"].fill_null(-1).to_numpy()
    shown = _steps_that_fit(analysis, step)
    rows = np.flatnonzero(np.isin(step, shown))
    if not rows.size:
        return None
    kinds = analysis.matched.table["kind"].gather(rows).to_list()
    names = sorted(set(kinds))
    start = analysis.times.start[rows]
    origin = float(np.nanmin(start))
    code = np.array([names.index(kind) for kind in kinds])
    lanes = [
        _lane(analysis, rank_index, rows, (start[:, rank_index] - origin) / 1e3, code)
        for rank_index in range(len(analysis.run.ranks))
    ]
    begun = [(int(s), float(np.nanmin(start[step[rows] == s]) - origin) / 1e3) for s in shown]
    return RankLanes(
        kinds=names,
        span_us=float(np.nanmax(analysis.times.end[rows]) - origin) / 1e3,
        steps=begun,
        lanes=lanes,
        left_out=int(analysis.steps.size - len(shown)),
    )


def _steps_that_fit(analysis: Analysis, step: np.ndarray) -> list[int]:
    """Whole steps from the first on, as many as `MOST` allows; at least one."""
    room = MOST
    shown: list[int] = []
    for number in analysis.steps.tolist():
        count = int((analysis.matched.index[step == number] >= 0).sum())
        if not count:
            continue
        if shown and count > room:
            break
        shown.append(number)
        room -= count
    return shown


def _lane(
    analysis: Analysis, rank_index: int, rows: np.ndarray, start_us: np.ndarray, code: np.ndarray
) -> RankLane:
    timed = ~np.isnan(start_us)
    order = np.flatnonzero(timed)[np.argsort(start_us[timed], kind="stable")]
    wait = np.nan_to_num(analysis.split.wait[rows, rank_index]) / 1e3
    transfer = np.nan_to_num(analysis.split.transfer[rows, rank_index]) / 1e3
    return RankLane(
        rank=analysis.run.ranks[rank_index].rank,
        start_us=np.round(start_us[order], 3).tolist(),
        wait_us=np.round(wait[order], 3).tolist(),
        transfer_us=np.round(transfer[order], 3).tolist(),
        kind=code[order].tolist(),
    )
