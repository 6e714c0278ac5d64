"""From a cost and a GPU to the least time and what limits it."""

from __future__ import annotations

from solscope.roofline.base import Bound, BoundKind
from solscope.roofline.bound import bound, published_bound
from solscope.roofline.operators import operator_bound

__all__ = ["Bound", "BoundKind", "bound", "operator_bound", "published_bound"]
