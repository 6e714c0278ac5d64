"""A part of a whole in percent, or null where that says nothing."""

from __future__ import annotations


def percent_of(amount: float | None, whole: float | None) -> float | None:
    """`part` of `whole`; null if either is unknown or the whole is 0."""
    return 100.0 * amount / whole if amount is not None and whole else None
