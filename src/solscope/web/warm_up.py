"""What is done while the server is idle: load libraries, and compute answers ahead of requests.

A dashboard starts with what was kept. Afterwards the libraries are loaded, and the answers that
pages begin with are made: those of the store and of the suite that every visitor sees, then those
for values of the store's filters and for pairs of them. What an earlier start has kept is only
read. A request comes first: between two pieces of work this waits until none has come for a while.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, get_args

from solscope.errors import SolscopeError
from solscope.web.api import ENDPOINTS, FACTS
from solscope.web.dispatch import answer, cached_answer, endpoint_of, question
from solscope.web.library import Library
from solscope.web.page import first_questions

if TYPE_CHECKING:
    import polars as pl

MAX_VALUES = 24
"""Values of filters whose answers are computed ahead of time, those of most profiles first."""
MAX_PAIRS = 24
"""Pairs of them: most do not occur, and those that do are few."""
QUIET_S = 0.5
"""Time without a request before a whole profile is read ahead."""
_LIBRARIES = ("numpy", "polars")
"""Loaded one by one before what needs them, so that a request never waits for all."""


def warm(library: Library) -> None:
    """Load what makes answers, and make those that are not kept yet."""
    for name in _LIBRARIES:
        library.idle.wait()
        import_module(name)
    for endpoint in ENDPOINTS:
        library.idle.wait()
        _ = endpoint.handle
    if library.has_store:
        with contextlib.suppress(SolscopeError):
            _practice(library)
        for asked in _of_store():
            _make(library, asked)
    for asked in _of_suite():
        _make(library, asked)
    if library.has_store:
        _make_filtered(library)
    make_cards(library)


def make_cards(library: Library) -> None:
    """Read profiles for their line in the list, one at a time, while nobody asks for anything."""
    while True:
        library.idle.wait(QUIET_S)
        path = library.without_card()
        if path is None:
            return
        library.cards.make(path)


def _practice(library: Library) -> None:
    """Answer about a few profiles: the first time takes several times as long as the next."""
    from solscope.web.handlers.corpus import importance_page, store_trend

    library.idle.wait()
    library.store.corpus()
    counts = library.store.status().gpus
    if counts:
        rarest = {"gpu": min(counts, key=lambda gpu: counts[gpu])}
        for ask in (importance_page, store_trend):
            library.idle.wait()
            ask(library, rarest)


def _of_store() -> Iterator[str]:
    from solscope.corpus.queries.importance import ImportanceBy

    yield from first_questions("/corpus", {})
    for by in get_args(ImportanceBy):
        yield question("/api/corpus/importance", {"by": by})


def _of_suite() -> Iterator[str]:
    from solscope.suite.atrex import load_suite

    for page in ("/suite", "/bench"):
        yield from first_questions(page, {})
    for operator in load_suite().by_importance:
        yield from first_questions(f"/suite/{operator.name}", {})


def _make_filtered(library: Library) -> None:
    store = library.store
    with contextlib.suppress(SolscopeError):
        # Remembered as a whole: what cannot be answered leaves nothing behind to know it by.
        library.disk_cache.get(("filters", store.url, store.version()), lambda: _filters(library))


def _filters(library: Library) -> bytes:
    """Make the answers for filters of a store that can be held in memory."""
    library.idle.wait()
    if library.store.is_small():
        for asked in _filtered(library):
            _make(library, asked)
    return b"made"


def _filtered(library: Library) -> Iterator[str]:
    for chosen in choices(library.store.corpus().profiles()):
        yield from first_questions("/corpus", chosen)


def choices(profiles: pl.DataFrame) -> list[dict[str, str]]:
    """Single values of filters, then pairs of values; those that most profiles have come first."""
    from solscope.corpus.queries.select import UNKNOWN

    facts = profiles.select(FACTS).fill_null(UNKNOWN)
    # Where there is a single value, it chooses everything: the page does not offer it.
    offered = [column.name for column in facts if column.n_unique() > 1]
    rows = facts.select(offered).iter_rows()
    named = [list(zip(offered, values, strict=True)) for values in rows]
    return [
        dict(chosen)
        for size, most in ((1, MAX_VALUES), (2, MAX_PAIRS))
        for chosen, _ in Counter(
            choice for values in named for choice in combinations(values, size)
        ).most_common(most)
    ]


def _make(library: Library, asked: str) -> None:
    endpoint, query = endpoint_of(asked)
    with contextlib.suppress(SolscopeError):
        if cached_answer(endpoint, library, query) is None:
            library.idle.wait()
            answer(endpoint, library, query)
