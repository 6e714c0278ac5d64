"""The contract of a check: one question to the findings.

It answers yes, no, or null where the recordings do not tell: a missing sensor says nothing, for or
against. The first paragraph of its docstring is a sentence that is true if it holds; the reference
of causes quotes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from solscope.diagnose.findings.findings import Findings

SEPARATOR = "; "
"""Between the texts of checks that answer together."""


class Answer(NamedTuple):
    """What a check found, with the numbers in words."""

    holds: bool | None
    text: str


Check = Callable[[Findings], Answer]


def statement(check: Check) -> str:
    """What is true if the check holds, as its docstring says."""
    first, _, _ = (inspect.getdoc(check) or "").partition("\n\n")
    return " ".join(first.split())


def any_of(*checks: Check) -> Check:
    """Holds when one of the checks does; null if none does and one is unknown.

    The text is that of the checks that decide: those that hold, those that are unknown, or all.
    """

    def any_check(findings: Findings) -> Answer:
        answers = [check(findings) for check in checks]
        yes = [answer for answer in answers if answer.holds]
        if yes:
            return Answer(True, SEPARATOR.join(answer.text for answer in yes))
        unknown = [answer for answer in answers if answer.holds is None]
        text = SEPARATOR.join(answer.text for answer in unknown or answers)
        return Answer(None if unknown else False, text)

    quoted = [f'"{statement(check).rstrip(".")}"' for check in checks]
    any_check.__doc__ = f"Any of: {', '.join(quoted)}."
    return any_check


def negate(check: Check, sentence: str) -> Check:
    """Holds when the check does not; null stays null. `sentence` is true if it holds."""

    def negated(findings: Findings) -> Answer:
        answer = check(findings)
        return Answer(None if answer.holds is None else not answer.holds, answer.text)

    negated.__doc__ = sentence
    return negated


def in_families(*families: str) -> Callable[[Findings], float]:
    """The part of the difference in these families of components."""
    return lambda findings: min(1.0, max(0.0, findings.share(*families)))
