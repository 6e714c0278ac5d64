"""The ranks of a run: who waits for whom, how much of a step that is, how sure, and why.

Figures are means per step. The first step of every rank and steps that are cut are left out: at the
start of a recording ranks wait for one another's profilers.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.errors import SolscopeError
from solscope.hardware import match_device
from solscope.profile import Device, ProcessGroup, ProfileWarning
from solscope.ranks.analysis import Analysis, analyze
from solscope.ranks.clock import Clock
from solscope.ranks.groups import members
from solscope.ranks.load import Imbalance
from solscope.ranks.pipeline import Pipeline
from solscope.ranks.straggler import LAB_NAMED, LAB_RIGHT, MATERIAL, capped, material
from solscope.resample import succession
from solscope.run import Run
from solscope.text import as_percent


class RankTimes(msgspec.Struct, frozen=True):
    """One rank, per step; null where it is not known."""

    rank: int
    path: str
    device: str | None
    host: str | None
    steps: int
    step_ms: float | None
    """From the start of a step to the start of the next, on this rank: compute and communication
    less their overlap, held and host add up to it."""
    compute_ms: float | None
    """Time in which its GPU computes, communication at the same time or not."""
    comm_ms: float | None
    """Time in collectives, waiting included."""
    wait_ms: float | None
    """Waiting in collectives for the rank that came last."""
    overlap_ms: float | None
    """Computing and communication at the same time."""
    held_ms: float | None
    """The GPU runs nothing although work is launched."""
    host_ms: float | None
    """The GPU runs nothing and nothing is launched: it waits for the host."""
    cost_ms: float | None
    """What this rank's late arrivals cost the others."""
    last: int
    """Collectives to which it came last."""
    requests: float | None
    tokens: float | None
    received_tokens: float | None
    """Rows that reach its experts."""


class CollectiveRow(msgspec.Struct, frozen=True, rename={"kind_class": "class"}):
    """Collectives of one kind, group and message size."""

    kind: str
    group: str | None
    """Ranks of its group, or the group's name; null where it is not recorded."""
    ranks: int
    """Ranks at hand that take part."""
    bytes: int | None
    """What a rank sends, in the mean."""
    calls: int
    transfer_us: float
    wait_us: float
    """Mean over calls and ranks."""
    hidden_us: float
    """Of transfer and waiting: while the rank's GPU computes as well, such as another batch, or a
    shared expert during the combine."""
    baseline_us: float | None
    """Transfer of calls of this size in which nobody waits."""
    algbw_gbs: float | None
    busbw_gbs: float | None
    """By the transfer alone, as NCCL's tests count it."""
    bound_gbs: float | None
    """What the links of the GPUs can do in one direction; null where the hardware files do not say,
    and unless all ranks of the group are known to be on one host."""
    kind_class: str
    """`transfer`, `arrival`, `mixed` or `inconclusive`: where most of its time goes."""
    by_class: dict[str, int]
    """Calls of each class."""


class Straggler(msgspec.Struct, frozen=True):
    """The rank that the others wait for."""

    rank: int | None
    """Null when no rank stands out."""
    confidence: float
    """Of the named rank; of the rank that costs most where none is named."""
    step_share_pct: float | None
    """What its late arrivals cost, of the step."""
    why: str
    """`gpu`, `host`, `load`, `link` or `unknown`."""
    evidence: list[str]
    leader: int | None
    """The rank that costs most, named or not."""
    pattern: str
    """`persistent`, `wandering` (another rank in other steps) or `none`."""
    all_share_pct: float | None
    """What the late arrivals of all ranks cost, of the step."""
    steps: list[int]
    """Steps in which that rank costs most, and a material share."""
    parts_ms: dict[str, float]
    """Its lateness per step, by reason."""


class RunRanks(msgspec.Struct, frozen=True):
    """The ranks of a run."""

    name: str
    verdict: Annotated[
        str, msgspec.Meta(description="One sentence: which rank the others wait for, and why.")
    ]
    """The answer in one sentence."""
    legend: str | None
    """What its figures are means over, and what its confidence means; null without whole steps."""
    world_size: int | None
    missing: list[int]
    steps: int
    """Steps that figures are about."""
    step_ms: float | None
    """Length of a step, which shares of the step are of: in each step the median of the ranks, and
    the mean of that over steps; null without whole steps."""
    clock: Clock
    groups: list[ProcessGroup]
    ranks: list[RankTimes]
    collectives: list[CollectiveRow]
    unmatched: int
    """Collectives, of all ranks, that could be matched with none of another rank."""
    unmatched_by_rank: dict[int, int]
    straggler: Straggler
    imbalance: Imbalance
    pipeline: Pipeline | None
    """Stages and their bubbles; null where ranks do not hand work to one another."""
    warnings: list[ProfileWarning]


def rank_table(run: Run | Analysis) -> RunRanks:
    """Who waits for whom in a run, and why."""
    analysis = analyze(run) if isinstance(run, Run) else run
    run = analysis.run
    straggler = _straggler(analysis)
    lengths = analysis.charge.length
    step_ms = float(lengths.mean()) / 1e6 if lengths.size else None
    return RunRanks(
        name=run.name,
        verdict=_verdict(analysis, straggler, step_ms),
        legend=_legend(analysis, straggler),
        world_size=run.world_size,
        missing=run.missing,
        steps=int(analysis.steps.size),
        step_ms=step_ms,
        clock=analysis.clock,
        groups=list(run.groups),
        ranks=[_times(analysis, rank_index) for rank_index in range(len(run.ranks))],
        collectives=_collectives(analysis),
        unmatched=sum(analysis.matched.unmatched.values()),
        unmatched_by_rank={r: n for r, n in analysis.matched.unmatched.items() if n},
        straggler=straggler,
        imbalance=analysis.imbalance,
        pipeline=analysis.pipeline,
        warnings=_warnings(analysis),
    )


def _times(analysis: Analysis, rank_index: int) -> RankTimes:
    rank = analysis.run.ranks[rank_index]
    steps = analysis.rank_steps(rank_index)
    count = steps.height
    counted = analysis.counted

    def per_step(total: float) -> float | None:
        return total / count / 1e6 if count else None

    wait = analysis.split.wait[counted, rank_index]
    last_calls = counted & (analysis.split.last == rank_index)
    return RankTimes(
        rank=rank.rank,
        path=rank.path,
        device=rank.device,
        host=rank.metadata.host,
        steps=count,
        step_ms=per_step(analysis.rank_length_ns(rank_index)),
        compute_ms=per_step(int(steps["compute_ns"].sum())),
        comm_ms=per_step(int(steps["comm_ns"].sum())),
        wait_ms=per_step(float(np.nansum(wait))) if not np.isnan(wait).all() else None,
        overlap_ms=per_step(int(steps["overlap_ns"].sum())),
        held_ms=per_step(int(steps["held_ns"].sum())),
        host_ms=per_step(int(steps["idle_ns"].sum())),
        cost_ms=per_step(float(analysis.charge.cost[:, rank_index].sum()))
        if analysis.charge.known
        else None,
        last=int(last_calls.sum()),
        requests=_mean(steps["requests"]),
        tokens=_mean(steps["tokens"]),
        received_tokens=analysis.received[rank_index],
    )


def _mean(values: pl.Series) -> float | None:
    present = values.drop_nulls()
    return None if present.is_empty() else float(np.mean(present.to_numpy()))


def _straggler(analysis: Analysis) -> Straggler:
    suspect, why = analysis.suspect, analysis.why
    evidence = [] if why is None else list(why.evidence)
    if suspect.reason is not None:
        evidence.append(suspect.reason)
    return Straggler(
        rank=suspect.rank,
        confidence=suspect.confidence,
        step_share_pct=suspect.step_share_pct,
        why="unknown" if why is None else why.why,
        evidence=evidence,
        leader=suspect.leader,
        pattern=suspect.pattern,
        all_share_pct=suspect.all_share_pct,
        steps=suspect.steps,
        parts_ms={} if why is None else why.parts_ms,
    )


def _verdict(analysis: Analysis, straggler: Straggler, step_ms: float | None) -> str:
    if analysis.suspect.reason is not None:
        return f"Cannot tell who waits for whom: {analysis.suspect.reason}."
    share = straggler.step_share_pct or 0.0
    cost = _of_step(share, step_ms)
    if analysis.pipeline is not None:
        return _pipeline_verdict(analysis.pipeline, straggler, step_ms)
    if straggler.rank is not None:
        reasons = {"gpu": "its GPU", "host": "its host", "load": "its load", "link": "its link"}
        why = reasons.get(straggler.why, "a reason that is not known")
        return (
            f"The others wait for rank {straggler.rank}: {cost}, because of {why} "
            f"({as_percent(straggler.confidence)} confident)."
        )
    if straggler.pattern == "wandering":
        return (
            "No single rank stands out: another rank is late in other steps, together "
            f"{_of_step(straggler.all_share_pct or 0.0, step_ms)}."
        )
    leads = f"rank {straggler.leader} costs the others most, {cost}"
    text = f"No rank stands out: {leads}"
    if 100 * MATERIAL <= share < 100 * material(straggler.why):
        return f"{text}; {_NOT_RARE.get(straggler.why, _NOT_RARE['unknown'])}."
    return f"{text}."


def _of_step(share_pct: float, step_ms: float | None) -> str:
    """A share of the step, and the times that it is the ratio of."""
    whole = step_ms or 0.0
    return f"{share_pct / 100 * whole:,.2f} of {whole:,.2f} ms per step ({share_pct:.1f} %)"


def _legend(analysis: Analysis, straggler: Straggler) -> str | None:
    """What the figures of the verdict are about, and what its confidence means."""
    steps = int(analysis.steps.size)
    if not steps:
        return None
    which = f"the {steps} steps" if steps > 1 else "the only step"
    scope = (
        f"Means over {which} that the ranks recorded whole, without their first; a step is as long "
        "as on the median rank."
    )
    if straggler.rank is None:
        return scope
    most = capped(1.0, steps)
    by_lab = most == succession(LAB_RIGHT, LAB_NAMED)
    allow = "the lab's runs with a known answer allow" if by_lab else f"{steps} steps allow"
    if len(straggler.evidence) > 1:
        scope += " Delays that are listed may overlap, and add up to more than the cost."
    return (
        f"{scope} Confident: how often rank {straggler.rank} stands out when these steps are drawn "
        f"again; {as_percent(most)} is the most that {allow}."
    )


_NOT_RARE = {
    "host": "hosts of healthy ranks can be as late as this",
    "unknown": "why is not known, and hosts of healthy ranks can be as late as this",
}
"""Why a rank that costs much is not named."""


def _pipeline_verdict(pipeline: Pipeline, straggler: Straggler, step_ms: float | None) -> str:
    bubbles = (
        f"A pipeline of {len(pipeline.stages)} stages, which wait for one another for "
        f"{pipeline.bubble_pct:.1f} % of the step"
    )
    if straggler.rank is None:
        longest = pipeline.stages[pipeline.occupied_longest]
        busy = longest.compute_ms + longest.held_ms
        return (
            f"{bubbles}: no stage stands out; stage {longest.stage} occupies its GPU longest, "
            f"{busy:.2f} ms per step."
        )
    stage = next(row.stage for row in pipeline.stages if straggler.rank in row.ranks)
    reasons = {"gpu": "its GPU", "load": "its load"}
    why = reasons.get(straggler.why, "a reason that is not known")
    return (
        f"{bubbles}: they wait for stage {stage} (rank {straggler.rank}), "
        f"{_of_step(straggler.step_share_pct or 0.0, step_ms)}, because of {why} "
        f"({as_percent(straggler.confidence)} confident)."
    )


def _hidden_us(analysis: Analysis, collectives: NDArray[np.int64]) -> float:
    """Mean time per call and rank in which the GPU computes as well."""
    total, count = 0, 0
    for place, rank in enumerate(analysis.run.ranks):
        rows = analysis.matched.index[collectives, place]
        hidden = rank.calls["hidden_ns"].gather(rows[rows >= 0])
        total, count = total + int(hidden.sum()), count + hidden.len()
    return total / max(1, count) / 1e3


def _collectives(analysis: Analysis) -> list[CollectiveRow]:
    """Collectives of the counted steps by kind, group and size, the most time first."""
    table = analysis.matched.table.with_row_index("at").filter(pl.Series(analysis.counted))
    even = ~pl.col("kind").is_in(["all_to_all", "dispatch", "combine"])
    power = pl.col("bytes").cast(pl.Float64).log(2).floor().cast(pl.Int64)
    size = pl.when(even).then("bytes").otherwise(power)
    rows = [
        _collective(analysis, alike)
        for _, alike in table.group_by("kind", "group", size.alias("size"), maintain_order=True)
    ]
    return sorted(rows, key=lambda row: -row.calls * (row.transfer_us + row.wait_us))


def _collective(analysis: Analysis, alike: pl.DataFrame) -> CollectiveRow:
    collectives = alike["at"].to_numpy()
    split = analysis.split
    transfer = float(np.nanmean(split.transfer[collectives])) / 1e3
    baseline = (
        float(np.nanmean(split.baseline[collectives]))
        if not np.isnan(split.baseline[collectives]).all()
        else None
    )
    classes = split.classes.gather(collectives)
    weights: dict[str, float] = {}
    for name, time in zip(
        classes,
        np.nanmean(split.wait[collectives] + split.transfer[collectives], axis=1),
        strict=True,
    ):
        weights[name] = weights.get(name, 0.0) + float(time)
    size = _mean(alike["bytes"])
    ranks = int((analysis.matched.index[collectives] >= 0).sum(1).max())
    group = members(alike["group"][0])
    # Without the list of its ranks, a group is those at hand, if none can be missing.
    whole = len(group) if group is not None else None if analysis.run.missing else ranks
    algorithm, bus = _bandwidth(alike["kind"][0], size, whole, transfer)
    counts = classes.value_counts(sort=True)
    return CollectiveRow(
        kind=alike["kind"][0],
        group=alike["group"][0],
        ranks=ranks,
        bytes=None if size is None else round(size),
        calls=alike.height,
        transfer_us=transfer,
        wait_us=float(np.nanmean(split.wait[collectives])) / 1e3,
        hidden_us=_hidden_us(analysis, collectives),
        baseline_us=None if baseline is None else baseline / 1e3,
        algbw_gbs=algorithm,
        busbw_gbs=bus,
        bound_gbs=_bound(analysis.run, group),
        kind_class=max(weights, key=lambda name: weights[name]),
        by_class=dict(counts.iter_rows()),
    )


def _factors(kind: str, ranks: int | None) -> tuple[float, float] | None:
    """Bytes that count for the algorithm and for the bus, per byte that a rank sends.

    `ranks` is the size of the group, whether its ranks are at hand or not; null when not known.
    """
    if kind in ("broadcast", "reduce", "send_receive"):
        return 1.0, 1.0
    if ranks is None or ranks < 2:
        return None
    others = (ranks - 1) / ranks
    if kind == "all_reduce":
        return 1.0, 2 * others
    if kind == "all_gather":
        return float(ranks), float(ranks - 1)
    if kind in ("reduce_scatter", "all_to_all", "dispatch", "combine"):
        return 1.0, others
    return None


def _bandwidth(
    kind: str, size: float | None, ranks: int | None, transfer_us: float
) -> tuple[float | None, float | None]:
    factors = _factors(kind, ranks)
    if size is None or factors is None or transfer_us <= 0:
        return None, None
    rate = size / transfer_us / 1e3
    return rate * factors[0], rate * factors[1]


def _bound(run: Run, group: tuple[int, ...] | None) -> float | None:
    """What the links between the GPUs of a group can do in one direction, GB/s.

    Between hosts the network decides, which no hardware file describes.
    """
    at_hand = {rank.rank: rank for rank in run.ranks}
    ranks = [at_hand.get(number) for number in group or ()]
    with_host = [rank for rank in ranks if rank is not None and rank.metadata.host is not None]
    if (
        not with_host
        or len(with_host) < len(ranks)
        or len({rank.metadata.host for rank in with_host}) > 1
    ):
        return None
    values = [_link(device) for rank in with_host for device in rank.metadata.devices]
    rates = [value for value in values if value is not None]
    return min(rates) if rates and len(rates) == len(values) else None


def _link(device: Device) -> float | None:
    try:
        card = match_device(device.name, device.compute_units, device.memory_bytes, device.arch)
    except SolscopeError:
        return None
    value = None if card is None else card.value("interconnect.bandwidth")
    return None if value is None else value / 2e9


def _warnings(analysis: Analysis) -> list[ProfileWarning]:
    warnings = list(analysis.run.warnings)
    if analysis.clock.reason is not None:
        text = f"{analysis.clock.reason}: waiting is estimated from durations alone"
        warnings.append(ProfileWarning("no_common_clock", text))
    total = sum(rank.calls.height for rank in analysis.run.ranks)
    lost = sum(analysis.matched.unmatched.values())
    if lost:
        text = f"{lost:,} of {total:,} collectives could be matched with none of another rank"
        warnings.append(ProfileWarning("unmatched_collectives", text))
    if analysis.matched.unrelated:
        names = ", ".join(map(str, analysis.matched.unrelated))
        text = f"collectives of rank {names} end together with those of no other rank"
        warnings.append(ProfileWarning("unrelated_ranks", text))
    return warnings
