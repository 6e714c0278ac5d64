"""Questions about results of the benchmark."""

from __future__ import annotations

from solscope.pages.bench import BenchPage, bench_page
from solscope.text import encodable
from solscope.web.library import Library, Query


def bench(library: Library, query: Query) -> BenchPage:
    """All results, and the best of them."""
    title = ", ".join(map(encodable, library.result_files))
    ignored = library.ignored_results()
    return bench_page(library.results(), title, query.get("device"), query.get("suite"), ignored)
