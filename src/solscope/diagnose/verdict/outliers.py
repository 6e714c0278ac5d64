"""Slow steps explain themselves: what they have that the other steps of the same run have not.

The slow steps of a run are compared with its other steps as if they were two runs. Sensors are left
out: their samples are too sparse to belong to single steps.
"""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import numpy as np

from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.parts import Parts, compare_parts, in_one_state
from solscope.diagnose.verdict.ranking import Ranking, rank

_NOT_SAMPLED = re.compile(r"\bnot (sampled|counted)\b")


class Outliers(msgspec.Struct, frozen=True):
    """The slow steps of the abnormal run."""

    steps: int
    """Steps that take much longer than the typical step of their phase."""
    of_steps: int
    normal_steps: int
    """The same in the normal run."""
    share_of_time_pct: float
    """Their time beyond the typical step, of all time."""
    p: float | None
    """Fisher's test of both numbers; null with too few steps."""
    cause: str | None
    """What sets them apart from the other steps; null when no cause fits."""
    where: str | None
    """Family of components that holds most of their excess."""


def outliers_of(f: Findings, ranking: Ranking | None) -> Outliers | None:
    """The slow steps, with what `ranking` of them says; null when there are none."""
    slow = f.tails.abnormal
    if not slow.rows.size:
        return None
    first = None if ranking is None else ranking.first
    return Outliers(
        steps=int(slow.rows.size),
        of_steps=slow.steps,
        normal_steps=int(f.tails.normal.rows.size),
        share_of_time_pct=100 * slow.excess_share,
        p=f.tails.p,
        cause=None if first is None or first.id == UNKNOWN else first.id,
        where=_where(f),
    )


def slow_against_others(f: Findings) -> Findings | None:
    """The slow steps of the abnormal run compared with its other steps of the same phases."""
    slow = f.tails.abnormal
    if not slow.rows.size:
        return None
    rows = np.concatenate([stratum.abnormal for stratum in f.units.common])
    parts = Parts(rows[~np.isin(rows, slow.rows)], slow.rows)
    units = compare_parts(f.abnormal, parts, sensors=False, limits=f.limits)
    return None if units is None else find(units, f.limits)


def rank_slow_steps(f: Findings) -> Ranking | None:
    """Causes of the slow steps."""
    compared = slow_against_others(f)
    if compared is None:
        return None
    ranking = rank(compared)
    return for_single_steps(ranking) if f.abnormal.counters else ranking


def with_explained_tail(f: Findings, ranking: Ranking | None) -> Findings:
    """The findings, with a few slow steps as a change of the tail where one known cause fits them.

    They are too few for a test of their number. The other run has none, all of them are longer in
    the same state of the GPU, and `ranking` is sure of what they have in common. The runs are also
    looked at from the other side, so that exchanging them exchanges the verdict.
    """
    if f.tails.worse or f.tails.better:
        return f
    if _one_cause(f, ranking):
        return replace(f, tails=replace(f.tails, worse=True, unclear=False, by_cause=True))
    if f.tails.normal.rows.size < 2 or f.swapped is None:
        return f
    if _one_cause(f.swapped, rank_slow_steps(f.swapped)):
        return replace(f, tails=replace(f.tails, better=True, by_cause=True))
    return f


def _one_cause(f: Findings, ranking: Ranking | None) -> bool:
    slow = f.tails.abnormal.rows
    if ranking is None or slow.size < 2 or not f.tails.unclear or f.tails.normal.rows.size:
        return False
    if f.tails.p is None or ranking.first.id == UNKNOWN:
        return False
    rows = np.concatenate([stratum.abnormal for stratum in f.units.common])
    usual = np.setdiff1d(rows, slow)
    return ranking.first.confidence >= f.limits.sure and in_one_state(f.abnormal, usual, slow)


def for_single_steps(ranking: Ranking) -> Ranking:
    """The ranking of steps of a run with sensors: what is missing are samples of single steps."""
    return replace(
        ranking,
        missing=[_per_step(text) for text in ranking.missing],
        excluded=[msgspec.structs.replace(e, reason=_per_step(e.reason)) for e in ranking.excluded],
    )


def _per_step(text: str) -> str:
    """The reason that names a missing sensor, limited to single steps."""
    return _NOT_SAMPLED.sub(r"\g<0> for single steps", text)


def _where(f: Findings) -> str | None:
    compared = slow_against_others(f)
    if compared is None:
        return None
    families = compared.parts.by_family
    return max(families, key=lambda family: families[family])
