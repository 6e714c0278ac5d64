"""Rare slow steps: what a mean does not see, and an on-call engineer does.

A step is *slow* when it takes much longer than the typical step of its own run and phase, so that a
run in which every step got slower has no more slow steps than before. Worked example: 40 steps of
3.7 ms, two of which take 23.7 ms. The median stays 3.7 ms, both are slow, and their excess over it,
2 x 20 ms, is 21 % of the run's time.

Slow steps are counted on both sides (Fisher's exact test), and the quantiles p90 and p99 of step
time over the typical step are tested by permutation. With few steps chance alone can put all slow
ones on one side; then at least two of them must be far beyond everything that the normal run has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from solscope.diagnose.matching.units import Stratum, Units
from solscope.diagnose.statistics.significance import fisher_p
from solscope.diagnose.statistics.two_samples import hodges_lehmann_ratio
from solscope.diagnose.thresholds import Thresholds
from solscope.intervals import Int64s
from solscope.resample import Floats, generator

QUANTILES = (0.9, 0.99)
SHUFFLES = 1000
CELLS = 1_000_000
"""Shuffled steps held in memory at a time."""


class TailQuantile(msgspec.Struct, frozen=True):
    """A quantile of step time on both sides; steps are taken as multiples of the typical one."""

    quantile: float
    normal_ms: float
    abnormal_ms: float
    p: float | None
    """Permutation test of the multiples; null with too few steps to see the quantile at all."""
    state: Literal["changed", "unclear", "not_tested"]


@dataclass(frozen=True)
class SlowSteps:
    """Slow steps of one side."""

    rows: Int64s
    """Indices of the run's steps."""
    steps: int
    """Steps looked at."""
    excess_share: float
    """Their time beyond the typical step, as part of all time."""
    largest: float
    """Largest excess of any step, in typical steps."""
    least: float
    """Least excess of a slow step, in the noisiest phase that has slow steps."""
    second: float
    """Second largest excess of any step, in typical steps: one accident does not count."""


@dataclass(frozen=True)
class Tails:
    """The slow steps of both runs."""

    normal: SlowSteps
    abnormal: SlowSteps
    p: float | None
    """Fisher's test of their numbers; null with too few steps."""
    quantiles: list[TailQuantile]
    worse: bool
    """True when the abnormal run has more slow steps than chance or accident explains."""
    better: bool
    """The same of the normal run: such steps are gone."""
    unclear: bool
    """True when it has more of them, and too few steps to say."""
    usual_ratio: float | None
    """Hodges-Lehmann ratio of the steps that are not slow; null where a side has none."""
    by_size: bool
    """True when `worse` or `better` rests on how long the slow steps take, because they are too few
    for a test of their number."""
    by_cause: bool = False
    """True when it rests on one known cause that all of them share, for the same reason."""


def compare_tails(units: Units, limits: Thresholds) -> Tails:
    """Count and test the slow steps of both runs, in phases that both have.

    Of runs cut into unlike units none are slow: pieces of a step differ by more than steps do, and
    their quantiles, times the number of pieces, are none of a step.
    """
    strata = units.common if units.factor == 1.0 else []
    normal, abnormal = (_slow(units, strata, side, limits) for side in (0, 1))
    p = None
    if min(normal.steps, abnormal.steps) >= limits.tail_steps:
        p = fisher_p(normal.rows.size, normal.steps, abnormal.rows.size, abnormal.steps)
    more = _grew(normal, abnormal, limits)
    worse = more and _sure(normal, abnormal, p, limits)
    better = _grew(abnormal, normal, limits) and _sure(abnormal, normal, p, limits)
    return Tails(
        normal=normal,
        abnormal=abnormal,
        p=p,
        quantiles=[_quantile(units, strata, q, limits) for q in QUANTILES] if strata else [],
        worse=worse,
        better=better,
        unclear=more and not worse,
        usual_ratio=_usual_ratio(units, strata, normal, abnormal),
        by_size=(worse or better) and p is not None and p >= limits.fdr,
    )


def _grew(before: SlowSteps, after: SlowSteps, limits: Thresholds) -> bool:
    """True when slow steps occur more often and cost more."""
    often = after.rows.size / max(1, after.steps) > before.rows.size / max(1, before.steps)
    return often and after.excess_share - before.excess_share >= limits.min_effect


def _sure(before: SlowSteps, after: SlowSteps, p: float | None, limits: Thresholds) -> bool:
    """True when several steps are slow, and neither chance nor accident explains them."""
    beyond = after.second >= limits.slow_step_beyond * max(before.largest, after.least)
    return after.rows.size >= 2 and p is not None and (p < limits.fdr or beyond)


def _walls(units: Units, stratum: Stratum, side: int) -> Floats:
    """Step times, ns, in units of the normal run."""
    if side == 0:
        return units.normal.wall[stratum.normal]
    return units.factor * units.abnormal.wall[stratum.abnormal]


def _excess(units: Units, stratum: Stratum, side: int) -> Floats:
    """Time of each step beyond the typical one of its run and phase, in typical steps."""
    walls = _walls(units, stratum, side)
    typical = float(np.median(walls)) if walls.size else 0.0
    return walls / typical - 1 if typical > 0 else np.zeros(walls.size)


def _noise(units: Units, stratum: Stratum, side: int) -> float:
    """Robust spread of steps, in typical steps."""
    return 1.4826 * float(np.median(np.abs(_excess(units, stratum, side))))


def _slow(units: Units, strata: list[Stratum], side: int, limits: Thresholds) -> SlowSteps:
    rows, spent, total, steps = [], 0.0, 0.0, 0
    excesses: list[float] = [0.0, 0.0]
    limit = limits.slow_step
    for stratum in strata:
        walls, excess = _walls(units, stratum, side), _excess(units, stratum, side)
        # Phases differ in their spread: prefills of unlike prompts must not hide slow decodes.
        noise = max(_noise(units, stratum, which) for which in (0, 1))
        least = max(limits.slow_step, limits.slow_step_noise * noise)
        slow = excess > least
        limit = max(limit, least) if slow.any() else limit
        rows.append((stratum.normal, stratum.abnormal)[side][slow])
        spent += float((walls[slow] * excess[slow] / (1 + excess[slow])).sum())
        total += float(walls.sum())
        steps += walls.size
        excesses += excess.tolist()
    return SlowSteps(
        rows=np.sort(np.concatenate([np.empty(0, np.int64), *rows])),
        steps=steps,
        excess_share=spent / total if total else 0.0,
        largest=max(excesses),
        least=limit,
        second=sorted(excesses)[-2],
    )


def _usual_ratio(
    units: Units, strata: list[Stratum], normal: SlowSteps, abnormal: SlowSteps
) -> float | None:
    """How much longer steps take that are slow on neither side, phases as in the normal run."""
    logs, sizes = [], []
    for stratum in strata:
        before, after = (
            _walls(units, stratum, side)[~np.isin(rows, slow.rows)]
            for side, rows, slow in (
                (0, stratum.normal, normal),
                (1, stratum.abnormal, abnormal),
            )
        )
        ratio = hodges_lehmann_ratio(before, after)
        if ratio is not None:
            logs.append(np.log(ratio))
            sizes.append(before.size)
    return float(np.exp(np.average(logs, weights=sizes))) if logs else None


def _quantile(
    units: Units, strata: list[Stratum], quantile: float, limits: Thresholds
) -> TailQuantile:
    walls = [np.concatenate([_walls(units, s, side) for s in strata]) for side in (0, 1)]
    before, after = (float(np.quantile(w, quantile)) / 1e6 for w in walls)
    multiples = [np.concatenate([_excess(units, s, side) for s in strata]) for side in (0, 1)]
    # A quantile that lies beyond the last step of a run is a guess: p99 needs 100 steps. Rounded,
    # because 10 * (1 - 0.9) is a little less than 1 in binary.
    if round(min(m.size for m in multiples) * (1 - quantile), 9) < 1:
        return TailQuantile(quantile, before, after, None, "not_tested")
    p = _permutation_p(multiples[0], multiples[1], quantile)
    return TailQuantile(quantile, before, after, p, "changed" if p < limits.fdr else "unclear")


def _permutation_p(normal: Floats, abnormal: Floats, quantile: float) -> float:
    """How often steps dealt at random to both sides have quantiles that differ as much."""
    draw = generator()
    both = np.concatenate([normal, abnormal])

    def differences(rows: Floats) -> Floats:
        before, after = (
            np.quantile(side, quantile, axis=1)
            for side in (rows[:, : normal.size], rows[:, normal.size :])
        )
        return np.abs(after - before)

    seen = float(differences(both[None, :])[0])
    as_far, at_once = 0, max(1, CELLS // both.size)
    for start in range(0, SHUFFLES, at_once):
        size = min(at_once, SHUFFLES - start)
        dealt = np.stack([draw.permutation(both) for _ in range(size)])
        as_far += int((differences(dealt) >= seen - 1e-12).sum())
    return (as_far + 1) / (SHUFFLES + 1)
