"""Answers made ahead, while nobody asks: those that the pages of a store begin with.

First what every visitor sees, then the same for each single value of a filter. What an earlier
start has kept is only read. A request comes first: between two answers this waits until none has
come for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import get_args

import msgspec

from solscope.corpus.importance import ImportanceBy
from solscope.errors import SolscopeError
from solscope.web.answers import answer, answer_at_hand, endpoint_of, question
from solscope.web.library import Library
from solscope.web.page import first_questions
from solscope.web.store_questions import CorpusPage

MOST_FILTERS = 24
"""Values of filters whose answers are made ahead."""


def warm(library: Library) -> None:
    """Make what is not kept yet."""
    for asked in _plain():
        _make(library, asked)
    store = library.store
    with contextlib.suppress(SolscopeError):
        # Remembered as a whole: what cannot be answered leaves nothing behind to know it by.
        library.shelf.get(("filters", store.url, store.version()), lambda: _filters(library))
        library.quiet.wait()
        store.corpus()  # So that the next new question finds it in memory.


def _plain() -> Iterator[str]:
    yield from first_questions("/corpus", {})
    for by in get_args(ImportanceBy):
        yield question("/api/corpus/importance", {"by": by})
    for page in ("/suite", "/bench"):
        yield from first_questions(page, {})


def _filters(library: Library) -> bytes:
    """Make the answers for single filters of a store that can be held in memory."""
    library.quiet.wait()
    if library.store.is_small():
        for asked in _filtered(library):
            _make(library, asked)
    return b"made"


def _filtered(library: Library) -> Iterator[str]:
    endpoint, query = endpoint_of("/api/corpus")
    values = msgspec.json.decode(answer(endpoint, library, query), type=CorpusPage).facts
    # Where there is a single value, it chooses everything: the page does not offer it.
    choices = [(name, value) for name, of in values.items() if len(of) > 1 for value in of]
    for name, value in choices[:MOST_FILTERS]:
        yield from first_questions("/corpus", {name: value})


def _make(library: Library, asked: str) -> None:
    endpoint, query = endpoint_of(asked)
    with contextlib.suppress(SolscopeError):
        if answer_at_hand(endpoint, library, query) is None:
            library.quiet.wait()
            answer(endpoint, library, query)
