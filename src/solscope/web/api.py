"""The JSON API: the list of questions that can be asked.

Routes and the OpenAPI description are made from `ENDPOINTS`. A question names the function that
answers it, which is loaded when an answer has to be made: most answers are kept, and a dashboard
that only reads them starts without the libraries that make them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_type_hints

if TYPE_CHECKING:
    from solscope.web.library import Library, Query

    Handler = Callable[[Library, Query], Any]

FACTS = ("model", "framework", "version", "gpu")
"""What profiles of a store can be chosen by here."""
MODEL = ("model", "batch", "context")
"""The config that gives costs where a profile has no shapes, and what it does not say of a run."""
_CHOICE = ("phase", *FACTS)


@dataclass(frozen=True)
class Endpoint:
    """One question that can be asked."""

    path: str
    summary: str
    answered_by: str
    """Module of `web.handlers` and function; the type that it returns is that of the answer."""
    parameters: tuple[str, ...] = ()
    """Names in the query string; those in the path are found there."""
    files: tuple[str, ...] = ()
    """Parameters that name profiles: the answer is kept until one of their files changes."""
    needs: tuple[str, ...] = ()
    """Other parameters without which there is no answer."""
    of_store: bool = False
    """The answer is kept until the profile store changes."""
    of_results: bool = False
    """The answer is kept until a file of benchmark results changes."""
    kept: bool = True
    """Whether answers are kept at all: there are too many ranges of a time line."""

    @property
    def handle(self) -> Handler:
        """The function that answers."""
        module, _, name = self.answered_by.partition(":")
        return cast("Handler", getattr(import_module(f"solscope.web.handlers.{module}"), name))

    @property
    def answer(self) -> Any:
        """Type of the answer."""
        return get_type_hints(self.handle)["return"]


ENDPOINTS = (
    Endpoint("/api/overview", "What there is to show", "overview:overview"),
    Endpoint("/api/working", "Profiles that are being read", "overview:working"),
    Endpoint(
        "/api/profile/{id}",
        "One profile",
        "profiles:profile",
        ("hardware", *MODEL),
        files=("id",),
    ),
    Endpoint(
        "/api/profile/{id}/details",
        "The host side of one profile, and the memory of its GPUs",
        "profiles:details",
        files=("id",),
    ),
    Endpoint(
        "/api/profile/{id}/timeline",
        "The time line of one profile: its lanes, and as many events as fit",
        "timelines:whole",
        files=("id",),
    ),
    Endpoint(
        "/api/profile/{id}/events",
        "The events of a range of its time line, merged as far as the level says",
        "timelines:events",
        ("from", "to", "level"),
        files=("id",),
        needs=("from", "to"),
        kept=False,
    ),
    Endpoint(
        "/api/profile/{id}/range",
        "What ran in a range of its time line",
        "timelines:sums",
        ("from", "to"),
        files=("id",),
        needs=("from", "to"),
        kept=False,
    ),
    Endpoint(
        "/api/profile/{id}/next",
        "The next event of the time line that has one of these labels",
        "timelines:following",
        ("labels", "from", "back"),
        files=("id",),
        needs=("labels", "from"),
        kept=False,
    ),
    Endpoint(
        "/api/compare",
        "Two profiles side by side",
        "profiles:compare",
        ("a", "b"),
        files=("a", "b"),
    ),
    Endpoint(
        "/api/ranks",
        "The ranks of one run: ids of profiles, with commas between them",
        "profiles:ranks",
        ("of",),
        needs=("of",),
        kept=False,
    ),
    Endpoint(
        "/api/diagnose",
        "What changed between a normal and an abnormal run, and why",
        "profiles:diagnose",
        ("a", "b"),
        files=("a", "b"),
    ),
    Endpoint(
        "/api/diagnose/{id}",
        "Whether the steps of one recording are steady, and what its slow ones have in common",
        "profiles:diagnose_alone",
        files=("id",),
    ),
    Endpoint(
        "/api/bench",
        "Results of the benchmark, and the best of them",
        "bench:bench",
        ("device", "suite"),
        of_results=True,
    ),
    Endpoint(
        "/api/bench/compare",
        "Two solutions of the results against each other",
        "solutions:solutions",
        ("a", "b", "device", "suite"),
        needs=("a", "b"),
        of_results=True,
    ),
    Endpoint(
        "/api/corpus",
        "The profiles of the store",
        "corpus:store_page",
        ("find", "sort", "start", "most", *FACTS),
        of_store=True,
    ),
    Endpoint(
        "/api/corpus/importance",
        "Share of GPU time over the profiles of the store",
        "corpus:importance_page",
        ("by", "weight", "find", "start", "most", *_CHOICE),
        of_store=True,
    ),
    Endpoint(
        "/api/corpus/shapes/{operator}",
        "The shapes that cover 95 % of an operator's time",
        "corpus:store_shapes",
        _CHOICE,
        of_store=True,
    ),
    Endpoint(
        "/api/corpus/trend",
        "An operator, a category or the step over time, with its changes",
        "corpus:store_trend",
        ("what", "order", *_CHOICE),
        of_store=True,
    ),
    Endpoint(
        "/api/suite",
        "The suite's operators and rooflines",
        "suite:suite_page",
        ("hardware",),
        of_results=True,
    ),
    Endpoint(
        "/api/suite/{operator}",
        "Shapes of one operator",
        "suite:shapes_page",
        ("hardware",),
        of_results=True,
    ),
)
