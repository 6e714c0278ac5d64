"""`solscope diagnose`: the diagnosis, and the classic comparison."""

from __future__ import annotations

from solscope.report.results.diagnose import classic, diagnosis

__all__ = ["classic", "diagnosis"]
