"""One value against the limits of a rule, and against the values before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from solscope.corpus.watch.rules import FEWEST, LimitName, Rule

EQUAL = 1e-12
"""Values that differ by less than this share of their mean are the same."""


class Limit(msgspec.Struct, frozen=True):
    """One limit of a rule, as it was tested."""

    name: LimitName
    allowed: float
    found: float | None
    """Null where it could not be tested."""
    broken: bool


class Earlier(msgspec.Struct, frozen=True):
    """The profiles that the latest one is compared with."""

    profiles: int
    median: float
    mean: float
    sd: float | None
    """Null with fewer than two."""


class Tested(NamedTuple):
    """All limits of a rule."""

    earlier: Earlier | None
    change_pct: float | None
    z: float | None
    limits: list[Limit]
    untested: str | None
    """Why some of them could not be tested."""


def summarize(values: Sequence[float]) -> Earlier | None:
    """Median, mean and spread; null where there is nothing."""
    if not values:
        return None
    array = np.array(values)
    sd = float(array.std(ddof=1)) if array.size > 1 else None
    return Earlier(array.size, float(np.median(array)), float(array.mean()), sd)


def against_limits(rule: Rule, value: float, before: Sequence[float]) -> Tested:
    """Compare a value with fixed limits, and with what came before."""
    earlier = summarize(before)
    change = _change_pct(value, earlier)
    z = _z(value, earlier)
    limits = list(_limits(rule, value, change, z))
    return Tested(earlier, change, z, limits, _untested(limits, earlier))


def _change_pct(value: float, earlier: Earlier | None) -> float | None:
    if earlier is None or earlier.profiles < FEWEST or not earlier.median:
        return None
    return 100 * (value / earlier.median - 1)


def _z(value: float, earlier: Earlier | None) -> float | None:
    """Distance in standard deviations of one more profile, whose mean is itself uncertain."""
    if earlier is None or earlier.profiles < FEWEST or earlier.sd is None:
        return None
    if earlier.sd <= EQUAL * abs(earlier.mean):
        return None
    return (value - earlier.mean) / (earlier.sd * math.sqrt(1 + 1 / earlier.profiles))


def _limits(rule: Rule, value: float, change: float | None, z: float | None) -> Iterator[Limit]:
    decrease = None if change is None else -change
    tests: tuple[tuple[LimitName, float | None, float | None, int], ...] = (
        ("max", rule.max, value, 1),
        ("min", rule.min, value, -1),
        ("max_increase_pct", rule.max_increase_pct, change, 1),
        ("max_decrease_pct", rule.max_decrease_pct, decrease, 1),
        ("max_z", rule.max_z, z, 1),
        ("min_z", rule.min_z, z, -1),
    )
    for name, allowed, observed, sign in tests:
        if allowed is not None:
            broken = observed is not None and sign * (observed - allowed) > 0
            yield Limit(name, allowed, observed, broken)


def _untested(limits: Sequence[Limit], earlier: Earlier | None) -> str | None:
    untested = [limit.name for limit in limits if limit.found is None]
    if not untested:
        return None
    profiles = 0 if earlier is None else earlier.profiles
    if earlier is None or profiles < FEWEST:
        return f"{', '.join(untested)}: {profiles} earlier profiles, {FEWEST} are needed"
    whys = (
        ([name for name in untested if name.endswith("_pct")], "the median before is 0"),
        (
            [name for name in untested if name.endswith("_z")],
            "all earlier profiles have the same value",
        ),
    )
    return "; ".join(f"{', '.join(names)}: {why}" for names, why in whys if names)
