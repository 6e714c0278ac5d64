"""What a diagnosis, or a baseline, says of one pair of recordings, in a form that can be scored."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from solscope.lab.pairs import NO_FAULT, Pair
from solscope.lab.rankers import RANKERS, Compared
from solscope.readers.packed import Observations

OURS = "solscope"
"""Name of our own diagnosis among the rankers."""
UNKNOWN = "unknown"
QUIET = (NO_FAULT, UNKNOWN)
"""First causes that raise no alarm."""
ALARMS = ("regression", "workload_changed")
SMALLEST_BAND = math.log(1.03)


class Answer(msgspec.Struct, frozen=True):
    """What one of them says."""

    causes: list[str]
    """In order; empty if nothing stands out."""
    alarm: bool
    """True when it claims that something is wrong."""
    verdict: str | None = None
    """Of our diagnosis: `regression`, `no_change`, ...; null for a baseline."""
    latent: list[str] = []
    """Causes of changes that it found to be hidden."""
    confidences: list[float] = []
    """Of the causes, in their order; empty for a baseline."""
    closure_pct: float | None = None
    """How far the parts of the difference are from adding up to it."""

    def rank(self, expected: list[str]) -> int | None:
        """Place of the first right cause, from 1 on; null when none is named."""
        places = (place for place, cause in enumerate(self.causes, 1) if cause in expected)
        return next(places, None)

    def without(self, causes: list[str]) -> tuple[str, float]:
        """The first cause, and its confidence, if `causes` were not in the table of causes.

        Confidences are a softmax, so that leaving some out scales up the others.
        """
        pairs = zip(self.causes, self.confidences, strict=True)
        others = [(cause, share) for cause, share in pairs if cause not in causes]
        total = sum(share for _, share in others)
        return (others[0][0], others[0][1] / total) if others and total > 0 else (UNKNOWN, 1.0)


Diagnose = Callable[[Observations, Observations], Answer]


class Answered(msgspec.Struct, frozen=True):
    """One pair and all answers to it."""

    pair: Pair
    ratio: float
    """Mean step time in the recordings, abnormal over normal."""
    answers: dict[str, Answer]


def answer_all(
    pair: Pair, normal: Observations, abnormal: Observations, ours: Diagnose
) -> Answered:
    """Ask our diagnosis and every baseline about a pair."""
    compared = Compared(normal, abnormal)
    answers = {OURS: ours(normal, abnormal)}
    for name, ranker in RANKERS.items():
        causes = ranker(compared)
        answers[name] = Answer(causes=causes, alarm=bool(causes))
    return Answered(pair, step_ratio(normal, abnormal), answers)


def step_ratio(normal: Observations, abnormal: Observations) -> float:
    """Mean wall time of whole steps but the first, abnormal over normal; nan without any."""
    means = []
    for observed in (normal, abnormal):
        wall = [step.wall_ns for step in observed.steps[1:] if step.whole]
        means.append(float(np.mean(wall)) if wall else math.nan)
    return means[1] / means[0]


def band_key(pair: Pair) -> str:
    """What shares one band: halves were recorded apart, on machines that may differ."""
    return f"{pair.half} {pair.mode}"


def noise_bands(answered: list[Answered]) -> dict[str, float]:
    """How far the step times of pairs without a fault lie apart, as |log ratio|, by `band_key`.

    The 99 % quantile, which with a hundred pairs or fewer is the largest; never below 3 %.
    """
    ratios: dict[str, list[float]] = {}
    for item in answered:
        spread = ratios.setdefault(band_key(item.pair), [])
        if item.pair.is_control:
            spread.append(abs(math.log(item.ratio)))
    return {
        key: max([SMALLEST_BAND, float(np.quantile(spread, 0.99))] if spread else [SMALLEST_BAND])
        for key, spread in ratios.items()
    }
