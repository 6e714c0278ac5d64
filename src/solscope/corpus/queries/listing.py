"""The profiles of a store, one by one, and finding them by what a user types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import polars as pl

from solscope.corpus.queries.select import PHASE, fact
from solscope.corpus.schema import plain_text
from solscope.corpus.store import Corpus
from solscope.errors import UsageError

SHORTEST_ID = 6
"""Digits of an id that are enough to name a profile."""


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
    return page_of_profiles(corpus, where)[1]


def page_of_profiles(
    corpus: Corpus,
    where: Mapping[str, str] | None = None,
    start: int = 0,
    most: int | None = None,
) -> tuple[int, list[ListedProfile]]:
    """How many profiles there are, and so many of them from `start` on."""
    if PHASE in (where or {}):
        raise UsageError("a profile may have several phases; `corpus list` shows its share of each")
    rows = corpus.profiles()
    for name, value in (where or {}).items():
        rows = rows if rows.is_empty() else rows.filter(fact(rows, name) == value)
    ordered = rows.sort("recorded_ns", "file", "id", nulls_last=True)
    page = ordered.slice(start, most)
    return ordered.height, [_listed(row) for row in page.iter_rows(named=True)]


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
