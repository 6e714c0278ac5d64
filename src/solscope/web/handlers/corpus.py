"""Questions about the profile store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import polars as pl

from solscope.corpus.queries.importance import Importance, ImportanceBy, ImportanceRow, importance
from solscope.corpus.queries.listing import page_of_profiles
from solscope.corpus.queries.select import PHASE, fact
from solscope.corpus.queries.shapes import HotShapes, hot_shapes
from solscope.corpus.queries.trend import Trend, TrendBy, trend
from solscope.corpus.status import CorpusStatus
from solscope.errors import UsageError
from solscope.pages.headline import Headline, of_importance
from solscope.web.api import FACTS
from solscope.web.library import Library, Query


class StoreProfile(msgspec.Struct, frozen=True):
    """One profile of the store, as its list shows it."""

    id: str
    file: str
    model: str | None
    framework: str | None
    version: str | None
    gpu: str | None
    recorded_ns: int | None
    """Unix time."""
    tags: dict[str, str]
    steps: int
    gpu_ms: float
    decode_pct: float | None


class StoreSeries(msgspec.Struct, frozen=True):
    """Profiles of one model on one GPU that can be points of a line over time."""

    model: str | None
    gpu: str | None
    profiles: int


class CorpusPage(msgspec.Struct, frozen=True):
    """A profile store: what it holds and by what it can be cut."""

    status: CorpusStatus
    profiles: list[StoreProfile]
    """Those of one page; oldest recording first, unless the question says otherwise."""
    in_all: int
    """Profiles with the facts that were chosen."""
    found: int
    """Profiles of these that hold the text that was looked for; all, when none was."""
    start: int
    """Place of the first one of the page among those found."""
    most: int
    """Profiles of a whole page."""
    series: list[StoreSeries]
    """Of all with these facts, those with most profiles first."""
    facts: dict[str, list[str]]
    """Values of each fact by which profiles can be chosen."""


class ImportancePage(msgspec.Struct, frozen=True):
    """The most important rows of a table that may have thousands."""

    headline: Headline
    definition: str
    by: ImportanceBy
    weight: str
    profiles: int
    total_gpu_ms: float
    in_all: int
    """Rows of the whole table."""
    found: int
    """Rows of it that hold the text that was looked for; all, when none was."""
    start: int
    """Place of the first of `rows` among those found."""
    rows: list[ImportanceRow]
    """Those of one page, most important first."""
    shown_pct: float
    """Importance of `rows` together."""
    warnings: list[str]
    """What makes the whole table unsafe."""


MAX_PROFILES = 100
"""Profiles in one answer, unless the question asks for more or fewer."""
MAX_SERIES = 20
"""Series that are listed."""
MAX_ROWS = 200
"""Rows of a long table in one answer, unless the question asks for more."""
LONGEST_PAGE = 10_000
"""Profiles or rows in one answer, whatever the question asks for."""


def store_page(library: Library, query: Query) -> CorpusPage:
    """What the store holds."""
    store = library.store.corpus()
    everything = store.profiles()
    shown = StoreProfile.__struct_fields__
    start, most = _page(query, MAX_PROFILES)
    find, sort = query.get("find", ""), query.get("sort", "")
    page = page_of_profiles(store, _where(query), find, sort, start, most)
    return CorpusPage(
        status=library.store.status(),
        profiles=[
            StoreProfile(**{name: getattr(row, name) for name in shown}) for row in page.profiles
        ],
        in_all=page.chosen.height,
        found=page.found,
        start=start,
        most=most,
        series=_series(page.chosen),
        facts={
            name: sorted(fact(everything, name).unique().to_list())
            for name in FACTS
            if not everything.is_empty()
        },
    )


def _series(profiles: pl.DataFrame) -> list[StoreSeries]:
    """Models and GPUs of profiles with a date and steps."""
    dated = profiles.filter(pl.col("recorded_ns").is_not_null() & (pl.col("steps") > 0))
    counts = dated.group_by("model", "gpu").agg(pl.len().alias("profiles"))
    most = counts.sort("profiles", "model", "gpu", descending=[True, False, False], nulls_last=True)
    return [StoreSeries(**row) for row in most.head(MAX_SERIES).iter_rows(named=True)]


def importance_page(library: Library, query: Query) -> ImportancePage:
    """What matters most."""
    by = _choice(query, "by", get_args(ImportanceBy))
    weight, where = query.get("weight") or "uniform", _where(query)
    key = ("importance", library.store.version(), by, weight, *sorted(where.items()))
    whole: Importance = library.tables.get(
        key, lambda: importance(library.store.corpus(), by, (), weight, where)
    )
    words = query.get("find", "").lower().split()
    matching = [row for row in whole.rows if all(word in row.key.lower() for word in words)]
    start, most = _page(query, MAX_ROWS)
    rows = matching[start : start + most]
    return ImportancePage(
        headline=of_importance(whole),
        definition=whole.definition,
        by=by,
        weight=weight,
        profiles=whole.profiles,
        total_gpu_ms=whole.total_gpu_ms,
        in_all=len(whole.rows),
        found=len(matching),
        start=start,
        rows=rows,
        shown_pct=sum(row.importance_pct for row in rows),
        warnings=whole.warnings,
    )


def store_shapes(library: Library, query: Query) -> HotShapes:
    """The hot shapes of one operator."""
    return hot_shapes(library.store.corpus(), query["operator"], buckets=True, where=_where(query))


def store_trend(library: Library, query: Query) -> Trend:
    """One series over time."""
    what, by = query.get("what") or "step", _choice(query, "order", get_args(TrendBy))
    return trend(library.store.corpus(), what, by, where=_where(query))


def _page(query: Query, usual: int) -> tuple[int, int]:
    """Place of the first row of a page, and how many rows it has at most."""
    return _count(query, "start", 0, least=0), _count(query, "most", usual, most=LONGEST_PAGE)


def _count(query: Query, name: str, usual: int, least: int = 1, most: int = 99_999_999) -> int:
    text = query.get(name) or str(usual)
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        raise UsageError(f"{name} must be a number of rows from {least:,} to {most:,}")
    return int(text)


def _where(query: Query) -> dict[str, str]:
    return {name: query[name] for name in (*FACTS, PHASE) if query.get(name)}


def _choice(query: Query, name: str, choices: Sequence[Any]) -> Any:
    """One of the known values; the first when the question does not say."""
    asked = query.get(name) or choices[0]
    if asked not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {asked!r}")
    return asked
