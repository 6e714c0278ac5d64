"""From a request to its answer as JSON: from the caches, or from the handler.

An answer is computed once and cached until what it is about changes.
"""

from __future__ import annotations

import contextlib
import re
import threading
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

from solscope.errors import UsageError
from solscope.web.api import ENDPOINTS, Endpoint
from solscope.web.library import Library, Query
from solscope.web.sources import read_from

_BY_PATH = [
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", endpoint.path)), endpoint)
    for endpoint in ENDPOINTS
]


class Keys(NamedTuple):
    """The keys of an answer in the two caches."""

    memory: object
    disk: object | None
    """Null for an answer that is cached in memory only."""


def answer(endpoint: Endpoint, library: Library, query: Query) -> bytes:
    """The answer as JSON; cached until what it is about changes."""
    asked = _asked(endpoint, query)

    def make() -> bytes:
        return msgspec.json.encode(endpoint.handle(library, asked))

    keys = _keys(endpoint, library, asked)
    if keys is None:
        return make()
    if keys.disk is None:
        return library.pages.get(keys.memory, make)
    return library.pages.get(keys.memory, lambda: library.disk_cache.get(keys.disk, make))


def cached_answer(endpoint: Endpoint, library: Library, query: Query) -> bytes | None:
    """The answer when it is cached, or takes no time; null when it must be computed."""
    keys = _keys(endpoint, library, _asked(endpoint, query))
    if keys is None:
        return answer(endpoint, library, query)
    body = library.pages.peek(keys.memory)
    if body is None and keys.disk is not None:
        body = library.disk_cache.peek(keys.disk)
        if body is not None:
            library.pages.get(keys.memory, lambda: body)
    return body


def start_answer(library: Library, asked: str) -> None:
    """Start computing an answer ahead of its request; errors are reported with the answer."""
    endpoint, query = endpoint_of(asked)

    def make() -> None:
        with contextlib.suppress(Exception), library.idle.request():
            answer(endpoint, library, query)

    threading.Thread(target=make, daemon=True).start()


def question(path: str, query: Query) -> str:
    """A question as the front end writes it: names in order."""
    given = sorted((name, value) for name, value in query.items() if value)
    return f"{path}?{urlencode(given)}" if given else path


def endpoint_of(asked: str) -> tuple[Endpoint, dict[str, str]]:
    """Where a written question goes, and the names and values in it."""
    path, _, query = asked.partition("?")
    for pattern, endpoint in _BY_PATH:
        match = pattern.fullmatch(path)
        if match:
            named = {name: unquote(value) for name, value in match.groupdict().items()}
            return endpoint, {**dict(parse_qsl(query)), **named}
    raise UsageError(f"no such question: {path}")


def _asked(endpoint: Endpoint, query: Query) -> dict[str, str]:
    accepted = {*endpoint.parameters, *re.findall(r"\{(\w+)\}", endpoint.path)}
    return {name: value for name, value in query.items() if name in accepted and value}


def _keys(endpoint: Endpoint, library: Library, asked: dict[str, str]) -> Keys | None:
    """Null for an answer that is computed each time."""
    for name in (*endpoint.files, *endpoint.needs):
        if name not in asked:
            raise UsageError(f"missing parameter {name!r}")
    if not endpoint.kept:
        return None
    key: tuple[object, ...] = (endpoint.path, *sorted(asked.items()))
    if endpoint.files:
        entries = [library.entry(asked[name]) for name in endpoint.files]
        # One profile is shown with its path; two are called by labels, which depend on all others.
        shown = [entry.path if len(entries) == 1 else entry.label for entry in entries]
        key = (*key, *shown, *(read_from(library.path(entry.id)) for entry in entries))
        if "model" not in asked:
            return Keys(key, key)
        # What a browser gave is gone with the server: not worth a file.
        return Keys((*key, library.models.state(asked["model"])), None)
    if endpoint.of_results:
        key = (*key, *library.result_stamps())
        return Keys(key, key)
    if endpoint.of_store:
        key = (*key, library.store.version())
        # Searches are as many as there are words: not worth a file each.
        return Keys(key, None if "find" in asked else (library.store.url, key))
    return None
