"""The work of a call before and after a change, by what both GPUs have a figure for."""

from __future__ import annotations

from solscope.errors import UsageError
from solscope.hardware import Hardware
from solscope.operators import operator
from solscope.operators.cost import Cost
from solscope.roofline import Bound, bound
from solscope.whatif.recorded_step import Line, RecordedStep
from solscope.whatif.scaling import PRODUCTS

_NEEDED = ("tensor", "hbm")
"""Units without which the bound of a call says nothing about its time."""


def least(name: str, axes: dict[str, object], card: Hardware) -> Bound:
    """Terms of a call with all memory from HBM."""
    entry = operator(name)
    cost: Cost = entry.expected(axes) if entry.expected is not None else entry.cost(axes)
    return bound(cost, card, cold=True)


def work_us(before: Bound, after: Bound) -> tuple[float, float] | None:
    """Least times (µs) without the floor of a launch; null where a needed peak is not known.

    A unit that one of two GPUs has no figure for would be infinitely fast there, so it counts on
    neither.
    """
    if lacking(before) or lacking(after):
        return None
    ignored = {"launch", *(_unit(term) for term in (*before.missing, *after.missing))}
    return _largest(before, ignored), _largest(after, ignored)


def lacking(least_time: Bound) -> list[str]:
    """Needed peaks that the hardware file has no figure for."""
    return [term for term in least_time.missing if _unit(term) in _NEEDED]


def is_costed(line: Line, card: Hardware) -> bool:
    """Whether the cost of a call, and the peaks of its own GPU for it, are known."""
    if line.kind.operator is None or line.kind.cost is None:
        return False
    return not lacking(least(line.kind.operator, line.kind.axes, card))


def costed_pct(step: RecordedStep) -> float:
    """Share of the GPU time of a step that scales with the work."""
    total = sum(line.calls * line.time_us for line in step.lines)
    costed = sum(n.calls * n.time_us for n in step.lines if is_costed(n, step.card))
    return 100.0 * costed / total if total else 0.0


def refuse_unknown_peak(line: Line, after: Bound, card: Hardware, dtype: str | None) -> None:
    """A usage error where the GPU of a scenario has no peak for what a call would need."""
    for term in lacking(after):
        if _unit(term) == "hbm":
            raise UsageError(f"{card.name}: the bandwidth of its memory (hbm) is not known")
        needed = term.removeprefix("tensor.")
        if needed == dtype:
            raise UsageError(
                f"{card.name} has no peak for {dtype}: --dtype {dtype} cannot be predicted"
            )
        other = "; give --dtype" if dtype is None and line.kind.operator in PRODUCTS else ""
        raise UsageError(
            f"{card.name} has no peak for {needed}, which {line.kind.operator} was recorded in"
            f"{other}"
        )


def _largest(least_time: Bound, ignored: set[str]) -> float:
    times = (time for term, time in least_time.terms_us.items() if _unit(term) not in ignored)
    return max(times, default=0.0)


def _unit(term: str) -> str:
    return term.partition(".")[0]
