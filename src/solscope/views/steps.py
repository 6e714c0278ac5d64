"""Steps of a profile: how many of each phase, how long they took, and the gaps between them.

The time of a step is from the first start to the last end of its GPU activities. Steps that the
profile shows only in part are counted, but left out of the statistics.
"""

from __future__ import annotations

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.readers.observations import observed_steps

StepTimes = dict[str | None, list[float]]
"""Step times in ms, in order, by phase."""


class PhaseSteps(msgspec.Struct, frozen=True):
    """Steps of one phase."""

    phase: str | None
    count: int
    p50_ms: float
    """Of the time from the first start to the last end of a step's activities; so are the others.
    """
    p90_ms: float
    p99_ms: float
    gap_p50_ms: float | None
    """Median time from the end of such a step to the start of the next; negative where steps
    overlap, null for a single step."""
    requests: float | None
    """Mean number of requests in a step, if annotations state it."""
    tokens: float | None
    """Mean number of tokens in a step, if annotations state it."""
    tokens_per_s: float | None
    """Tokens of these steps over their time and the gaps after them."""
    tpot_ms: float | None
    """Decode only: mean time from the start of a step to the start of the next."""


class StepSummary(msgspec.Struct, frozen=True):
    """All steps of a profile."""

    count: int
    cut: int
    """Steps that the profile shows only in part."""
    found_by: str | None
    """How the steps were found: annotation, graph_launch, kernel_period or whole_profile; `anchor
    NAME` for a profile that its maker cut into cycles."""
    phases: list[PhaseSteps]


def step_summary(attributed: Attributed) -> StepSummary:
    """Statistics of the steps, phase by phase."""
    steps = _steps(attributed)
    phases = sorted((_phase(of_phase) for of_phase in _by_phase(steps)), key=lambda p: -p.count)
    if attributed.profile.observations is not None:
        # Its steps have no ends of their own, so what lies between two of them is not known.
        phases = [msgspec.structs.replace(phase, gap_p50_ms=None) for phase in phases]
    return StepSummary(
        count=steps.height,
        cut=int(steps["cut"].sum()),
        found_by=None if steps.is_empty() else steps["found_by"][-1],
        phases=phases,
    )


def step_times(attributed: Attributed) -> StepTimes:
    """Times of the whole steps in order, by phase."""
    return {
        of_phase["phase"][0]: (of_phase["dur_ns"] / 1e6).to_list()
        for of_phase in _by_phase(_steps(attributed))
    }


def _steps(attributed: Attributed) -> pl.DataFrame:
    if attributed.profile.observations is not None:
        return observed_steps(attributed.profile.observations, attributed.profile.path)
    if attributed.profile.cycles is not None:
        return _cycles(attributed.profile.cycles)
    # Ranks and processes of a merged profile run the same steps; those of the first are used.
    first = (pl.col("process") == 0) & pl.col("start_ns").is_not_null()
    return attributed.steps.filter(first).sort("start_ns")


def _by_phase(steps: pl.DataFrame) -> list[pl.DataFrame]:
    """The whole steps of each phase, with their times and the gaps after them."""
    timed = steps.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
        (pl.col("start_ns").shift(-1) - pl.col("end_ns")).alias("gap_ns"),
    ).filter(~pl.col("cut"))
    return timed.partition_by("phase", maintain_order=True)


def _cycles(cycles: pl.DataFrame) -> pl.DataFrame:
    """Cycles as steps; where no start is recorded they follow one another."""
    once = cycles.unique(["pid", "cycle", "start_ns"], keep="first", maintain_order=True)
    begun = pl.coalesce("start_ns", pl.col("anchor_ns").cum_sum() - pl.col("anchor_ns"))
    return once.select(
        begun.alias("start_ns"),
        (begun + pl.col("anchor_ns")).alias("end_ns"),
        pl.lit(None, pl.String).alias("phase"),
        pl.lit(None, pl.Int64).alias("requests"),
        pl.lit(None, pl.Int64).alias("tokens"),
        pl.lit(False).alias("cut"),
        pl.format("anchor {}", pl.col("anchor").cast(pl.String)).alias("found_by"),
    ).sort("start_ns", maintain_order=True)


def _phase(steps: pl.DataFrame) -> PhaseSteps:
    quantile = {q: steps["dur_ns"].quantile(q, "linear") or 0.0 for q in (0.5, 0.9, 0.99)}
    gaps = steps["gap_ns"].drop_nulls()
    tokens = steps.filter(pl.col("tokens").is_not_null())
    elapsed = int(tokens["dur_ns"].sum()) + int(tokens["gap_ns"].sum())
    return PhaseSteps(
        phase=steps["phase"][0],
        count=steps.height,
        p50_ms=quantile[0.5] / 1e6,
        p90_ms=quantile[0.9] / 1e6,
        p99_ms=quantile[0.99] / 1e6,
        gap_p50_ms=None if gaps.is_empty() else _number(gaps.median()) / 1e6,
        requests=_mean(steps["requests"]),
        tokens=_mean(steps["tokens"]),
        tokens_per_s=1e9 * int(tokens["tokens"].sum()) / elapsed if elapsed else None,
        tpot_ms=_tpot(steps),
    )


def _tpot(steps: pl.DataFrame) -> float | None:
    followed = steps.filter(pl.col("gap_ns").is_not_null())
    if steps["phase"][0] != "decode" or followed.is_empty():
        return None
    return (int(followed["dur_ns"].sum()) + int(followed["gap_ns"].sum())) / followed.height / 1e6


def _mean(series: pl.Series) -> float | None:
    value = series.mean()
    return None if value is None else _number(value)


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)
