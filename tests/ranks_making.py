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
        "hidden_ns": 0,
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


@dataclass(frozen=True)
class Stages:
    """A pipeline: every stage computes a microbatch and sends it on; the last one broadcasts."""

    stages: int = 4
    steps: int = 10
    microbatches: int = 4
    compute: Callable[[int], int] = lambda stage: 500 * US
    held: Callable[[int], int] = lambda stage: 0
    """Of that: launched, but not run."""
    transfer: int = 60 * US
    jitter: int = 120 * US
    """Microbatches differ: without that, one step looks like the next on a clock that is off."""
    offset: Callable[[int], int] = lambda stage: 0


def make_pipeline(program: Stages) -> Run:
    """The run of a pipeline, with receives that begin as soon as a stage is free."""
    last = program.stages - 1
    draw = np.random.default_rng(5)
    group = ",".join(map(str, range(program.stages)))
    rows: list[list[dict[str, object]]] = [[] for _ in range(program.stages)]
    bounds: list[list[dict[str, object]]] = [[] for _ in range(program.stages)]
    free = [0] * program.stages

    def call(stage: int, step: int, kind: str, peer: int, begin: int, end: int) -> None:
        zero = 1_700_000_000 * 10**9 + program.offset(stage)
        known = {"kind": kind, "name": "nccl", "group": group, "peer": peer, "bytes": 65536}
        times = {"start_ns": begin + zero, "end_ns": end + zero, "step": step, "hidden_ns": 0}
        rows[stage].append(dict.fromkeys(CALL_SCHEMA) | known | times)

    for step in range(program.steps):
        begun = list(free)
        for _ in range(program.microbatches):
            sent = 0
            extra = int(draw.integers(0, program.jitter + 1))
            for stage in range(program.stages):
                if stage:
                    arrived = max(sent, free[stage]) + program.transfer
                    call(stage, step, "receive", stage - 1, free[stage], arrived)
                    free[stage] = arrived
                free[stage] += program.compute(stage) + extra
                sent = free[stage]
                if stage < last:
                    call(stage, step, "send", stage + 1, sent, sent + 15 * US)
                    free[stage] = sent + 15 * US
        root = free[last]
        for stage in range(program.stages):
            end = max(root, free[stage]) + 40 * US
            call(stage, step, "broadcast", last, free[stage], end)
            free[stage] = end
        free = [max(free)] * program.stages
        for stage in range(program.stages):
            zero = 1_700_000_000 * 10**9 + program.offset(stage)
            held = program.microbatches * program.held(stage)
            whole = program.microbatches * program.compute(stage)
            bounds[stage].append(
                dict.fromkeys(STEP_SCHEMA)
                | {"step": step, "cut": False, "tokens": 16, "held_ns": held}
                | {"start_ns": begun[stage] + zero, "end_ns": free[stage] + zero}
                | {"compute_ns": whole - held, "comm_ns": 0, "overlap_ns": 0, "idle_ns": 0}
            )
    ranks = [
        Rank(
            rank=stage,
            path=f"rank{stage}.json",
            metadata=Metadata(rank=stage, world_size=program.stages),
            calls=pl.DataFrame(rows[stage], schema=CALL_SCHEMA),
            steps=pl.DataFrame(bounds[stage], schema=STEP_SCHEMA),
            work=WORK_SCHEMA.to_frame(),
        )
        for stage in range(program.stages)
    ]
    return make_run("pipeline", ranks)
