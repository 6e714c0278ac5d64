"""Which processes of two recordings are compared with each other.

Process ids differ from run to run. Processes with the same unit of a cycle are paired in the order
of their ids. That is mostly the order in which they were started, but ids wrap around. What is left
is paired by the number of cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import polars as pl

from solscope.profile import ProfileWarning

ProcessPair: TypeAlias = tuple[int | None, int | None]
Tables: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]


class _Process(NamedTuple):
    pid: int | None
    unit: str
    cycles: int

    @property
    def order(self) -> int:
        """Orders processes by id, one without an id first."""
        return -1 if self.pid is None else self.pid


def unit_of(cycles: pl.DataFrame) -> str:
    """The anchor with most cycles."""
    counts = cycles.unique(["pid", "cycle", "anchor"])["anchor"].cast(pl.String)
    return str(
        counts.value_counts(sort=True).sort(["count", "anchor"], descending=[True, False])[0, 0]
    )


def of_pair(normal: pl.DataFrame, abnormal: pl.DataFrame, pair: ProcessPair) -> Tables:
    """The cycles of one process on each side."""
    before, after = (
        table.filter(pl.col("pid").eq_missing(pl.lit(pid, table["pid"].dtype)))
        for table, pid in zip((normal, abnormal), pair, strict=True)
    )
    return before, after


def paired_processes(
    normal: pl.DataFrame, abnormal: pl.DataFrame
) -> tuple[list[ProcessPair], tuple[list[int | None], list[int | None]]]:
    """Pairs, that with most cycles first; and on each side the processes without a counterpart."""
    before, after = _processes(normal), _processes(abnormal)
    pairs: list[tuple[_Process, _Process]] = []
    for unit in dict.fromkeys(process.unit for process in before):
        mine, theirs = (
            sorted((p for p in side if p.unit == unit), key=lambda p: p.order)
            for side in (before, after)
        )
        pairs += zip(mine, theirs, strict=False)
    left = [
        [process for process in side if all(process != pair[index] for pair in pairs)]
        for index, side in enumerate((before, after))
    ]
    rest = list(zip(*left, strict=False))
    pairs += rest
    left = [side[len(rest) :] for side in left]
    pairs.sort(key=lambda pair: -min(pair[0].cycles, pair[1].cycles))
    alone = ([process.pid for process in left[0]], [process.pid for process in left[1]])
    return [(a.pid, b.pid) for a, b in pairs], alone


def unmatched(
    alone: tuple[Sequence[int | None], Sequence[int | None]], labels: tuple[str, str]
) -> list[ProfileWarning]:
    """A warning for processes that only one side has."""
    named = [
        f"{', '.join(str(pid) for pid in pids)} of {label}"
        for pids, label in zip(alone, labels, strict=True)
        if pids
    ]
    if not named:
        return []
    text = f"compared with nothing, because the other run has no such process: {'; '.join(named)}"
    return [ProfileWarning("unmatched_processes", text)]


def _processes(cycles: pl.DataFrame) -> list[_Process]:
    """Processes with their unit, most cycles first."""
    processes = [
        _Process(table["pid"][0], unit := unit_of(table), _count(table, unit))
        for table in cycles.partition_by("pid", maintain_order=True)
    ]
    return sorted(processes, key=lambda process: (-process.cycles, process.order))


def _count(cycles: pl.DataFrame, unit: str) -> int:
    of_unit = cycles.filter(pl.col("anchor").cast(pl.String) == unit)
    return of_unit.unique(["cycle", "start_ns"]).height
