"""The classic comparison: shares of cycle time, counters, Z-scores and a suspicion score.

The statistics of per-cycle comparison reports, with their formulas as they are (`FORMULAS`), so
that users of such a report find every figure of it again, and with the warnings that those reports
lack. None of this is used by the diagnosis itself: its ranking is by precision, not by time.

Input is a cycle table (`events.CYCLE_SCHEMA`) per side. A row of the result is one function, metric
and device; it is based on the cycles in which that function has a reading of that metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.attribution import Attributed
from solscope.diagnose.classic.cycles import cycles_of
from solscope.diagnose.classic.processes import (
    ProcessPair,
    Tables,
    of_pair,
    paired_processes,
    unit_of,
    unmatched,
)
from solscope.diagnose.classic.warnings import classic_warnings
from solscope.diagnose.observe import observe
from solscope.diagnose.statistics.significance import mann_whitney_p, welch_p
from solscope.errors import UsageError
from solscope.profile import ProfileWarning
from solscope.readers.packed import Observations

FORMULAS = {
    "beta": "100 x time of the function in the cycle / time of the cycle; summed over threads",
    "mu": "mean reading of the metric while the function ran; interpolated with < 3 samples",
    "delta": "mean of the abnormal cycles - mean of the normal cycles",
    "z": "delta / std of the normal cycles (ddof 1); 0 when that std is <= 1e-9 or not known",
    "z_log_mu": "the same of log(1 + mu)",
    "p": "Welch's t-test from means and stds; 1 when n <= 1 on a side (not tested); nan for 0/0",
    "u_p": "Mann-Whitney, two-sided; 1 when n <= 1 on a side (not tested)",
    "suspicion_score": "|delta beta| x (|z beta| + |z log mu|), of unrounded values",
    "missing": "a side without the row counts as beta = 0 and mu = 0",
}
"""What every figure of the report is, in words."""
SMALLEST_STD = 1e-9
FINDING_FROM = 10.0
"""Rows above this score are findings."""
MOST_FINDINGS = 3
_KEY = ["name", "metric", "device"]
_Key: TypeAlias = tuple[str, str, int | None]

Floats = npt.NDArray[np.float64]


class ClassicSide(msgspec.Struct, frozen=True):
    """One run."""

    label: str
    unit: str
    """What a cycle is."""
    cycles: int
    mean_us: float
    durations_us: list[float]
    """Of all cycles, longest first."""
    rows: int
    """Rows of the cycle table."""
    without_reading: int
    """Rows without a counter reading: they are in no row of the report."""


class ClassicRow(msgspec.Struct, frozen=True):
    """One function, metric and device."""

    function: str
    metric: str
    device: str
    suspicion_score: float
    beta_normal_pct: float
    beta_abnormal_pct: float
    delta_beta_pct: float
    z_beta: float
    p_beta: float | None
    """Null where the test is 0/0."""
    u_p_beta: float
    mu_normal: float
    mu_abnormal: float
    delta_mu: float
    z_mu: float
    z_log_mu: float
    p_mu: float | None
    u_p_mu: float
    n_normal: int
    """Cycles behind the normal figures."""
    n_abnormal: int
    tested: bool
    """False when a p-value of 1 only says that there was nothing to test."""
    call_us_normal: float | None
    """Time of one call: what the share hides."""
    call_us_abnormal: float | None


class ScoredRow(NamedTuple):
    """What ranks a row, without the rest of it."""

    function: str
    metric: str
    device: str
    suspicion_score: float
    z_log_mu: float


class ClassicFinding(msgspec.Struct, frozen=True):
    """A function whose score is above the limit, with the rows that are."""

    function: str
    device: str
    rows: list[ClassicRow]


class Classic(msgspec.Struct, frozen=True):
    """The whole comparison."""

    normal: ClassicSide
    abnormal: ClassicSide
    like_units: bool
    delta_us: float | None
    """Of the mean cycle; null over unlike units."""
    change_pct: float | None
    findings: list[ClassicFinding]
    rows: list[ClassicRow]
    """By falling score."""
    formulas: dict[str, str]
    warnings: list[ProfileWarning]
    processes: list[int | None]
    """Process of the normal and of the abnormal run that this report is about; null if unknown."""
    others: list[Classic]
    """Reports of the other processes of these recordings; cycles of two are never mixed."""


def classic(
    normal: Attributed | Observations,
    abnormal: Attributed | Observations,
    labels: tuple[str, str] = ("normal", "abnormal"),
) -> Classic:
    """Compare two runs: those of cycles as they are, others cut into their steps."""
    return compare_cycles(_cycles(normal), _cycles(abnormal), labels)


def _cycles(run: Attributed | Observations) -> pl.DataFrame:
    if isinstance(run, Observations):
        return cycles_of(run)
    cycles = run.profile.cycles
    return cycles_of(observe(run)) if cycles is None else cycles


def compare_cycles(
    normal: pl.DataFrame, abnormal: pl.DataFrame, labels: tuple[str, str] = ("normal", "abnormal")
) -> Classic:
    """Compare two cycle tables, process by process; the one with most cycles comes first."""
    for table, label in zip((normal, abnormal), labels, strict=True):
        if table.is_empty():
            raise UsageError(f"{label}: no complete cycle, so there is nothing to compare")
    pairs, alone = paired_processes(normal, abnormal)
    first, *others = (_compared(of_pair(normal, abnormal, pair), pair, labels) for pair in pairs)
    warnings = [*first.warnings, *unmatched(alone, labels)]
    return msgspec.structs.replace(first, others=others, warnings=warnings)


def _compared(tables: Tables, pair: ProcessPair, labels: tuple[str, str]) -> Classic:
    """The report of one process on each side."""
    sides = [_side(table, label) for table, label in zip(tables, labels, strict=True)]
    main = [_main_unit(table) for table in tables]
    paired = _paired(main[0], main[1])
    rows = [_row(*pair, score) for pair, score in zip(paired, _scores(paired), strict=True)]
    rows.sort(key=_by_score)
    like = sides[0].unit == sides[1].unit
    delta = sides[1].mean_us - sides[0].mean_us if like else None
    return Classic(
        normal=sides[0],
        abnormal=sides[1],
        like_units=like,
        delta_us=delta,
        change_pct=None if delta is None else 100.0 * delta / sides[0].mean_us,
        findings=_findings(rows),
        rows=rows,
        formulas=FORMULAS,
        warnings=classic_warnings(sides[0], sides[1], rows, main[0], main[1]),
        processes=list(pair),
        others=[],
    )


def scored_rows(normal: pl.DataFrame, abnormal: pl.DataFrame) -> list[ScoredRow]:
    """Only the scores of `compare_cycles`, in its order; its tests take most of its time."""
    pairs, _ = paired_processes(normal, abnormal)
    before, after = of_pair(normal, abnormal, pairs[0])
    paired = _paired(_main_unit(before), _main_unit(after))
    return sorted(
        (
            ScoredRow(key[0], key[1], device_name(key[2]), score.suspicion, score.z_log_mu)
            for (key, _, _), score in zip(paired, _scores(paired), strict=True)
        ),
        key=_by_score,
    )


def _by_score(row: ClassicRow | ScoredRow) -> tuple[float, str, str, str]:
    return -row.suspicion_score, row.function, row.metric, row.device


def device_name(device: int | None) -> str:
    """As the report prints it."""
    return "Host" if device is None else f"GPU {device}"


def _main_unit(cycles: pl.DataFrame) -> pl.DataFrame:
    return cycles.filter(pl.col("anchor").cast(pl.String) == unit_of(cycles))


def _side(cycles: pl.DataFrame, label: str) -> ClassicSide:
    main = _main_unit(cycles)
    times = main.unique(["pid", "cycle", "start_ns"])["anchor_ns"].sort(descending=True) / 1e3
    return ClassicSide(
        label=label,
        unit=unit_of(cycles),
        cycles=times.len(),
        mean_us=float(times.mean() or 0.0),  # type: ignore[arg-type]
        durations_us=times.to_list(),
        rows=cycles.height,
        without_reading=cycles["metric"].null_count(),
    )


class _Group(msgspec.Struct, frozen=True):
    beta: Floats
    mu: Floats
    call_us: float | None


def _groups(cycles: pl.DataFrame) -> dict[_Key, _Group]:
    """Shares and readings by function, metric and device; one value per cycle."""
    table = (
        cycles.filter(pl.col("metric").is_not_null())
        .unique(["pid", "cycle", "start_ns", *_KEY], keep="first", maintain_order=True)
        .with_columns(pl.col("name", "metric").cast(pl.String))
        .group_by(_KEY, maintain_order=True)
        .agg("beta_pct", "mu", pl.col("dur_ns").sum(), pl.col("calls").sum())
    )
    return {
        (name, metric, device): _Group(
            np.array(beta), np.array(mu), dur / calls / 1e3 if calls else None
        )
        for name, metric, device, beta, mu, dur, calls in table.iter_rows()
    }


_NOTHING = _Group(np.empty(0), np.empty(0), None)


_Paired: TypeAlias = tuple[_Key, _Group, _Group]


def _paired(normal: pl.DataFrame, abnormal: pl.DataFrame) -> list[_Paired]:
    """Every row of either side; a side without it has no values."""
    before, after = _groups(normal), _groups(abnormal)
    keys = {**before, **after}
    return [(key, before.get(key, _NOTHING), after.get(key, _NOTHING)) for key in keys]


class _Score(NamedTuple):
    delta_beta: float
    z_beta: float
    z_log_mu: float

    @property
    def suspicion(self) -> float:
        return abs(self.delta_beta) * (abs(self.z_beta) + abs(self.z_log_mu))


def _scores(paired: list[_Paired]) -> list[_Score]:
    """Of every row; a run has a thousand of them, so that means are computed many at a time."""
    sides = ([before for _, before, _ in paired], [after for _, _, after in paired])
    betas = [_moments([group.beta for group in side]) for side in sides]
    logs = [_moments([_log(group.mu) for group in side]) for side in sides]
    return [
        _Score(after.mean - before.mean, _z(before, after), _z(log_before, log_after))
        for before, after, log_before, log_after in zip(*betas, *logs, strict=True)
    ]


def _row(key: _Key, a: _Group, b: _Group, score: _Score) -> ClassicRow:
    tested = min(a.beta.size, b.beta.size) > 1
    return ClassicRow(
        function=key[0],
        metric=key[1],
        device=device_name(key[2]),
        suspicion_score=score.suspicion,
        beta_normal_pct=_mean(a.beta),
        beta_abnormal_pct=_mean(b.beta),
        delta_beta_pct=score.delta_beta,
        z_beta=score.z_beta,
        p_beta=_welch(a.beta, b.beta) if tested else 1.0,
        u_p_beta=mann_whitney_p(a.beta, b.beta) if tested else 1.0,
        mu_normal=_mean(a.mu),
        mu_abnormal=_mean(b.mu),
        delta_mu=_mean(b.mu) - _mean(a.mu),
        z_mu=_z(*_moments([a.mu, b.mu])),
        z_log_mu=score.z_log_mu,
        p_mu=_welch(a.mu, b.mu) if tested else 1.0,
        u_p_mu=mann_whitney_p(a.mu, b.mu) if tested else 1.0,
        n_normal=a.beta.size,
        n_abnormal=b.beta.size,
        tested=tested,
        call_us_normal=a.call_us,
        call_us_abnormal=b.call_us,
    )


def _mean(values: Floats) -> float:
    """0 for no values, as the report has it."""
    return float(values.mean()) if values.size else 0.0


def _log(mu: Floats) -> Floats:
    """log(1 + mu); a reading below zero, which no counter has, counts as zero."""
    return np.log1p(np.maximum(mu, 0.0))


class _Moments(NamedTuple):
    mean: float = 0.0
    std: float = 0.0


def _moments(samples: Sequence[Floats]) -> list[_Moments]:
    """Mean and standard deviation of each sample, 0 where there is none; one size at a time."""
    moments = [_Moments()] * len(samples)
    by_size: dict[int, list[int]] = {}
    for index, values in enumerate(samples):
        by_size.setdefault(values.size, []).append(index)
    by_size.pop(0, None)
    for size, places in by_size.items():
        table = np.stack([samples[index] for index in places])
        stds = table.std(axis=1, ddof=1) if size > 1 else np.zeros(len(places))
        for index, mean, std in zip(
            places, table.mean(axis=1).tolist(), stds.tolist(), strict=True
        ):
            moments[index] = _Moments(mean, std)
    return moments


def _z(normal: _Moments, abnormal: _Moments) -> float:
    return (abnormal.mean - normal.mean) / normal.std if normal.std > SMALLEST_STD else 0.0


def _welch(normal: Floats, abnormal: Floats) -> float | None:
    p = welch_p(normal, abnormal)
    return None if p is None or math.isnan(p) else p


def _findings(rows: Sequence[ClassicRow]) -> list[ClassicFinding]:
    rows_of: dict[tuple[str, str], list[ClassicRow]] = {}
    for row in rows:
        if row.suspicion_score > FINDING_FROM:
            rows_of.setdefault((row.function, row.device), []).append(row)
    first = list(rows_of.items())[:MOST_FINDINGS]
    return [ClassicFinding(function, device, rows) for (function, device), rows in first]
