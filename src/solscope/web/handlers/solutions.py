"""Questions about solutions of the benchmark: no library that reads profiles is needed."""

from __future__ import annotations

from solscope.bench.results.contrast import Contrast, contrast
from solscope.bench.results.score import usual
from solscope.web.library import Library, Query


def solutions(library: Library, query: Query) -> Contrast:
    """One solution against another."""
    results = library.results()
    suite, device = usual(results, query.get("suite"), query.get("device"))
    return contrast(results, results, query["a"], query["b"], device, suite=suite)
