"""One run against many: what is normal is learned from a set of recordings, not assumed.

Each recording of the baseline gives one number, its mean step with phases weighted alike. A further
run of the same program lies within the prediction interval of their logarithms. Worked example: ten
runs that differ by 2 % (standard deviation): a further one lies within 3.25 x 2 % x sqrt(1 + 1/10)
= 6.8 % of their mean, 99 times of 100. That band takes the place of the fixed 15 % and 4 %, and the
same of the host's pace. A run inside it has not changed, however far it is from any one recording.
Causes come from the comparison with the most typical recording.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from solscope.diagnose.diagnosis import Band, Diagnosis, diagnose_units
from solscope.diagnose.findings.host import operator_ratio
from solscope.diagnose.matching.units import (
    Side,
    fit_steps,
    left_out_alike,
    match,
    with_profiled,
)
from solscope.diagnose.statistics.prediction import (
    FEWEST,
    Prediction,
    outside_when_left_out,
    predict,
)
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.errors import InputError
from solscope.readers.packed import Observations
from solscope.resample import Floats

LEVEL = 0.99
"""How many of a hundred further runs of the same program lie inside the band."""
PhaseMeans = Mapping[str | None, tuple[int, float]]
"""Steps of each phase and their mean time, ms."""


def phase_means(side: Side) -> PhaseMeans:
    """Number and mean time of the fit steps of a run, by phase."""
    walls = side.wall / 1e6
    phases: dict[str | None, list[float]] = {}
    for index in side.fit.tolist():
        phases.setdefault(side.run.steps[index].phase, []).append(float(walls[index]))
    return {phase: (len(times), float(np.mean(times))) for phase, times in phases.items()}


def means_alike(
    runs: Sequence[Observations], limits: Thresholds = THRESHOLDS
) -> Sequence[PhaseMeans]:
    """The phases of several runs; steps that the profiler slows are left out of all or of none."""
    return [phase_means(side) for side in left_out_alike([fit_steps(r, limits) for r in runs])]


def means_of_all(run: Observations, limits: Thresholds = THRESHOLDS) -> PhaseMeans:
    """The same of one run with the steps that the profiler slows, as a store counts them."""
    return phase_means(with_profiled(fit_steps(run, limits)))


def step_times(runs: Sequence[PhaseMeans]) -> Floats:
    """The mean step of each run, ms, over the phases that all have, in the same shares."""
    common = set.intersection(*(set(run) for run in runs)) if runs else set()
    if not common:
        raise InputError("the recordings of the baseline have no phase in common")
    weight = {phase: sum(run[phase][0] for run in runs) for phase in common}
    total = sum(weight.values())
    return np.array([sum(weight[p] * run[p][1] for p in common) / total for run in runs])


def diagnose_against(
    baseline: Sequence[Observations], run: Observations, limits: Thresholds = THRESHOLDS
) -> Diagnosis:
    """Diagnose a run against a set of recordings of the same program."""
    require_enough(len(baseline))
    times = step_times(means_alike([*baseline, run], limits))
    typical = baseline[most_typical(times[:-1])]
    ratios = [operator_ratio(typical, recording, limits) for recording in baseline]
    paces = np.log([ratio for ratio in ratios if ratio is not None])
    return against_typical(typical, run, predicted(times[:-1]), paces, times, limits)


def against_typical(
    typical: Observations,
    run: Observations,
    expected: Prediction,
    paces: Floats,
    times: Floats,
    limits: Thresholds = THRESHOLDS,
    unseen: float = 0.0,
) -> Diagnosis:
    """The diagnosis against the most typical recording, with the learned band.

    `times` are the mean steps of the baseline and, last, of the run; `paces` the logarithms of how
    fast the host was in each recording of the baseline; `unseen` the part of a step that `times`
    of the baseline leave out: its noise is not learned, but assumed as without a baseline.
    """
    assumed = unseen * limits.host_noise
    learned_half = math.log1p((1 - unseen) * math.expm1(expected.half) + assumed)
    half = max(math.log1p(limits.min_effect), learned_half)
    noise = math.expm1(half)
    apart = math.log(times[-1]) - expected.center
    z = expected.z(math.log(times[-1]))
    pace = limits.most_pace
    if paces.size >= FEWEST:
        learned = predict(paces, LEVEL)
        pace = math.exp(max(math.log1p(limits.min_effect), abs(learned.center) + learned.half))
    band = Band(
        runs=expected.n,
        mean_ms=math.exp(expected.center),
        low_ms=math.exp(expected.center - learned_half),
        high_ms=math.exp(expected.center + learned_half),
        noise_pct=100 * noise,
        run_ms=float(times[-1]),
        z=z if math.isfinite(z) else None,
        outside=outside_when_left_out(np.log(times[:-1]), LEVEL, math.log1p(limits.min_effect)),
        typical=typical.run.name,
    )
    learned_limits = msgspec.structs.replace(
        limits, host_noise=noise, gpu_noise=noise, most_pace=pace
    )
    units = match(typical, run, learned_limits)
    diagnosis = diagnose_units(units, learned_limits, usual=abs(apart) <= half)
    return msgspec.structs.replace(diagnosis, baseline=band)


def unseen_share(stored: PhaseMeans, observed: PhaseMeans) -> float:
    """The part of a run's steps, start to start, that lies after their last end on the GPU.

    A store keeps steps without it. The host's code between steps is there.
    """
    common = stored.keys() & observed.keys()
    seen = sum(observed[phase][0] * stored[phase][1] for phase in common)
    whole = sum(observed[phase][0] * observed[phase][1] for phase in common)
    return min(1.0, max(0.0, 1 - seen / whole)) if whole > 0 else 1.0


def require_enough(runs: int) -> None:
    """Refuse a baseline that is too small to learn a band from."""
    if runs < FEWEST:
        raise InputError(
            f"a baseline needs at least {FEWEST} recordings, and there are {runs}; compare two "
            "runs with `solscope diagnose NORMAL ABNORMAL`"
        )


def predicted(times: Floats) -> Prediction:
    """The logarithm of the mean step of a further run."""
    return predict(np.log(times), LEVEL)


def most_typical(times: Floats) -> int:
    """Which recording is nearest to the mean of all."""
    logs = np.log(times)
    return int(np.argmin(np.abs(logs - logs.mean())))
