"""Why one of two profiles is slower, as `solscope diagnose` says it.

A comparison shows where the time is; a diagnosis tests the difference against noise and ranks
causes. It is made of the phase alone that the comparison speaks of: what changed another phase is
no reason. Of that phase it may take fewer steps (`matching/units.py`). The ratio is that of the
comparison where the interval of the diagnosis holds it; else both are stated with what they are of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from solscope.attribution import Attributed
from solscope.diagnose.diagnosis import Diagnosis, diagnose_units
from solscope.diagnose.matching.units import Units, match
from solscope.diagnose.observe import observe
from solscope.diagnose.verdict.ranking import NamedCause
from solscope.errors import InputError
from solscope.readers.packed import Observations

Outcome = Literal["regression", "improvement", "no_change", "workload_changed"]
MOST_EVIDENCE = 2
"""Lines; the diagnosis has all of them."""
HALF_PCT = 50.0
"""A cause that accounts for less of the difference is told as a part of why."""
_SEEN_FROM_FASTER: dict[str, Outcome] = {
    "regression": "regression",
    "no_change": "no_change",
    "workload_changed": "workload_changed",
}
"""Verdicts on the slower profile; others contradict the comparison, or are none."""


@dataclass(frozen=True)
class Explanation:
    """What a diagnosis adds to a comparison of two profiles."""

    outcome: Outcome | None
    """How the other profile differs from the first; null where there is no diagnosis."""
    note: str
    """Why there is none, or what else the whole diagnosis takes, as a sentence; or empty."""
    cause: str | None = None
    """In words, with how sure it is; null where none is settled."""
    evidence: list[str] = field(default_factory=list)
    advice: str | None = None
    ratio: float | None = None
    """Step time of the slower profile over that of the faster one."""
    interval: tuple[float, float] | None = None
    """Of that ratio, 95 %."""
    steps: str = ""
    """What it compares, in words."""
    partly: bool = False
    """Whether that cause accounts for less than half of the difference."""

    def note_on(self, ratio: float | None, inverse: bool) -> str:
        """What the ratio of a comparison is in a diagnosis; `inverse`: of faster over slower."""
        if ratio is None or self.ratio is None:
            return ""
        own, bounds = self.ratio, self.interval
        if inverse:
            own, bounds = 1 / own, None if bounds is None else (1 / bounds[1], 1 / bounds[0])
        if f"{own:.2f}" == f"{ratio:.2f}":
            return ""
        within = "" if bounds is None else f"[{bounds[0]:.2f}, {bounds[1]:.2f}]"
        if bounds is not None and bounds[0] <= ratio <= bounds[1]:
            return (
                f"The diagnosis compares {self.steps}: its 95 % interval of the ratio is {within}."
            )
        return f"The diagnosis compares {self.steps}, which take ×{own:.2f} {within}".rstrip() + "."


def explain(
    faster: Attributed, slower: Attributed, phase: str | None, *, reverse: bool
) -> Explanation | None:
    """Diagnose steps of a phase of the slower profile against those of the faster one.

    `phase` is that of the steps which the comparison is about; `reverse` says that the slower
    profile is the first of the comparison. Null where only rare steps differ, or the other way.
    """
    try:
        runs = observe(faster), observe(slower)
        units = match(*runs, phases=(phase,))
        found = diagnose_units(units)
    except InputError as error:
        return Explanation(None, f"No cause can be named: {error}.")
    if found.verdict == "cannot_compare":
        return Explanation(None, f"No cause can be named: {_refusal(units)}.")
    outcome = _SEEN_FROM_FASTER.get(found.verdict)
    if outcome is None or found.scope == "tail":
        return None
    settled = found.settled and found.why is not None
    return Explanation(
        outcome="improvement" if reverse and outcome == "regression" else outcome,
        note=_others(runs, phase) if settled else "",
        cause=found.why if settled else None,
        evidence=_evidence(found) if settled and outcome == "regression" else [],
        advice=found.next_step if settled and outcome != "no_change" else None,
        partly=settled and outcome == "regression" and _partly(found),
        ratio=found.ratio,
        interval=None if found.ratio_ci95 is None else (found.ratio_ci95[0], found.ratio_ci95[1]),
        steps=_steps(found, units),
    )


def _refusal(units: Units) -> str:
    """Why a diagnosis says nothing."""
    if units.comparable == "refuse":
        return "; ".join(units.reasons)
    sizes = ", ".join(f"{one.normal.size}/{one.abnormal.size}" for one in units.common)
    return f"too few steps to test (n = {sizes})"


def _named(found: Diagnosis) -> list[NamedCause]:
    """The causes that the reason names."""
    return [cause for cause in found.causes if cause.title in (found.why or "")]


def _evidence(found: Diagnosis) -> list[str]:
    """What speaks most for the causes that are named: of each before more of one."""
    lines = zip_longest(*(cause.evidence for cause in _named(found)))
    return [line for each in lines for line in each if line is not None][:MOST_EVIDENCE]


def _partly(found: Diagnosis) -> bool:
    """Whether a single cause is named, and most of the difference is not its doing."""
    named = _named(found)
    share = named[0].explains_pct if len(named) == 1 else None
    return share is not None and share < HALF_PCT


def _others(runs: tuple[Observations, Observations], phase: str | None) -> str:
    """What a diagnosis of all phases takes besides."""
    others = [stratum.phase for stratum in match(*runs).strata if stratum.phase != phase]
    if not others:
        return ""
    named = " and ".join(other or "unnamed" for other in others)
    return (
        f"The cause is that of {phase or 'unnamed'} steps alone; `solscope diagnose` also takes "
        f"{named} steps."
    )


def _steps(found: Diagnosis, units: Units) -> str:
    """The steps of a diagnosis, and why others are left out."""
    steps = f"{found.normal.steps} and {units.counted(found.abnormal.steps)}"
    reasons = dict.fromkeys([*found.normal.dropped, *found.abnormal.dropped])
    return f"{steps} (left out: {', '.join(reasons)})" if reasons else steps
