"""The JSON API: one function per question, each with the type of its answer.

`ENDPOINTS` is the list of them; routes and the OpenAPI description are both made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from solscope._version import __version__
from solscope.bench.base import ShapeResult
from solscope.bench.contrast import Contrast, contrast
from solscope.corpus.importance import Importance, ImportanceBy, importance
from solscope.corpus.listing import ListedProfile, list_profiles
from solscope.corpus.select import PHASE, fact
from solscope.corpus.shapes import HotShapes, hot_shapes
from solscope.corpus.store import CorpusStatus
from solscope.corpus.trend import Trend, TrendBy, trend
from solscope.errors import UsageError
from solscope.hardware import find, names
from solscope.report.pages import (
    BenchPage,
    ComparisonPage,
    DiagnosisPage,
    ProfilePage,
    Roofs,
    bench_page,
    comparison_page,
    diagnosis_page,
    profile_page,
    roofs_of,
)
from solscope.suite.tables import (
    PUBLISHED_ON,
    RooflineRow,
    ShapeRow,
    suite_roofline,
    suite_shapes,
)
from solscope.views.operators import named_hardware
from solscope.web.library import Library, ProfileEntry, stamp

Query = Mapping[str, str]


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


class SuitePage(msgspec.Struct, frozen=True):
    """The suite's operators with their roofline on the chosen GPUs."""

    hardware: list[str]
    operators: list[RooflineRow]
    roofs: list[Roofs]


class ShapesPage(msgspec.Struct, frozen=True):
    """Every shape of one operator of the suite."""

    operator: str
    hardware: list[str]
    shapes: list[ShapeRow]


class CorpusPage(msgspec.Struct, frozen=True):
    """A profile store: what it holds and by what it can be cut."""

    status: CorpusStatus
    profiles: list[ListedProfile]
    facts: dict[str, list[str]]
    """Values of each fact by which profiles can be chosen."""


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


def _overview(library: Library, _: Query) -> Overview:
    return Overview(
        solscope=__version__,
        profiles=library.entries,
        skipped=library.skipped,
        results=library.result_files,
        solutions=sorted({line.solution for line in _results(library)}),
        hardware=list(names()),
        corpus=library.store.status() if library.has_store else None,
        upload=library.takes_uploads,
    )


def _profile(library: Library, query: Query) -> ProfilePage:
    card = query.get("hardware")
    chosen = named_hardware(_no_file(card)) if card else None
    return profile_page(library.profile(query["id"]), chosen)


def _compare(library: Library, query: Query) -> ComparisonPage:
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    if chosen[0].id == chosen[1].id:
        raise UsageError("choose two different profiles to compare")
    return comparison_page(
        [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
    )


def _diagnose(library: Library, query: Query) -> DiagnosisPage:
    chosen = [library.entry(name) for name in (query["a"], query["b"])]
    return diagnosis_page(
        [library.profile(entry.id) for entry in chosen], [entry.label for entry in chosen]
    )


def _results(library: Library) -> list[ShapeResult]:
    return library.results() if library.result_files else []


def _bench(library: Library, _: Query) -> BenchPage:
    return bench_page(library.results(), ", ".join(library.result_files))


def _contrast(library: Library, query: Query) -> Contrast:
    for name in ("a", "b"):
        if name not in query:
            raise UsageError(f"the question lacks {name!r}, a solution")
    results = library.results()
    return contrast(results, results, query["a"], query["b"])


def _suite(_: Library, query: Query) -> SuitePage:
    chosen = _hardware(query)
    return SuitePage(chosen, suite_roofline(chosen), [roofs_of(find(name)) for name in chosen])


def _shapes(_: Library, query: Query) -> ShapesPage:
    chosen = _hardware(query)
    return ShapesPage(query["operator"], chosen, suite_shapes(query["operator"], chosen))


def _corpus(library: Library, query: Query) -> CorpusPage:
    rows = list_profiles(library.store, _where(query))
    everything = library.store.profiles()
    return CorpusPage(
        status=library.store.status(),
        profiles=rows,
        facts={
            name: sorted(fact(everything, name).unique().to_list())
            for name in FACTS
            if not everything.is_empty()
        },
    )


def _importance(library: Library, query: Query) -> Importance:
    by = _choice(query, "by", get_args(ImportanceBy))
    return importance(library.store, by, (), query.get("weight") or "uniform", _where(query))


def _hot_shapes(library: Library, query: Query) -> HotShapes:
    return hot_shapes(library.store, query["operator"], buckets=True, where=_where(query))


def _trend(library: Library, query: Query) -> Trend:
    what, by = query.get("what") or "step", _choice(query, "order", get_args(TrendBy))
    return trend(library.store, what, by, where=_where(query))


def _where(query: Query) -> dict[str, str]:
    return {name: query[name] for name in (*FACTS, PHASE) if query.get(name)}


def _choice(query: Query, name: str, known: Sequence[Any]) -> Any:
    """One of the known values; the first when the question does not say."""
    asked = query.get(name) or known[0]
    if asked not in known:
        raise UsageError(f"{name} is one of {', '.join(known)}, not {asked!r}")
    return asked


def _hardware(query: Query) -> list[str]:
    asked = [name for name in query.get("hardware", "").split(",") if name]
    return [find(_no_file(name)).name for name in asked] or list(PUBLISHED_ON)


def _no_file(name: str) -> str:
    """A name of a GPU; files of this machine are not for whoever asks over the network."""
    if name.endswith(".toml"):
        raise UsageError(f"hardware is chosen by name here, not by file: {name!r}")
    return name


FACTS = ("model", "framework", "version", "gpu")
"""What profiles of a store can be chosen by here."""

ENDPOINTS = (
    Endpoint("/api/overview", "What there is to show", Overview, _overview),
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
    Endpoint("/api/bench", "Results of the benchmark, and the best of them", BenchPage, _bench),
    Endpoint(
        "/api/bench/compare",
        "Two solutions of the results against each other",
        Contrast,
        _contrast,
        ("a", "b"),
    ),
    Endpoint("/api/corpus", "The profiles of the store", CorpusPage, _corpus, FACTS),
    Endpoint(
        "/api/corpus/importance",
        "Share of GPU time over the profiles of the store",
        Importance,
        _importance,
        ("by", "weight", PHASE, *FACTS),
    ),
    Endpoint(
        "/api/corpus/shapes/{operator}",
        "The shapes that cover 95 % of an operator's time",
        HotShapes,
        _hot_shapes,
        (PHASE, *FACTS),
    ),
    Endpoint(
        "/api/corpus/trend",
        "An operator, a category or the step over time, with its changes",
        Trend,
        _trend,
        ("what", "order", PHASE, *FACTS),
    ),
    Endpoint("/api/suite", "The suite's operators and rooflines", SuitePage, _suite, ("hardware",)),
    Endpoint("/api/suite/{operator}", "Shapes of one operator", ShapesPage, _shapes, ("hardware",)),
)


def answer(endpoint: Endpoint, library: Library, query: Query) -> bytes:
    """The answer as JSON; answers about files are kept until a file changes."""

    def make() -> bytes:
        return msgspec.json.encode(endpoint.handle(library, query))

    if not endpoint.files:
        return make()
    for name in endpoint.files:
        if name not in query:
            raise UsageError(f"the question lacks {name!r}")
    files = [library.entry(query[name]).path for name in endpoint.files]
    known = {*endpoint.parameters, *endpoint.files}
    asked = tuple(sorted((k, v) for k, v in query.items() if k in known))
    return library.pages.get((endpoint.path, asked, *map(stamp, files)), make)
