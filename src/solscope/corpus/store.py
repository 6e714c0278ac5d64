"""A store: tables of profiles in a folder or at an object-store URL.

Writing a batch of profiles is one commit per table, `profiles` last. Until that one, readers see
nothing of the batch; from then on they see all of it. Removing goes the other way round. What lies
in the other tables without a row in `profiles` is ignored by readers and removed by `compact` after
a day (a writer at work may be about to commit it).

Two writers may add the same content at the same time. Then `profiles` has two rows with one id; the
earlier one counts, for every reader, and the other is removed by `compact`.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from solscope.corpus import delta
from solscope.corpus.location import normal
from solscope.corpus.rows import Extract
from solscope.corpus.schema import SCHEMA_VERSION, TABLES, VERSION_KEY, schema
from solscope.corpus.status import CorpusStatus
from solscope.errors import InputError, UsageError

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_TIME_DIGITS = 16
"""Hexadecimal digits of an entry that are its time, ns; the rest is random."""


@dataclass(frozen=True)
class Corpus:
    """An open store; every call reads its newest version."""

    url: str

    def table(self, name: str) -> pl.LazyFrame:
        """The rows of one table that belong to the profiles of the store."""
        if name not in TABLES:
            raise UsageError(f"no table {name!r} in a store (available: {', '.join(TABLES)})")
        if name == "profiles":
            return self.profiles().lazy()
        entries = self.profiles().select("entry").lazy()
        return self.raw(name).join(entries, on="entry", how="semi")

    def raw(self, name: str) -> pl.LazyFrame:
        """All rows of one table, those of killed attempts included."""
        return delta.scan(delta.open_existing(self.table_url(name)))

    def profiles(self) -> pl.DataFrame:
        """One row per profile (`schema.PROFILE_COLUMNS`), sorted by id."""
        rows = self.raw("profiles").collect()
        return live(rows)

    def known(self) -> frozenset[str]:
        """Ids of all profiles."""
        return frozenset(self.raw("profiles").select("id").unique().collect()["id"].to_list())

    def append(self, extracts: Sequence[Extract]) -> list[str]:
        """Add profiles in one batch; returns the ids that were added.

        Those that another writer has added meanwhile are left out. When this returns, the batch is
        in the store; when it raises or is killed, nothing of it is.
        """
        taken = set(self.known())
        fresh = []
        for extract in extracts:
            if extract.profile["id"] not in taken:
                taken.add(extract.profile["id"])
                fresh.append((_new_entry(), extract))
        if not fresh:
            return []
        for name in TABLES:
            parts = [_rows(name, entry, extract) for entry, extract in fresh]
            rows = pl.concat([part for part in parts if part is not None] or [_empty(name)])
            if not rows.is_empty():
                delta.append(self.table_url(name), rows)
        return [extract.profile["id"] for _, extract in fresh]

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Remove profiles by id; returns those that were there."""
        rows = self.raw("profiles").filter(pl.col("id").is_in(list(ids))).collect()
        if rows.is_empty():
            return []
        delta.delete(self.table_url("profiles"), "id", rows["id"].unique().to_list())
        for name in TABLES:
            if name != "profiles":
                delta.delete(self.table_url(name), "entry", rows["entry"].to_list())
        return sorted(rows["id"].unique().to_list())

    def compact(self) -> None:
        """Join small files, and remove what has been out of use for a day."""
        rows = self.raw("profiles").collect()
        live_rows = live(rows)
        doubles = rows.join(live_rows, on="entry", how="anti")["entry"].to_list()
        if doubles:
            delta.delete(self.table_url("profiles"), "entry", doubles)
        limit = time.time_ns() - delta.RETENTION_HOURS * 3600 * 10**9
        for name in TABLES:
            if name != "profiles":
                old = [entry for entry in self.leftovers(name) if entry_time_ns(entry) < limit]
                if old:
                    delta.delete(self.table_url(name), "entry", old)
            delta.compact(self.table_url(name))

    def leftovers(self, name: str) -> list[str]:
        """Entries of one table that no profile names."""
        entries = self.raw(name).select("entry").unique().collect()
        return sorted(entries.join(self.profiles(), on="entry", how="anti")["entry"].to_list())

    def version(self) -> tuple[str, int, int]:
        """Which store this is, how often its profiles were written, and when last (Unix time, ms).

        Changes with every batch. The time tells apart what was written to two copies of a store.
        """
        table = delta.open_existing(self.table_url("profiles"))
        return str(table.metadata().id), table.version(), delta.written_ms(table)

    def files(self, name: str) -> list[tuple[str, int]]:
        """Address and size of the files that one table consists of now."""
        return delta.files(delta.open_existing(self.table_url(name)))

    def status(self) -> CorpusStatus:
        """What the store holds."""
        rows = self.profiles()
        sizes = [size for name in TABLES for _, size in self.files(name)]
        return CorpusStatus(
            profiles=rows.height,
            events=int(rows["events"].sum()),
            bytes=sum(sizes),
            store_schema=SCHEMA_VERSION,
            engine=f"deltalake {delta.require().__version__}",
            gpu_ms=int(rows["gpu_ns"].sum()) / 1e6,
            files=len(sizes),
            leftover_entries=len({e for n in TABLES if n != "profiles" for e in self.leftovers(n)}),
            gpus=_counts(rows["gpu"]),
            models=_counts(rows["model"]),
            frameworks=_counts(rows["framework"]),
        )

    def table_url(self, name: str) -> str:
        """Location of one table."""
        return f"{self.url}/{name}"


def live(rows: pl.DataFrame) -> pl.DataFrame:
    """Of several rows with one id the earliest."""
    ordered = rows.sort("id", "added_ns", "entry")
    return ordered.unique("id", keep="first", maintain_order=True)


def create_corpus(url: str | os.PathLike[str]) -> Corpus:
    """Make an empty store in a folder or at an object-store URL; one that exists is opened."""
    text = normal(url)
    delta.require_writer()  # Before anything is made.
    if not _SCHEME.match(text):
        folder = Path(text)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{text} is a file; a store needs a folder")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "times").is_dir():
            raise UsageError(f"{text}: not empty and not a store; choose a new folder")
        folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        about = {VERSION_KEY: str(SCHEMA_VERSION)} if name == "profiles" else {}
        delta.create(f"{text}/{name}", schema(name), f"solscope {name}", {**about})
    return open_corpus(text)


def open_corpus(url: str | os.PathLike[str]) -> Corpus:
    """Open a store that `create_corpus` made; `InputError` when there is none."""
    text = normal(url)
    table = delta.open_table(f"{text}/profiles")
    if table is None:
        raise InputError(
            f"{text}: not a profile store; create one with `solscope corpus init {text}`"
        )
    version = table.metadata().configuration.get(VERSION_KEY)
    if version is None:
        raise InputError(f"{text}: a Delta table, but not of a profile store")
    if version != str(SCHEMA_VERSION):
        raise InputError(
            f"{text}: a store with tables of version {version}; this solscope reads version "
            f"{SCHEMA_VERSION}: use the solscope that wrote it, or build the store again"
        )
    return Corpus(text)


def _new_entry() -> str:
    return f"{time.time_ns():0{_TIME_DIGITS}x}-{uuid.uuid4().hex[:16]}"


def entry_time_ns(entry: str) -> int:
    """When an attempt began; 0 for a name that we did not draw."""
    try:
        return int(entry[:_TIME_DIGITS], 16)
    except ValueError:
        return 0


def _rows(name: str, entry: str, extract: Extract) -> pl.DataFrame | None:
    """What one profile adds to one table."""
    if name == "profiles":
        row = {**extract.profile, "entry": entry, "added_ns": time.time_ns()}
        return pl.DataFrame([row], schema=schema(name))
    rows = {"times": extract.times, "steps": extract.steps, "events": extract.events}[name]
    if rows is None:
        return None
    return rows.with_columns(pl.lit(entry).alias("entry")).select(schema(name).names())


def _empty(name: str) -> pl.DataFrame:
    return schema(name).to_frame()


def _counts(values: pl.Series) -> dict[str, int]:
    named = values.fill_null("(unknown)").value_counts(sort=True, name="count")
    rows = sorted(named.iter_rows(), key=lambda row: (-row[1], row[0]))
    return dict(rows)
