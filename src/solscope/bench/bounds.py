"""The bound of a shape on the current device, and the limits of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from solscope.errors import SolscopeError
from solscope.hardware import Hardware, at_highest_clock, find
from solscope.operators.base import Cost, Operator
from solscope.roofline import bound, published_bound

MIN_SHARE_OF_BOUND = 0.98
"""A median below this share of the bound is not believed.

The bound uses the vendor's peaks, which a card at a higher clock can pass by a percent or two; a
kernel that is faster than that has not done the work. Example: bound 100 us, median 97 us."""


class ShapeBound(msgspec.Struct, frozen=True):
    """Bounds of one shape; null times with a reason."""

    bound_us: float | None = None
    limiter: str | None = None
    published_us: float | None = None
    measured_bound_us: float | None = None
    reason: str | None = None


def shape_bound(
    operator: Operator,
    axes: Mapping[str, Any],
    realized: Mapping[str, Any],
    hardware: Hardware | None,
    *,
    published: bool = True,
) -> ShapeBound:
    """Bounds on `hardware`, caches cold; `realized` are the axes of the inputs that were drawn.

    `published` says whether the shape is one of the public suite: what its formulas give for other
    shapes nobody published.
    """
    if hardware is None:
        return ShapeBound(reason="no hardware file describes this device")
    cost = operator.cost(realized)
    # Not the rates at the lower clock of the data sheet: a short call would beat the bound.
    least = bound(cost, at_highest_clock(hardware), cold=True)
    if any(name.startswith("tensor.") for name in least.missing):
        return ShapeBound(reason=f"{hardware.name} has no figure for {', '.join(least.missing)}")
    stated = None
    if published and operator.published is not None:
        stated = published_bound(operator.published(axes), hardware).time_us
    return ShapeBound(least.time_us, least.limiter, stated, _measured(cost, hardware.name), None)


def _measured(cost: Cost, name: str) -> float | None:
    try:
        return bound(cost, find(name, measured=True), cold=True).time_us
    except SolscopeError:
        return None
