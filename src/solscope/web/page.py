"""The page that a browser loads: script, style, and the answers that the view begins with.

The front end draws a view from answers. Cached ones are embedded in the page, so that nothing
is left to wait for. The others are started here, and the browser requests them at once,
while it reads the script.
The front end asks for whatever is not in the page: `first_questions` decides how soon a view is
there, not what it shows.
"""

from __future__ import annotations

from html import escape
from string import Template
from urllib.parse import quote, unquote

from solscope.errors import SolscopeError
from solscope.report.html import asset, script_data
from solscope.web.api import FACTS, MODEL
from solscope.web.dispatch import cached_answer, endpoint_of, question, start_answer
from solscope.web.library import Library, Query

USUAL_HARDWARE = "H20,XPU-A,H200"
"""GPUs that the suite shows when the address names none."""
MAX_EMBEDDED_BYTES = 1_000_000
"""Larger answers are not embedded; the browser requests them separately."""
VIEWS = ("profile", "compare", "diagnose", "ranks", "corpus", "suite", "bench")
"""First parts of the addresses of pages."""


def page(library: Library, path: str, query: Query, root: str = "") -> str:
    """The page at an address; `root` is the prefix that a proxy takes off."""
    links: list[str] = []
    answers: list[str] = []
    for asked in first_questions(path, query):
        name = escape(asked)
        answer = _at_hand(library, asked)
        if answer is None:
            start_answer(library, asked)
        if answer is None or len(answer) > MAX_EMBEDDED_BYTES:
            links.append(f'<link rel="preload" as="fetch" crossorigin href="{escape(root)}{name}">')
        else:
            data = script_data(answer)
            answers.append(f'<script type="application/json" data-answer="{name}">{data}</script>')
    return Template(asset("dashboard.html")).substitute(
        root=escape(root),
        links="\n".join(links),
        style=asset("app.css"),
        answers="\n".join(answers),
        script=asset("app.js"),
    )


def is_known(library: Library, path: str) -> bool:
    """Whether there is a view at this address."""
    view, _, rest = path.strip("/").partition("/")
    if view == "profile":
        return unquote(rest) in {entry.id for entry in library.entries}
    return (view in VIEWS and (view == "suite" or not rest)) or (not view and not rest)


def first_questions(path: str, query: Query) -> list[str]:
    """What the front end asks to draw the view at this address."""
    view, _, rest = path.strip("/").partition("/")
    name = quote(unquote(rest), safe="")
    given = {key: query.get(key, "") for key in ("a", "b", "hardware", "device", "suite", *FACTS)}
    costed = {key: query.get(key, "") for key in ("hardware", *MODEL)}
    two = {key: given[key] for key in ("a", "b")}
    facts = {key: given[key] for key in FACTS}
    asked = ["/api/overview"]
    if view == "profile" and name:
        asked.append(question(f"/api/profile/{name}", costed))
        asked += [
            question(f"/api/profile/{name}/{endpoint}", {}) for endpoint in ("timeline", "details")
        ]
    elif view in ("compare", "diagnose") and all(two.values()):
        asked.append(question(f"/api/{view}", two))
    elif view == "diagnose" and given["a"]:
        asked.append(f"/api/diagnose/{quote(given['a'], safe='')}")
    elif view == "bench":
        of = {key: given[key] for key in ("device", "suite")}
        asked.append(question("/api/bench", of))
        asked += [question("/api/bench/compare", {**two, **of})] if all(two.values()) else []
    elif view == "suite":
        chosen = {"hardware": given["hardware"] or USUAL_HARDWARE}
        asked.append(question(f"/api/suite/{name}" if name else "/api/suite", chosen))
    elif view == "corpus":
        by, what, find = (query.get(key, "") for key in ("by", "what", "find"))
        asked += [
            question("/api/corpus", {**_listed(query), **facts}),
            question("/api/corpus/importance", {"by": by or "operator", "find": find, **facts}),
            question("/api/corpus/trend", {"what": what or "step", **facts}),
        ]
    return asked


def _listed(query: Query) -> dict[str, str]:
    """Which page of the list of profiles the address asks for, as its table writes it."""
    names = ("find", "sort", "start")
    return {name: query.get(f"{name}.profiles-of-the-store", "") for name in names}


def _at_hand(library: Library, asked: str) -> bytes | None:
    """Null as well when the answer is an error: the front end asks again and shows it."""
    endpoint, query = endpoint_of(asked)
    try:
        return cached_answer(endpoint, library, query)
    except SolscopeError:
        return None
