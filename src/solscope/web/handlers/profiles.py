"""Questions about profiles: one of them, or two against each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.errors import UsageError
from solscope.pages.comparison import ComparisonPage, comparison_page
from solscope.pages.details import ProfileDetails, profile_details
from solscope.pages.diagnosis import DiagnosisPage, diagnosis_page
from solscope.pages.profile import ProfilePage, profile_page
from solscope.pages.ranks import RanksPage, ranks_pages
from solscope.pages.single import SinglePage, single_page
from solscope.views.operators import named_hardware
from solscope.web.handlers.suite import by_name
from solscope.web.library import Library, Query
from solscope.web.sources import read_from


def profile(library: Library, query: Query) -> ProfilePage:
    """All of one profile."""
    card = query.get("hardware")
    chosen = named_hardware(by_name(card)) if card else None
    model = library.models.chosen(query)
    with watched(library, query["id"]):
        return profile_page(library.profile(query["id"]), chosen, model)


def details(library: Library, query: Query) -> ProfileDetails:
    """The host side and the memory of one profile."""
    with watched(library, query["id"]):
        return profile_details(library.profile(query["id"]))


def compare(library: Library, query: Query) -> ComparisonPage:
    """Two profiles side by side."""
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    if chosen[0].id == chosen[1].id:
        raise UsageError("choose two different profiles to compare")
    with watched(library, *(entry.id for entry in chosen)):
        return comparison_page(
            [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
        )


def ranks(library: Library, query: Query) -> RanksPage:
    """The ranks of one run."""
    names = list(dict.fromkeys(name for name in query["of"].split(",") if name))
    paths = [library.path(name) for name in names]

    def make() -> list[RanksPage]:
        with watched(library, *names):
            return ranks_pages([library.profile(name) for name in names])

    pages = library.tables.get(("ranks", *map(read_from, paths)), make)
    if len(pages) != 1:
        raise UsageError("these profiles are not the ranks of one run")
    page: RanksPage = pages[0]
    return page


def diagnose(library: Library, query: Query) -> DiagnosisPage:
    """What changed from one run to the other."""
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    with watched(library, *(entry.id for entry in chosen)):
        return diagnosis_page(
            [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
        )


def diagnose_alone(library: Library, query: Query) -> SinglePage:
    """What one recording shows of itself."""
    with watched(library, query["id"]):
        return single_page(library.profile(query["id"]))


@contextmanager
def watched(library: Library, *names: str) -> Iterator[None]:
    """What is done for these profiles can be asked for meanwhile."""
    try:
        yield
    finally:
        library.done(*names)
