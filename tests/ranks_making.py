"""Small runs with a known truth: ranks compute, meet in collectives, and have clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from solscope.profile import Metadata
from solscope.ranks.read import make_run
from solscope.run import CALL_SCHEMA, STEP_SCHEMA, WORK_SCHEMA, Rank, Run

US = 1_000
MS = 1_000_000


@dataclass(frozen=True)
class Program:
    """What every rank does; times in ns."""

    ranks: int = 4
    steps: int = 10
    calls: int = 6
    """Collectives per step, all of one size."""
    busy: int = 100 * US
    """Computing before each collective."""
    jitter: int = 40 * US
    transfer: int = 80 * US
    seed: int = 1
    offset: Callable[[int], int] = lambda rank: 0
    """What a rank's clock shows more, ns."""
    drift_ppm: Callable[[int], float] = lambda rank: 0.0
    late: Callable[[int, int, int], int] = lambda rank, step, call: 0
    """Extra time before a rank's arrival, ns."""
    late_as: str = "idle"
    """Which part of the time before a collective that is: idle, held or busy."""
    bytes: int | None = 65536
    kind: str = "all_reduce"


def make(program: Program) -> Run:
    """The run of a program: collectives end together on the true clock."""
    draw = np.random.default_rng(program.seed)
    now = np.zeros(program.ranks)
    rows: list[list[dict[str, object]]] = [[] for _ in range(program.ranks)]
    bounds: list[list[tuple[int, int, int]]] = [[] for _ in range(program.ranks)]
    for step in range(program.steps):
        begun = now.copy()
        for call in range(program.calls):
            jitter = draw.integers(0, program.jitter + 1, program.ranks)
            late = [program.late(rank, step, call) for rank in range(program.ranks)]
            start = now + program.busy + jitter + late
            end = start.max() + program.transfer + draw.integers(0, 3 * US)
            for rank in range(program.ranks):
                parts = {"busy_ns": program.busy + int(jitter[rank]), "held_ns": 0, "idle_ns": 0}
                parts[f"{program.late_as}_ns"] += late[rank]
                ends = end + draw.integers(-2 * US, 2 * US)
                rows[rank].append(_call(program, rank, step, start[rank], ends, parts))
            now = np.full(program.ranks, end)
        for rank in range(program.ranks):
            first, last = (_shown(program, rank, times[rank]) for times in (begun, now))
            bounds[rank].append((step, first, last))
    return make_run(
        "made", [_rank(program, at, rows[at], bounds[at]) for at in range(program.ranks)]
    )


def without(run: Run, rank: int, calls: Sequence[int]) -> Run:
    """The run as if one rank had not recorded these of its calls."""
    keep = ~pl.col("n").is_in(list(calls))
    return _changed(run, rank, lambda t: t.with_row_index("n").filter(keep).drop("n"))


def with_call(run: Run, rank: int, after: int, at_ns: int) -> Run:
    """The run with one call more on one rank, `at_ns` behind the call `after`."""

    def add(table: pl.DataFrame) -> pl.DataFrame:
        extra = table[after : after + 1].with_columns(pl.col("start_ns", "end_ns") + at_ns)
        return pl.concat([table, extra]).sort("start_ns")

    return _changed(run, rank, add)


def _changed(run: Run, rank: int, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Run:
    ranks = [replace(r, calls=change(r.calls)) if r.rank == rank else r for r in run.ranks]
    return replace(run, ranks=tuple(ranks))


def _shown(program: Program, rank: int, true: float) -> int:
    """What a rank's clock shows at a true time."""
    return (
        round(true + program.offset(rank) + 1e-6 * program.drift_ppm(rank) * true)
        + 1_700_000_000 * 10**9
    )


def _call(
    program: Program, rank: int, step: int, start: float, end: float, parts: dict[str, int]
) -> dict[str, object]:
    known = {
        "kind": program.kind,
        "name": f"nccl_{program.kind}",
        "group": ",".join(map(str, range(program.ranks))),
        "bytes": program.bytes,
        "stream": 7,
        "start_ns": _shown(program, rank, start),
        "end_ns": _shown(program, rank, end),
        "step": step,
        **parts,
    }
    return {name: known.get(name) for name in CALL_SCHEMA}


def _rank(
    program: Program, rank: int, rows: list[dict[str, object]], bounds: list[tuple[int, int, int]]
) -> Rank:
    steps = [
        dict.fromkeys(STEP_SCHEMA)
        | {"step": n, "name": "step", "cut": False, "start_ns": a, "end_ns": b, "tokens": 16}
        | dict.fromkeys(("compute_ns", "comm_ns", "overlap_ns", "held_ns", "idle_ns"), 0)
        for n, a, b in bounds
    ]
    return Rank(
        rank=rank,
        path=f"rank{rank}.json",
        metadata=Metadata(rank=rank, world_size=program.ranks),
        calls=pl.DataFrame(rows, schema=CALL_SCHEMA),
        steps=pl.DataFrame(steps, schema=STEP_SCHEMA),
        work=WORK_SCHEMA.to_frame(),
    )
