"""Steps of a profile: how many of each phase, how long they take, and the gaps between them.

Which steps numbers are about, and what the step time is, `attribution/usual_steps.py` defines.
Quantiles are of the step time too, but over outliers as well: tails are what they are for. With
few steps a high quantile would be no more than the slowest step: then it is null.
"""

from __future__ import annotations

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis, UsualSteps, select_usual

StepTimes = dict[str | None, list[float]]
"""Step times in ms, in order, by phase."""
LEAST_STEPS = {0.5: 1, 0.9: 10, 0.99: 100}
"""With fewer steps, such a quantile is no more than the slowest one."""


class PhaseSteps(msgspec.Struct, frozen=True):
    """Steps of one phase."""

    phase: str | None
    basis: StepBasis
    """The steps that `requests`, `tokens`, `tokens_per_s` and `tpot_ms` are about, their step time,
    and which ones were left out."""
    count: int
    """Steps that the quantiles are over: usual steps and outliers."""
    p50_ms: float
    """Median of the step time."""
    p90_ms: float | None
    """Null with fewer than `LEAST_STEPS`; the same for p99."""
    p99_ms: float | None
    slowest_ms: float
    """The longest step time."""
    gap_p50_ms: float | None
    """Median time from the end of such a step to the start of the next; negative where steps
    overlap, null where no step follows."""
    requests: float | None
    """Mean number of requests in a step, if annotations state it."""
    tokens: float | None
    """Mean number of tokens in a step, if annotations state it."""
    tokens_per_s: float | None
    """Tokens of a step over the step time."""
    tpot_ms: float | None
    """Decode only: the step time, where a step follows."""


class StepSummary(msgspec.Struct, frozen=True):
    """All steps of a profile."""

    count: int
    cut: int
    """Steps that the profile shows only in part."""
    found_by: str | None
    """How the steps were found: annotation, graph_launch, kernel_period, turns or whole_profile;
    `anchor NAME` for a profile that its maker cut into cycles."""
    phases: list[PhaseSteps]


def step_summary(attributed: Attributed) -> StepSummary:
    """Statistics of the steps, phase by phase."""
    steps = _steps(attributed)
    phases = sorted(map(_phase, _select(attributed, steps)), key=lambda phase: -phase.basis.of)
    if attributed.profile.observations is not None:
        # Its steps have no ends of their own, so what lies between two of them is not known.
        phases = [msgspec.structs.replace(phase, gap_p50_ms=None) for phase in phases]
    if attributed.profile.cycles is not None:
        phases = [msgspec.structs.replace(phase, gap_p50_ms=_gap_ms(steps)) for phase in phases]
    return StepSummary(
        count=steps.height,
        cut=int(steps["cut"].sum()),
        found_by=None if steps.is_empty() else steps["found_by"][-1],
        phases=phases,
    )


def step_times(attributed: Attributed) -> StepTimes:
    """Step times that the quantiles are over, in order, by phase."""
    return {
        usual.phase: (usual.with_outliers["wall_ns"] / 1e6).to_list()
        for usual in _select(attributed, _steps(attributed))
    }


def _gap_ms(steps: pl.DataFrame) -> float | None:
    """Median time from the end of a cycle to the start of the next; null with one cycle."""
    gaps = pl.col("start_ns").shift(-1).over("process") - pl.col("end_ns")
    median = steps.select(gaps).to_series().median()
    return None if median is None else _number(median) / 1e6


def _select(attributed: Attributed, steps: pl.DataFrame) -> list[UsualSteps]:
    """The usual steps; a file of cycles states the length of each, also that of the last."""
    return select_usual(steps, stated=attributed.profile.cycles is not None)


def _steps(attributed: Attributed) -> pl.DataFrame:
    if attributed.profile.observations is not None:
        from solscope.readers.observations import observed_steps

        observed = observed_steps(attributed.profile.observations, attributed.profile.path)
        return observed.with_row_index("step").with_columns(pl.lit(0).alias("process"))
    if attributed.profile.cycles is not None:
        return _cycles(attributed.profile.cycles)
    # Ranks and processes of a merged profile run the same steps; those of the first are used.
    first = (pl.col("process") == 0) & pl.col("start_ns").is_not_null()
    return attributed.steps.filter(first).sort("start_ns")


def _cycles(cycles: pl.DataFrame) -> pl.DataFrame:
    """Cycles as steps; where no start is recorded they follow one another."""
    once = cycles.unique(["pid", "cycle", "start_ns"], keep="first", maintain_order=True)
    before = pl.col("anchor_ns").cum_sum().over("pid") - pl.col("anchor_ns")
    begun = pl.coalesce("start_ns", before)
    return (
        once.select(
            begun.alias("start_ns"),
            (begun + pl.col("anchor_ns")).alias("end_ns"),
            pl.lit(None, pl.String).alias("phase"),
            pl.lit(None, pl.Int64).alias("requests"),
            pl.lit(None, pl.Int64).alias("tokens"),
            pl.lit(False).alias("cut"),
            pl.format("anchor {}", pl.col("anchor").cast(pl.String)).alias("found_by"),
            pl.col("pid").rank("dense").fill_null(0).alias("process"),
        )
        .sort("start_ns", maintain_order=True)
        .with_row_index("step")
    )


def _phase(usual: UsualSteps) -> PhaseSteps:
    measured = usual.with_outliers
    followed = usual.measured == "start_to_start"
    gaps = (measured["until_ns"] - measured["end_ns"]).median() if followed else None
    counted = usual.table.filter(pl.col("tokens").is_not_null())
    elapsed = int(counted["wall_ns"].sum())

    def quantile(q: float) -> float | None:
        if measured.height < LEAST_STEPS[q]:
            return None
        return _number(measured["wall_ns"].quantile(q, "linear")) / 1e6

    return PhaseSteps(
        phase=usual.phase,
        basis=usual.basis,
        count=measured.height,
        p50_ms=quantile(0.5) or 0.0,
        p90_ms=quantile(0.9),
        p99_ms=quantile(0.99),
        slowest_ms=_number(measured["wall_ns"].max()) / 1e6,
        gap_p50_ms=None if gaps is None else _number(gaps) / 1e6,
        requests=_mean(usual.table["requests"]),
        tokens=_mean(usual.table["tokens"]),
        tokens_per_s=1e9 * int(counted["tokens"].sum()) / elapsed if elapsed else None,
        tpot_ms=usual.mean_ns / 1e6 if followed and usual.phase == "decode" else None,
    )


def _mean(series: pl.Series) -> float | None:
    value = series.mean()
    return None if value is None else _number(value)


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)
