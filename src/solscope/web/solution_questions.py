"""Questions about solutions of the benchmark: no library that reads profiles is needed."""

from __future__ import annotations

from solscope.bench.contrast import Contrast, contrast
from solscope.web.library import Library, Query


def solutions(library: Library, query: Query) -> Contrast:
    """One solution against another."""
    results = library.results()
    return contrast(results, results, query["a"], query["b"])
