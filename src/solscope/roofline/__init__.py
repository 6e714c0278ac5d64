"""From a cost and a GPU to the least time and what limits it."""

from __future__ import annotations

from solscope.roofline.base import Bound
from solscope.roofline.bound import bound, published_bound

__all__ = ["Bound", "bound", "published_bound"]
