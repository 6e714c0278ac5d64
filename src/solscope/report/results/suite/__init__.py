"""`solscope suite`: the published tables, the card of an operator, and checks."""

from __future__ import annotations

from solscope.report.results.suite import card, published

__all__ = ["card", "published"]
