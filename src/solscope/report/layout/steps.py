"""Which steps a number is about, in words: the same in every command."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.attribution.usual_steps import OUTLIER, StepBasis
from solscope.report.layout.quantities import counted

_REASONS = {
    "cut": "{} cut off",
    "first": "the first",
    "last": "the last, which no step follows",
    "outlier": f"{{}} over {OUTLIER:g} times the median",
}


def steps_counted(basis: StepBasis, *, named: bool = True) -> str:
    """`10 of 12 decode steps (left out: 1 cut off, 1 over 2 times the median)`."""
    if not basis.steps:
        return "the whole recording (no steps found)"
    noun = f"{basis.phase} step" if basis.phase and named else "step"
    if basis.steps == basis.of:
        return counted(basis.steps, noun)
    return f"{basis.steps} of {counted(basis.of, noun)} ({_left_out(basis)})"


def mean_step(basis: StepBasis) -> str:
    """The step time, what it is the mean of, and where a step ends."""
    if not basis.steps:
        return f"recording of {basis.step_ms:,.3f} ms; no steps found"
    phase = f"{basis.phase} " if basis.phase else ""
    of = f"mean of {steps_counted(basis, named=False)}" if basis.of > 1 else "the only one"
    return f"{phase}step of {basis.step_ms:,.3f} ms {_end(basis)}, {of}"


def every_phase(bases: Sequence[StepBasis]) -> str:
    """The steps of all phases."""
    return "; ".join(steps_counted(basis) for basis in bases)


def _end(basis: StepBasis) -> str:
    if basis.measured == "extent":
        return "to its last activity (no step follows)"
    if basis.measured == "stated":
        return "as the file states it"
    return "to the start of the next"


def _left_out(basis: StepBasis) -> str:
    reasons = [
        text.format(count)
        for reason, text in _REASONS.items()
        if (count := getattr(basis.left_out, reason))
    ]
    return f"left out: {', '.join(reasons)}"
