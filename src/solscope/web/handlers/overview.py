"""Questions that are answered anew each time: what there is to show, and what is being done."""

from __future__ import annotations

import msgspec

from solscope._version import __version__
from solscope.corpus.status import CorpusStatus
from solscope.errors import SolscopeError
from solscope.hardware import names
from solscope.text import encodable
from solscope.web.library import Library, ProfileEntry, Query, Working
from solscope.web.models import ModelEntry


class Overview(msgspec.Struct, frozen=True):
    """What the dashboard has to show."""

    solscope: str
    profiles: list[ProfileEntry]
    skipped: list[tuple[str, str]]
    """Files that are not profiles, with the reason."""
    results: list[str]
    """Files of benchmark results."""
    solutions: list[str]
    """Solutions in them."""
    hardware: list[str]
    """GPUs that bounds can be computed for."""
    models: list[ModelEntry]
    """Configs of models: those in the folders, and those given in the browser."""
    corpus: CorpusStatus | None
    """The profile store; null when none is shown."""
    upload: bool
    """Whether profiles can be dropped onto the page."""
    upload_to_store: bool
    """Whether they can go into the store as well."""


def overview(library: Library, _: Query) -> Overview:
    """What there is to show."""
    library.look_again()
    solutions: list[str] = []
    unreadable: list[tuple[str, str]] = []
    try:
        solutions = library.solutions()
    except (SolscopeError, OSError):  # of the results alone; all else can be shown
        unreadable = library.unreadable_results()
    return Overview(
        solscope=__version__,
        profiles=library.with_cards(),
        skipped=[*library.skipped, *unreadable],
        results=list(map(encodable, library.result_files)),
        solutions=solutions,
        hardware=list(names()),
        models=library.models.entries,
        corpus=library.store.status() if library.has_store else None,
        upload=library.takes_uploads,
        upload_to_store=library.takes_uploads and library.has_store,
    )


def working(library: Library, _: Query) -> list[Working]:
    """What is being done for profiles that were asked for."""
    return library.working
