"""The contract of a cause: what must be seen, what speaks for it, what rules it out.

A check asks the findings one question. It answers yes, no, or null where the recordings do not
tell: a missing sensor says nothing, for or against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from solscope.diagnose.findings import Findings

SEPARATOR = "; "
"""Between the texts of checks that answer together."""


class Answer(NamedTuple):
    """What a check found, with the numbers in words."""

    holds: bool | None
    text: str


Check = Callable[[Findings], Answer]


class Support(NamedTuple):
    """A check that is not required: its weight if it holds; half of that against if it does not."""

    weight: float
    check: Check


@dataclass(frozen=True)
class Cause:
    """One cause that a diagnosis can name."""

    id: str
    family: str
    """workload, host, gpu, link or software."""
    title: str
    summary: str
    """What happens, in one or two sentences."""
    strength: float
    """Score when all required checks hold: 3 for direct evidence, 2 for a pattern that little else
    leaves, 1 for what remains when the direct evidence of other causes is missing."""
    required: tuple[Check, ...]
    """All must hold; they say that the thing is there."""
    explains: Callable[[Findings], float]
    """Part of the difference that it can account for, 0 to 1."""
    supporting: tuple[Support, ...] = ()
    forbidden: tuple[Check, ...] = ()
    """None may hold."""
    confirm: str = ""
    """What to run next to confirm it."""
    can_hide: bool = False
    """True when it can be there without slowing anything down; it is then listed as latent."""
    detail: Callable[[Findings], str] | None = None
    """Adds a fact to the title: the name of a section, say."""


def any_of(*checks: Check) -> Check:
    """Holds when one of the checks does; null if none does and one is unknown."""

    def check(findings: Findings) -> Answer:
        answers = [one(findings) for one in checks]
        yes = [answer for answer in answers if answer.holds]
        if yes:
            return Answer(True, SEPARATOR.join(answer.text for answer in yes))
        unknown = any(answer.holds is None for answer in answers)
        return Answer(None if unknown else False, SEPARATOR.join(a.text for a in answers))

    return check


def negate(check: Check) -> Check:
    """Holds when the check does not; null stays null."""

    def negated(findings: Findings) -> Answer:
        answer = check(findings)
        return Answer(None if answer.holds is None else not answer.holds, answer.text)

    return negated


def in_families(*families: str) -> Callable[[Findings], float]:
    """The part of the difference in these families of components."""
    return lambda findings: min(1.0, max(0.0, findings.share(*families)))
