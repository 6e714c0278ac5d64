"""The profiles of a store, one by one, and finding them by what a user types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import polars as pl

from solscope.corpus.queries.select import PHASE, fact
from solscope.corpus.schema import plain_text
from solscope.corpus.store import Corpus
from solscope.errors import UsageError

SHORTEST_ID = 6
"""Digits of an id that are enough to name a profile."""
ORDERS: dict[str, tuple[pl.Expr, ...]] = {
    "file": (pl.col("file").str.to_lowercase(),),
    "model": (pl.col("model").str.to_lowercase(),),
    "framework": (pl.col("framework"), pl.col("version")),
    "gpu": (pl.col("gpu"),),
    "date": (pl.col("recorded_ns"),),
    "steps": (pl.col("steps"),),
    "time": (pl.col("gpu_ns"),),
    "decode": (pl.when(pl.col("gpu_ns") > 0).then(pl.col("decode_ns") / pl.col("gpu_ns")),),
}
"""What a list can be sorted by."""
_SEARCHED = ("id", "file", "model", "framework", "version", "gpu", "host", "tags")


class ListedProfile(msgspec.Struct, frozen=True):
    """One profile of a store."""

    id: str
    file: str
    format: str
    model: str | None
    framework: str | None
    version: str | None
    gpu: str | None
    tp: int | None
    ep: int | None
    dp: int | None
    rank: int | None
    world_size: int | None
    host: str | None
    recorded_ns: int | None
    """Unix time."""
    added_ns: int
    """Unix time."""
    tags: dict[str, str]
    events: int
    kept_events: int
    steps: int
    gpu_ms: float
    prefill_pct: float | None
    """Share of GPU time in prefill; null without GPU time."""
    decode_pct: float | None
    mixed_pct: float | None


def list_profiles(corpus: Corpus, where: Mapping[str, str] | None = None) -> list[ListedProfile]:
    """All profiles, or those whose metadata or tags are as `where` says, oldest recording first."""
    return page_of_profiles(corpus, where).profiles


class ListPage(NamedTuple):
    """Some of the profiles of a list."""

    chosen: pl.DataFrame
    """Rows of `profiles` of all that have the metadata or tags asked for."""
    found: int
    """Profiles of these that hold the words that were looked for."""
    profiles: list[ListedProfile]


def page_of_profiles(
    corpus: Corpus,
    where: Mapping[str, str] | None = None,
    find: str = "",
    sort: str = "",
    start: int = 0,
    most: int | None = None,
) -> ListPage:
    """So many profiles from `start` on, of those that hold all words of `find`.

    `sort` is one of `ORDERS`, with `-up` or `-down` behind it; without, the oldest recording is
    first. What is not known comes last both ways.
    """
    if PHASE in (where or {}):
        raise UsageError("a profile may have several phases; `corpus list` shows its share of each")
    chosen = corpus.profiles()
    for name, value in (where or {}).items():
        chosen = chosen if chosen.is_empty() else chosen.filter(fact(chosen, name) == value)
    found = _holding(chosen, find.lower().split())
    page = _ordered(found, sort).slice(start, most)
    return ListPage(chosen, found.height, [_listed(row) for row in page.iter_rows(named=True)])


def _holding(rows: pl.DataFrame, words: list[str]) -> pl.DataFrame:
    if not words:
        return rows
    text = pl.concat_str(_SEARCHED, separator=" ", ignore_nulls=True).str.to_lowercase()
    holds = rows.select(text.alias("text")).select(
        pl.all_horizontal(pl.col("text").str.contains(word, literal=True) for word in words)
    )
    return rows.filter(holds.to_series())


def _ordered(rows: pl.DataFrame, sort: str) -> pl.DataFrame:
    usual = ("recorded_ns", "file", "id")
    if not sort:
        return rows.sort(usual, nulls_last=True)
    name, _, way = sort.rpartition("-")
    if name not in ORDERS or way not in ("up", "down"):
        raise UsageError(
            f"sort must be one of {', '.join(ORDERS)}, and -up or -down behind it, not {sort!r}"
        )
    down = [way == "down"] * len(ORDERS[name]) + [False] * len(usual)
    return rows.sort(*ORDERS[name], *usual, descending=down, nulls_last=True)


def find_ids(corpus: Corpus, names: Iterable[str]) -> list[str]:
    """Ids behind what a user types: an id, its first digits, or a file as it was added."""
    rows = corpus.profiles()
    ids: dict[str, None] = {}
    for given in names:
        name = plain_text(given)
        if len(name) >= SHORTEST_ID:
            match = rows.filter(pl.col("id").str.starts_with(name) | (pl.col("file") == name))
        else:
            match = rows.filter(pl.col("file") == name)
        if match.is_empty():
            raise UsageError(f"no profile {name!r} in this store; `corpus list` shows all")
        if match.height > 1:
            raise UsageError(f"{match.height} profiles match {name!r}; use more digits of the id")
        ids[match["id"][0]] = None
    return list(ids)


def choose_ids(corpus: Corpus, where: Mapping[str, str], before_ns: int | None = None) -> list[str]:
    """Ids of profiles with these metadata or tags that were recorded before a time.

    A profile without a recording date counts as recorded when it was added.
    """
    if PHASE in where:
        raise UsageError("a profile may have several phases; profiles are chosen by metadata")
    rows = corpus.profiles()
    for name, value in where.items():
        rows = rows if rows.is_empty() else rows.filter(fact(rows, name) == value)
    if before_ns is not None:
        rows = rows.filter(pl.coalesce("recorded_ns", "added_ns") < before_ns)
    return list(rows["id"].to_list())


def _listed(row: dict[str, Any]) -> ListedProfile:
    total = row["gpu_ns"]
    shares = {
        f"{phase}_pct": 100 * row[f"{phase}_ns"] / total if total else None
        for phase in ("prefill", "decode", "mixed")
    }
    same = {name: row[name] for name in ListedProfile.__struct_fields__ if name in row}
    return ListedProfile(
        **{
            **same,
            **shares,
            "tags": msgspec.json.decode(row["tags"], type=dict[str, str]),
            "gpu_ms": total / 1e6,
        }
    )
