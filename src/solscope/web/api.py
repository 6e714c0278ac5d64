"""The JSON API: one function per question, each with the type of its answer.

`ENDPOINTS` is the list of them; routes and the OpenAPI description are both made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from solscope._version import __version__
from solscope.bench.contrast import Contrast, contrast
from solscope.corpus.select import PHASE
from solscope.corpus.shapes import HotShapes
from solscope.corpus.store import CorpusStatus
from solscope.corpus.trend import Trend
from solscope.errors import SolscopeError, UsageError
from solscope.hardware import names
from solscope.report.pages import (
    BenchPage,
    ComparisonPage,
    DiagnosisPage,
    ProfilePage,
    bench_page,
    comparison_page,
    diagnosis_page,
    profile_page,
)
from solscope.views.operators import named_hardware
from solscope.web.library import Library, ProfileEntry, Query, Working
from solscope.web.store_questions import (
    FACTS,
    CorpusPage,
    ImportancePage,
    importance_page,
    store_page,
    store_shapes,
    store_trend,
)
from solscope.web.suite_questions import (
    ShapesPage,
    SuitePage,
    by_name,
    shapes_page,
    suite_page,
)


class Overview(msgspec.Struct, frozen=True):
    """What the dashboard has to show."""

    solscope: str
    profiles: list[ProfileEntry]
    skipped: list[tuple[str, str]]
    """Files that are no profiles, with the reason."""
    results: list[str]
    """Files of benchmark results."""
    solutions: list[str]
    """Solutions in them."""
    hardware: list[str]
    """GPUs that bounds can be computed for."""
    corpus: CorpusStatus | None
    """The profile store; null when none is shown."""
    upload: bool
    """Whether profiles can be dropped onto the page."""
    upload_to_store: bool
    """Whether they can go into the store as well."""


@dataclass(frozen=True)
class Endpoint:
    """One question that can be asked."""

    path: str
    summary: str
    answer: Any
    """Type of the answer."""
    handle: Callable[[Library, Query], Any]
    parameters: tuple[str, ...] = ()
    """Names in the query string; those in the path are found there."""
    files: tuple[str, ...] = ()
    """Parameters that name profiles: the answer is kept until one of their files changes."""
    of_store: bool = False
    """The answer is kept until the profile store changes."""
    of_results: bool = False
    """The answer is kept until a file of benchmark results changes."""


def _overview(library: Library, _: Query) -> Overview:
    library.look_again()
    skipped = list(library.skipped)
    try:
        solutions = library.solutions()
    except (SolscopeError, OSError) as error:  # of the results alone; all else can be shown
        solutions, why = [], str(error)
        skipped += [(path, why) for path in library.result_files if path in why]
    return Overview(
        solscope=__version__,
        profiles=library.entries,
        skipped=skipped,
        results=library.result_files,
        solutions=solutions,
        hardware=list(names()),
        corpus=library.store.status() if library.has_store else None,
        upload=library.takes_uploads,
        upload_to_store=library.takes_uploads and library.has_store,
    )


def _working(library: Library, _: Query) -> list[Working]:
    return library.working


@contextmanager
def _watched(library: Library, *names: str) -> Iterator[None]:
    """What is done for these profiles can be asked for meanwhile."""
    try:
        yield
    finally:
        library.done(*names)


def _profile(library: Library, query: Query) -> ProfilePage:
    card = query.get("hardware")
    chosen = named_hardware(by_name(card)) if card else None
    with _watched(library, query["id"]):
        return profile_page(library.profile(query["id"]), chosen)


def _compare(library: Library, query: Query) -> ComparisonPage:
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    if chosen[0].id == chosen[1].id:
        raise UsageError("choose two different profiles to compare")
    with _watched(library, *(entry.id for entry in chosen)):
        return comparison_page(
            [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
        )


def _diagnose(library: Library, query: Query) -> DiagnosisPage:
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    with _watched(library, *(entry.id for entry in chosen)):
        return diagnosis_page(
            [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
        )


def _bench(library: Library, query: Query) -> BenchPage:
    return bench_page(library.results(), ", ".join(library.result_files), query.get("device"))


def _contrast(library: Library, query: Query) -> Contrast:
    for name in ("a", "b"):
        if name not in query:
            raise UsageError(f"the question lacks {name!r}, a solution")
    results = library.results()
    return contrast(results, results, query["a"], query["b"])


ENDPOINTS = (
    Endpoint("/api/overview", "What there is to show", Overview, _overview),
    Endpoint("/api/working", "Profiles that are being read", list[Working], _working),
    Endpoint(
        "/api/profile/{id}", "One profile", ProfilePage, _profile, ("hardware",), files=("id",)
    ),
    Endpoint(
        "/api/compare",
        "Two profiles side by side",
        ComparisonPage,
        _compare,
        ("a", "b"),
        files=("a", "b"),
    ),
    Endpoint(
        "/api/diagnose",
        "What changed between a normal and an abnormal run, and why",
        DiagnosisPage,
        _diagnose,
        ("a", "b"),
        files=("a", "b"),
    ),
    Endpoint(
        "/api/bench",
        "Results of the benchmark, and the best of them",
        BenchPage,
        _bench,
        ("device",),
        of_results=True,
    ),
    Endpoint(
        "/api/bench/compare",
        "Two solutions of the results against each other",
        Contrast,
        _contrast,
        ("a", "b"),
        of_results=True,
    ),
    Endpoint(
        "/api/corpus", "The profiles of the store", CorpusPage, store_page, FACTS, of_store=True
    ),
    Endpoint(
        "/api/corpus/importance",
        "Share of GPU time over the profiles of the store",
        ImportancePage,
        importance_page,
        ("by", "weight", "find", "most", PHASE, *FACTS),
        of_store=True,
    ),
    Endpoint(
        "/api/corpus/shapes/{operator}",
        "The shapes that cover 95 % of an operator's time",
        HotShapes,
        store_shapes,
        (PHASE, *FACTS),
        of_store=True,
    ),
    Endpoint(
        "/api/corpus/trend",
        "An operator, a category or the step over time, with its changes",
        Trend,
        store_trend,
        ("what", "order", PHASE, *FACTS),
        of_store=True,
    ),
    Endpoint(
        "/api/suite",
        "The suite's operators and rooflines",
        SuitePage,
        suite_page,
        ("hardware",),
        of_results=True,
    ),
    Endpoint(
        "/api/suite/{operator}",
        "Shapes of one operator",
        ShapesPage,
        shapes_page,
        ("hardware",),
        of_results=True,
    ),
)
