"""The contract of a cause: what must be seen, what speaks for it, what rules it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from solscope.diagnose.evidence.base import Check
from solscope.diagnose.findings.findings import Findings


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
    """Score when all required checks hold: 4 if the recordings state the cause itself (a quota that
    stopped the process, another data type), 3 for other direct evidence, 2 for a pattern that
    little else leaves. Half a point more puts a cause before a more general one that fits the same
    runs: `lock_wait` has 2.5, `slow_section` 2."""
    required: tuple[Check, ...]
    """All must hold; they say that the thing is there."""
    explains: Callable[[Findings], float]
    """Part of the difference that it can account for, 0 to 1."""
    supporting: tuple[Support, ...] = ()
    forbidden: tuple[Check, ...] = ()
    """None may hold."""
    confirm: str = ""
    """What to run next to confirm it."""
    own: tuple[str, ...] = ()
    """Families of components that only this cause fills: what they hold of the difference is its
    part where another cause is there too. Empty if its time cannot be told from that of others."""
    can_hide: bool = False
    """True when it can be there without slowing anything down; it is then listed as latent."""
    detail: Callable[[Findings], str] | None = None
    """Adds a fact to the title: the name of a section, say."""
