"""Answers made ahead, while nobody asks: those that the pages of a store begin with.

First what every visitor sees, then the same for each single value of a filter. What an earlier
start has kept is only read. A request comes first: between two answers this waits until none has
come for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import get_args

from solscope.corpus.importance import ImportanceBy
from solscope.errors import SolscopeError
from solscope.web.answers import answer, answer_at_hand, endpoint_of, question
from solscope.web.library import Library
from solscope.web.page import first_questions
from solscope.web.store_questions import FACTS, fact_values

MOST_FILTERS = 24
"""Values of filters whose answers are made ahead."""


def warm(library: Library) -> None:
    """Make what is not kept yet."""
    for asked in _plain():
        _make(library, asked)
    with contextlib.suppress(SolscopeError):
        if library.store.in_memory(library.quiet.wait):
            for asked in _filtered(library):
                _make(library, asked)


def _plain() -> Iterator[str]:
    yield from first_questions("/corpus", {})
    for by in get_args(ImportanceBy):
        yield question("/api/corpus/importance", {"by": by})
    for page in ("/suite", "/bench"):
        yield from first_questions(page, {})


def _filtered(library: Library) -> Iterator[str]:
    values = fact_values(library.store.corpus())
    choices = [(name, value) for name in FACTS for value in values.get(name, ())]
    for name, value in choices[:MOST_FILTERS]:
        # A single value chooses everything: the page does not offer it.
        if len(values[name]) > 1:
            yield from first_questions("/corpus", {name: value})


def _make(library: Library, asked: str) -> None:
    endpoint, query = endpoint_of(asked)
    with contextlib.suppress(SolscopeError):
        if answer_at_hand(endpoint, library, query) is None:
            library.quiet.wait()
            answer(endpoint, library, query)
