"""Questions about results of the benchmark."""

from __future__ import annotations

from solscope.bench.contrast import Contrast, contrast
from solscope.errors import UsageError
from solscope.report.pages import BenchPage, bench_page
from solscope.web.library import Library, Query


def bench(library: Library, query: Query) -> BenchPage:
    """All results, and the best of them."""
    return bench_page(library.results(), ", ".join(library.result_files), query.get("device"))


def solutions(library: Library, query: Query) -> Contrast:
    """One solution against another."""
    for name in ("a", "b"):
        if name not in query:
            raise UsageError(f"the question lacks {name!r}, a solution")
    results = library.results()
    return contrast(results, results, query["a"], query["b"])
