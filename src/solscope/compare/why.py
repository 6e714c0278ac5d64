"""Why one of two profiles is slower, as `solscope diagnose` says it.

A comparison shows where the time is; a diagnosis tests the difference against noise and ranks
causes. It may take other steps than the comparison does (`matching/units.py`): where their numbers
differ, both are stated with what they are of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from solscope.attribution import Attributed
from solscope.diagnose.diagnosis import Diagnosis, diagnose_units
from solscope.diagnose.matching.units import Units, match
from solscope.diagnose.observe import observe

Outcome = Literal["regression", "improvement", "no_change", "workload_changed"]
MOST_EVIDENCE = 2
"""Lines; the diagnosis has all of them."""
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
    units = match(observe(faster), observe(slower))
    found = diagnose_units(units)
    if found.verdict == "cannot_compare":
        return Explanation(None, f"No cause can be named: {_refusal(units)}.")
    outcome = _SEEN_FROM_FASTER.get(found.verdict)
    about = phase in {stratum.phase for stratum in units.common}
    if outcome is None or not about or found.scope == "tail":
        return None
    settled = found.settled and found.why is not None
    return Explanation(
        outcome="improvement" if reverse and outcome == "regression" else outcome,
        note=_numbers(found, units),
        cause=found.why if settled else None,
        evidence=_evidence(found) if settled and outcome == "regression" else [],
        advice=found.next_step if settled and outcome != "no_change" else None,
        ratio=found.ratio,
    )


def _refusal(units: Units) -> str:
    """Why a diagnosis says nothing."""
    if units.comparable == "refuse":
        return "; ".join(units.reasons)
    sizes = ", ".join(f"{one.normal.size}/{one.abnormal.size}" for one in units.common)
    return f"too few steps to test (n = {sizes})"


def _evidence(found: Diagnosis) -> list[str]:
    """What speaks most for the causes that are named."""
    named = [cause for cause in found.causes if cause.title in (found.why or "")]
    return [line for cause in named for line in cause.evidence][:MOST_EVIDENCE]


def _numbers(found: Diagnosis, units: Units) -> str:
    """The ratio of the diagnosis, and the steps that it is of."""
    bounds = found.ratio_ci95
    interval = "" if bounds is None else f" [{bounds[0]:.2f}, {bounds[1]:.2f}]"
    steps = f"{found.normal.steps} and {units.counted(found.abnormal.steps)}"
    reasons = dict.fromkeys([*found.normal.dropped, *found.abnormal.dropped])
    left_out = f" (left out: {', '.join(reasons)})" if reasons else ""
    return f"×{found.ratio:.2f}{interval} in the diagnosis, which compares {steps}{left_out}."
