"""`solscope diagnose`: of two runs, of one, and the classic comparison."""

from __future__ import annotations

from solscope.report.results.diagnose import classic, diagnosis, single

__all__ = ["classic", "diagnosis", "single"]
