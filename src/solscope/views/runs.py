"""Summaries of the ranks of one run side by side, from several files or one that merges them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import polars as pl

from solscope.patterns import lazy_pattern
from solscope.ranks.skew import CollectiveSkew, collective_skew
from solscope.readers.limits import MAX_RANKS
from solscope.views.summary import DeviceSummary, Summary

UNEVEN = 1.02
"""A rank computes longest only when it computes longer than the fastest by this factor."""


class RankRow(msgspec.Struct, frozen=True):
    """One rank of a run."""

    rank: int
    path: str
    device: str
    kernels: int
    gpu_span_ms: float | None
    gpu_busy_ms: float | None
    gpu_busy_pct: float | None
    kernel_time_ms: float | None
    compute_ms: float | None
    comm_ms: float | None
    exposed_comm_ms: float | None
    exposed_comm_pct: float | None
    memcpy_ms: float | None


class Run(msgspec.Struct, frozen=True):
    """The ranks that were recorded together."""

    name: str
    world_size: int | None
    ranks: list[RankRow]
    missing: list[int]
    """Ranks below `world_size` that no file covers."""
    skew: CollectiveSkew | None
    """Waiting in collectives, apart from the transfer; null when collectives were not given."""


_MARKS = (
    lazy_pattern(r"\b(TP|DP|PP|EP)[-_]?\d+", re.IGNORECASE),
    lazy_pattern(r"rank[-_.]?\d+", re.IGNORECASE),
    # torch's tensorboard handler: host_pid.timestamp.pt.trace.json
    lazy_pattern(r"_\d+\.\d{10,}(?=\.pt\.trace)"),
)


def runs(
    summaries: Sequence[Summary], collectives: Mapping[str, pl.DataFrame] | None = None
) -> list[Run]:
    """Group summaries into runs of at least two ranks; the others belong to no run.

    `collectives` holds, by path, what `collective_calls` gave for a profile.
    """
    groups: dict[tuple[str, int | None], list[Summary]] = {}
    for summary in summaries:
        if summary.per_device and all(d.rank is not None for d in summary.per_device):
            groups.setdefault((summary.path, summary.world_size), []).append(summary)
        elif summary.rank is not None:
            groups.setdefault((_run_name(summary.path), summary.world_size), []).append(summary)
    candidates = [
        _run(name, size, members, collectives) for (name, size), members in groups.items()
    ]
    # A rank that occurs twice means that these files are not the ranks of one run.
    return [run for run in candidates if 1 < len(run.ranks) == len({row.rank for row in run.ranks})]


def computes_longest(run: Run) -> list[int]:
    """Ranks that compute longest; empty where all compute about as long."""
    compute = [row.compute_ms or 0.0 for row in run.ranks]
    if max(compute) <= UNEVEN * min(compute):
        return []
    return [row.rank for row in run.ranks if row.compute_ms == max(compute)]


def _run_name(path: str) -> str:
    """The path without what tells ranks apart."""
    name = Path(path).name
    for mark in _MARKS:
        name = mark.sub("*", name)
    folder = Path(path).parent
    if re.fullmatch(r"rank[-_.]?\d+", folder.name, re.IGNORECASE):
        folder = folder.parent / "*"
    return str(folder / name)


def _run(
    name: str,
    world_size: int | None,
    members: list[Summary],
    collectives: Mapping[str, pl.DataFrame] | None,
) -> Run:
    rows = []
    for summary in members:
        if summary.per_device and summary.per_device[0].rank is not None:
            rows += [
                _row(device, device.rank, summary.path, device.name)
                for device in summary.per_device
            ]
        else:
            rows.append(_row(summary, summary.rank, summary.path, ", ".join(summary.devices)))
    rows.sort(key=lambda row: row.rank)
    seen = {row.rank for row in rows}
    size = world_size if world_size is not None and world_size <= MAX_RANKS else 0
    missing = [rank for rank in range(size) if rank not in seen]
    skew = None if collectives is None else _skew(members, collectives)
    return Run(name, world_size, rows, missing, skew)


def _skew(members: list[Summary], collectives: Mapping[str, pl.DataFrame]) -> CollectiveSkew:
    calls = pl.concat([collectives[member.path] for member in members])
    ranks = calls.partition_by("rank", as_dict=True, maintain_order=True)
    return collective_skew(
        {int(rank): rank_calls for (rank,), rank_calls in ranks.items() if rank is not None}
    )


def _row(source: Summary | DeviceSummary, rank: int | None, path: str, device: str) -> RankRow:
    """The figures of a summary that a row has as well, under the same names."""
    figures = set(RankRow.__struct_fields__) - {"rank", "path", "device"}
    return RankRow(rank or 0, path, device, **{name: getattr(source, name) for name in figures})
