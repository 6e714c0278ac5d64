"""Numbers as text: with separators, units and nouns; `-` for what does not exist."""

from __future__ import annotations

from solscope.text import percent


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separators; `-` for what does not exist."""
    return "-" if value is None else f"{value:,.{digits}f}"


def pct(value: float | None) -> str:
    """A percentage with one decimal; `-` for what does not exist."""
    return "-" if value is None else percent(value)


def share_known(value: float | None) -> str:
    """A share of what is known: "100.0 %" only when nothing at all is missing."""
    return pct(value if value is None or value == 100 else min(value, 99.9))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 step`, `2 steps`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def mean_count(value: float | None) -> str:
    """A mean of counts: whole numbers without decimals."""
    return number(value, 0 if value is not None and float(value).is_integer() else 1)


def micro(value_ns: float | None) -> str:
    """Nanoseconds as microseconds."""
    return "-" if value_ns is None else f"{value_ns / 1e3:,.2f}"
