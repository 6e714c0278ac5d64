"""Questions about solutions of the benchmark: no library that reads profiles is needed."""

from __future__ import annotations

from solscope.bench.contrast import Contrast, contrast
from solscope.errors import UsageError
from solscope.web.library import Library, Query


def solutions(library: Library, query: Query) -> Contrast:
    """One solution against another."""
    for name in ("a", "b"):
        if name not in query:
            raise UsageError(f"the question lacks {name!r}, a solution")
    results = library.results()
    return contrast(results, results, query["a"], query["b"])
