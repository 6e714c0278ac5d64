"""Questions about results of the benchmark."""

from __future__ import annotations

from solscope.report.pages import BenchPage, bench_page
from solscope.web.library import Library, Query


def bench(library: Library, query: Query) -> BenchPage:
    """All results, and the best of them."""
    return bench_page(library.results(), ", ".join(library.result_files), query.get("device"))
