"""Run: the ranks that were recorded together, each as a few compact tables.

A rank's events are read once and reduced to its collectives, its steps and the time of its kernels;
64 ranks of a long recording then fit into memory. `Rank.path` opens the whole profile again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from solscope.profile import Metadata, ProcessGroup, ProfileWarning

CALL_SCHEMA = pl.Schema(
    {
        "kind": pl.String(),
        "name": pl.String(),
        "group": pl.String(),
        "sequence": pl.Int64(),
        "peer": pl.Int64(),
        "bytes": pl.Int64(),
        "stream": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "launch_ns": pl.Int64(),
        "step": pl.Int32(),
        "layer": pl.Int32(),
        "layer_kind": pl.String(),
        "part": pl.String(),
        "role": pl.String(),
        "hidden_ns": pl.Int64(),
        "busy_ns": pl.Int64(),
        "held_ns": pl.Int64(),
        "idle_ns": pl.Int64(),
        "sent_rows": pl.List(pl.Int64()),
        "received_rows": pl.List(pl.Int64()),
    }
)
"""One row per collective on the GPU, in order of start.

`hidden_ns` is the part during which the GPU computes as well. `busy_ns`, `held_ns` and `idle_ns`
split the time since the collective before it ended: other work ran on the GPU; work was launched,
but did not run; nothing was launched. `group` is the ranks of
the process group (`0,1,2,3`), else `group NAME`; null where the recording has neither. `part` is
the group of its role (`attention`), or `prologue` and `epilogue` outside of layers.
"""
STEP_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "name": pl.String(),
        "phase": pl.String(),
        "cut": pl.Boolean(),
        "requests": pl.Int64(),
        "tokens": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "compute_ns": pl.Int64(),
        "comm_ns": pl.Int64(),
        "overlap_ns": pl.Int64(),
        "held_ns": pl.Int64(),
        "idle_ns": pl.Int64(),
    }
)
"""One row per step: bounds on the GPU; computing, communication, both at once, and neither: with
work launched (`held_ns`) or without (`idle_ns`). These four are about the time until the next step
begins, and add up to it (overlap counted once)."""
WORK_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "name": pl.String(),
        "category": pl.String(),
        "layer_kind": pl.String(),
        "part": pl.String(),
        "role": pl.String(),
        "work": pl.String(),
        "calls": pl.Int64(),
        "total_ns": pl.Int64(),
    }
)
"""Time of kernels that are no collectives, by step, name, role and `work`: grid and shapes."""


RoleKey = tuple[str | None, str | None, str, bool]
"""A role in a run: kind of layer, part, role (else category), whether it is communication."""


def work_role() -> pl.Expr:
    """The role of a kernel, by its category where it has none."""
    return pl.coalesce("role", "category").alias("role")


def call_role() -> pl.Expr:
    """The role of a collective, with its kind."""
    role = pl.coalesce("role", pl.lit("comm"))
    return pl.concat_str(role, pl.lit(": "), "kind").alias("role")


@dataclass(frozen=True)
class Rank:
    """One rank of a run."""

    rank: int
    path: str
    metadata: Metadata
    calls: pl.DataFrame = field(repr=False)
    """`CALL_SCHEMA`."""
    steps: pl.DataFrame = field(repr=False)
    """`STEP_SCHEMA`."""
    work: pl.DataFrame = field(repr=False)
    """`WORK_SCHEMA`."""
    layers: dict[str, int] = field(default_factory=dict)
    """How many layers of each kind it has."""
    positions: dict[RoleKey, float] = field(default_factory=dict, repr=False)
    """How far into its layer, or prologue, or epilogue, a role begins on average: from 0 to 1."""
    warnings: tuple[ProfileWarning, ...] = ()

    @property
    def device(self) -> str | None:
        """The GPU that it ran on."""
        labels = [device.label for device in self.metadata.devices]
        return ", ".join(labels) or None


@dataclass(frozen=True)
class Run:
    """The ranks that were recorded together, in order of rank."""

    name: str
    world_size: int | None
    ranks: tuple[Rank, ...]
    groups: tuple[ProcessGroup, ...] = ()
    warnings: tuple[ProfileWarning, ...] = ()

    @property
    def missing(self) -> list[int]:
        """Ranks below `world_size` that no file covers."""
        here = {rank.rank for rank in self.ranks}
        return [rank for rank in range(self.world_size or 0) if rank not in here]


def listed(numbers: list[int]) -> str:
    """Numbers as text, neighbors joined: `2-4, 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, span)) for span in parts)
