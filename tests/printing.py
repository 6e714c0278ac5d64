"""Results as a terminal shows them, for tests of layouts."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from solscope.report.forms import Layout, Screen
from solscope.report.layout.tables import to_text


def printed(
    layout: Layout,
    result: Any,
    *,
    width: int,
    color: bool = False,
    draw: bool = False,
    **options: Any,
) -> str:
    """What `layout` makes of a result in a terminal of this width."""
    parts = layout(result, Screen(width, color, draw), **options)
    assert parts is not None
    return parts if isinstance(parts, str) else to_text(parts, width, color)


def as_published(text: str, us_digits: int = 2, ms_digits: int = 2) -> str:
    """A time in microseconds as the page of the public suite writes it."""
    value = Decimal(0 if text.startswith("<") else text.replace(",", ""))
    unit, digits, shown = ("us", us_digits, value)
    if value >= 1000:
        unit, digits, shown = "ms", ms_digits, value / 1000
    return f"{shown.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)} {unit}"
