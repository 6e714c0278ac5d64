"""Why one of two profiles is slower, as `solscope diagnose` says it.

A comparison shows where the time is; a diagnosis tests the difference against noise and ranks
causes. It may take other steps than the comparison does (`matching/units.py`): where their numbers
differ, both are stated with what they are of.
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
    """Why there is none, or what the numbers of it are of, as a sentence."""
    cause: str | None = None
    """In words, with how sure it is; null where none is settled."""
    evidence: list[str] = field(default_factory=list)
    advice: str | None = None
    ratio: float | None = None
    """Step time of the slower profile over that of the faster one."""
    partly: bool = False
    """Whether that cause accounts for less than half of the difference."""

    def note_on(self, ratio: float | None, inverse: bool) -> str:
        """The note, where the comparison has another ratio; `inverse`: of faster over slower."""
        if ratio is None or self.ratio is None:
            return ""
        seen = 1 / ratio if inverse else ratio
        return "" if f"{seen:.2f}" == f"{self.ratio:.2f}" else self.note


def explain(
    faster: Attributed, slower: Attributed, phase: str | None, *, reverse: bool
) -> Explanation | None:
    """Diagnose the slower profile against the faster one; null where that is about other steps.

    `phase` is that of the steps which the comparison is about; `reverse` says that the slower
    profile is the first of the comparison.
    """
    try:
        units = match(observe(faster), observe(slower))
        found = diagnose_units(units)
    except InputError as error:
        return Explanation(None, f"No cause can be named: {error}.")
    if found.verdict == "cannot_compare":
        return Explanation(None, f"No cause can be named: {_refusal(units)}.")
    outcome = _SEEN_FROM_FASTER.get(found.verdict)
    about = phase in {stratum.phase for stratum in units.common}
    if outcome is None or not about or found.scope == "tail":
        return None
    settled = found.settled and found.why is not None
    return Explanation(
        outcome="improvement" if reverse and outcome == "regression" else outcome,
        note=_numbers(found, units, " (slower over faster)" if reverse else ""),
        cause=found.why if settled else None,
        evidence=_evidence(found) if settled and outcome == "regression" else [],
        advice=found.next_step if settled and outcome != "no_change" else None,
        partly=settled and outcome == "regression" and _partly(found),
        ratio=found.ratio,
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


def _numbers(found: Diagnosis, units: Units, of: str) -> str:
    """The ratio of the diagnosis, which way, and the steps that it is of."""
    bounds = found.ratio_ci95
    interval = "" if bounds is None else f" [{bounds[0]:.2f}, {bounds[1]:.2f}]"
    steps = f"{found.normal.steps} and {units.counted(found.abnormal.steps)}"
    reasons = dict.fromkeys([*found.normal.dropped, *found.abnormal.dropped])
    left_out = f" (left out: {', '.join(reasons)})" if reasons else ""
    return f"×{found.ratio:.2f}{interval}{of} in the diagnosis, which compares {steps}{left_out}."
