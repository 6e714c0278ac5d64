"""The bound of an operator of the catalog, by its name and axes."""

from __future__ import annotations

from typing import get_args

from solscope.errors import UsageError
from solscope.hardware import Hardware
from solscope.operators import operator
from solscope.operators.base import Axes, Operator, Published
from solscope.roofline.base import Bound, BoundKind
from solscope.roofline.bound import bound as least_time
from solscope.roofline.bound import published_bound


def operator_bound(
    name: str, axes: Axes, hardware: Hardware, bound: BoundKind = "corrected"
) -> Bound:
    """The least time of one call of the operator called `name`.

    With `bound="published"`, operators outside the suite, and axes that do not determine what was
    published (the outcome of a random routing), take the formula of the suite on our own cost.
    """
    check_kind(bound)
    entry = operator(name)
    lacking = [axis for axis in entry.axes if axis not in axes]
    if lacking:
        raise UsageError(f"{name} needs the axes {', '.join(entry.axes)}; missing: {lacking[0]}")
    if bound == "corrected":
        return least_time(entry.cost(axes), hardware)
    stated = _stated(entry, axes)
    if stated is None:
        return least_time(entry.cost(axes), hardware, published=True)
    return published_bound(stated, hardware)


def check_kind(bound: str) -> None:
    """`UsageError` for a kind of bound that does not exist."""
    if bound not in get_args(BoundKind):
        raise UsageError(f"bound must be {' or '.join(get_args(BoundKind))}, not {bound!r}")


def _stated(entry: Operator, axes: Axes) -> Published | None:
    if entry.published is None:
        return None
    try:
        return entry.published(axes)
    except KeyError:
        return None
