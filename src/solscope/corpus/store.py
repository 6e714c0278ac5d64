"""A store: tables of profiles in a folder or at an object-store URL.

Writing a batch of profiles is one commit per table, `profiles` last. Until that one, readers see
nothing of the batch; from then on they see all of it. Removing goes the other way round. What lies
in the other tables without a row in `profiles` is ignored by readers and removed by `compact`.

Commits to `profiles` are numbered without gaps, and only one writer can claim a number. So a writer
sees every profile that was added before its own commit, and adds no content twice. After the commit
its number and count are written to `batches`, by which `verify` finds commits that were lost.

`compact` may remove rows of a batch that is still being written, since no clock can tell such a
batch from the rest of a killed one. It claims a number as well before it does so; a writer that
finds this number changed when it commits writes its rows again. No clocks are compared.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from solscope.corpus import commits, delta
from solscope.corpus.commits import Chain, chain_number
from solscope.corpus.location import normal
from solscope.corpus.rows import Extract
from solscope.corpus.schema import (
    ALL_TABLES,
    BATCHES,
    REDACT_KEY,
    ROW_COUNTS,
    SCHEMA_VERSION,
    TABLES,
    VERSION_KEY,
    schema,
)
from solscope.corpus.status import CorpusStatus
from solscope.errors import InputError, UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
BATCH = "solscope.batch"
"""Chain of commits to `profiles`."""
SWEEP = "solscope.sweep"
"""Chain of those among them after which rows without a profile are removed."""
REMOVED = "solscope.removed"
"""Note in the log entry of a removal: how many profiles of which batch."""
REMOVED_AT_ONCE = 1000
"""Profiles that one commit removes."""
_RESTARTS = 8
"""How often a batch is written again because of sweeps."""
_SNAPSHOTS = 50
"""How often tables are opened again because a writer was faster."""


@dataclass(frozen=True)
class Corpus:
    """An open store; every call reads its newest version, unless it is a snapshot."""

    url: str
    pinned: Mapping[str, DeltaTable] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )
    """Opened tables of a snapshot."""

    def snapshot(self) -> Corpus:
        """The store as it is now, whatever is written from here on."""
        for _ in range(_SNAPSHOTS):
            names = ("profiles", *ROW_COUNTS, BATCHES)
            tables = {name: delta.open_existing(self.table_url(name)) for name in names}
            newest = delta.open_existing(self.table_url("profiles")).version()
            if newest == tables["profiles"].version():
                break
        # Also after too many attempts: rows that a removal took meanwhile then seem to be missing.
        return replace(self, pinned=tables)

    def in_memory(self, name: str) -> bool:
        """Whether the rows of a table are held in memory, and not in files."""
        del name
        return False

    def open(self, name: str) -> DeltaTable:
        """One Delta table."""
        return self.pinned.get(name) or delta.open_newest(self.table_url(name))

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
        return delta.scan(self.open(name), schema(name))

    def profiles(self) -> pl.DataFrame:
        """One row per profile (`schema.PROFILE_COLUMNS`), sorted by id."""
        return live(self.raw("profiles").collect())

    @property
    def redacts(self) -> bool:
        """Whether the store takes profiles only without private text."""
        return self.open("profiles").metadata().configuration.get(REDACT_KEY) == "true"

    def known(self) -> frozenset[str]:
        """Ids of all profiles."""
        return frozenset(_ids(self.open("profiles")))

    @delta.reusing_tables()
    def append(self, extracts: Sequence[Extract]) -> list[str]:
        """Add profiles in one batch; returns the ids that were added.

        Those that the store has already, or that another writer adds meanwhile, are left out. When
        this returns, the batch is in the store; when it raises or is killed, all of it or nothing
        of it is.
        """
        for _ in range(_RESTARTS):
            seen = commits.look(self.table_url("profiles"), lambda table: _look(table, extracts))
            fresh = _without(extracts, seen.taken)
            if not fresh:
                return []
            self._append_rows(fresh)
            added = self._append_profiles(fresh, seen)
            if added is not None:
                return added
        raise InputError(f"{self.url}: compacted {_RESTARTS} times during one batch; try again")

    def _append_rows(self, fresh: Mapping[str, Extract]) -> None:
        for name in ROW_COUNTS:
            parts = [_rows(name, entry, extract) for entry, extract in fresh.items()]
            rows = pl.concat([schema(name).to_frame(), *parts])
            if not rows.is_empty():
                commits.append(self.table_url(name), rows)

    def _append_profiles(self, fresh: Mapping[str, Extract], seen: _Look) -> list[str] | None:
        """Commit a batch; null when its rows may have been swept away since the first look."""
        url = self.table_url("profiles")

        def change(table: DeltaTable) -> tuple[int, list[str]] | None:
            if chain_number(table, SWEEP) != seen.sweep:
                return None
            taken = _present(table, fresh.values(), seen.files)
            batch = chain_number(table, BATCH) + 1
            rows = [
                {**extract.profile, "entry": entry, "added_ns": time.time_ns(), "batch": batch}
                for entry, extract in fresh.items()
                if extract.profile["id"] not in taken
            ]
            if rows:
                frame = pl.DataFrame(rows, schema=schema("profiles"))
                commits.add_rows(url, table, frame, (Chain(BATCH, batch),))
            return batch, [row["id"] for row in rows]

        done = commits.commit(url, change)
        if done is None:
            return None
        batch, added = done
        if added:
            self.record(batch, "add", {batch: len(added)})
        return added

    def record(
        self, batch: int, kind: str, profiles: Mapping[int, int], writer: str | None = None
    ) -> None:
        """Write to `batches` what a commit to `profiles` did."""
        writer = writer or uuid.uuid4().hex
        now = time.time_ns()
        rows = [(batch, kind, of, count, writer, now) for of, count in profiles.items()]
        frame = pl.DataFrame(rows, schema=schema(BATCHES), orient="row")
        commits.append(self.table_url(BATCHES), frame)

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Remove profiles by id; returns those that were there."""
        removed: list[str] = []
        for batch in _parts(sorted(set(ids)), REMOVED_AT_ONCE):
            removed += self.remove_rows("id", batch)
        return sorted(removed)

    @delta.reusing_tables()
    def remove_rows(self, column: str, values: list[str]) -> list[str]:
        """Remove profiles by a column of `profiles`; returns their ids."""

        def change(table: DeltaTable) -> tuple[int, pl.DataFrame]:
            batch = chain_number(table, BATCH) + 1
            wanted = delta.scan(table, schema("profiles")).filter(pl.col(column).is_in(values))
            rows = wanted.select("id", "entry", pl.col("batch").fill_null(0)).collect()
            if not rows.is_empty():
                about = {BATCH: str(batch), REMOVED: _counts_text(rows["batch"])}
                there = rows[column].unique().to_list()
                commits.delete_rows(table, column, there, (Chain(BATCH, batch),), about)
            return batch, rows

        batch, rows = commits.commit(self.table_url("profiles"), change)
        if rows.is_empty():
            return []
        counts = Counter(rows["batch"].to_list())
        self.record(batch, "remove", {of: -count for of, count in counts.items()})
        for name in ROW_COUNTS:
            self.delete_entries(name, rows["entry"].to_list())
        return list(rows["id"].unique().to_list())

    def delete_entries(self, name: str, entries: Sequence[str]) -> None:
        """Remove the rows of attempts from one table."""
        for batch in _parts(list(entries), REMOVED_AT_ONCE):
            commits.delete(self.table_url(name), "entry", batch)

    def claim(self, kind: str, batch: int | None = None, chains: tuple[str, ...] = ()) -> int:
        """A commit to `profiles` without rows: the next number, or a later one."""

        def change(table: DeltaTable) -> int:
            number = max(chain_number(table, BATCH) + 1, batch or 0)
            others = [Chain(name, chain_number(table, name) + 1) for name in chains]
            commits.claim(table, (Chain(BATCH, number), *others), {BATCH: str(number)})
            return number

        number = commits.commit(self.table_url("profiles"), change)
        self.record(number, kind, {0: 0})
        return number

    def leftovers(self, name: str) -> list[str]:
        """Entries of one table that no profile names."""
        table, profiles = self.open(name), self.profiles()
        if rows_written(table) == profiles[ROW_COUNTS[name]].sum():
            return []  # Without reading any row.
        entries = delta.scan(table, schema(name)).select("entry").unique().collect()
        return sorted(entries.join(profiles, on="entry", how="anti")["entry"].to_list())

    def version(self) -> tuple[str, int, int]:
        """Which store this is, how often its profiles were written, and when last (Unix time, ms).

        Changes with every batch. The time tells apart what was written to two copies of a store.
        """
        table = self.open("profiles")
        return str(table.metadata().id), table.version(), delta.written_ms(table)

    def files(self, name: str) -> list[tuple[str, int]]:
        """Address and size of the files that one table consists of now."""
        return delta.files(self.open(name))

    def status(self) -> CorpusStatus:
        """What the store holds."""
        now = self.snapshot()
        rows = now.profiles()
        sizes = [size for name in ALL_TABLES for _, size in now.files(name)]
        return CorpusStatus(
            profiles=rows.height,
            events=int(rows["events"].sum()),
            bytes=sum(sizes),
            store_schema=SCHEMA_VERSION,
            engine=f"deltalake {delta.require().__version__}",
            gpu_ms=int(rows["gpu_ns"].sum()) / 1e6,
            files=len(sizes),
            leftover_entries=len({e for name in ROW_COUNTS for e in now.leftovers(name)}),
            gpus=_counts(rows["gpu"]),
            models=_counts(rows["model"]),
            frameworks=_counts(rows["framework"]),
        )

    def table_url(self, name: str) -> str:
        """Location of one table."""
        return f"{self.url}/{name}"


def live(rows: pl.DataFrame) -> pl.DataFrame:
    """Of several rows with one id, which only other programs can add, the first as committed."""
    ordered = rows.sort("id", "batch", "entry")
    return ordered.unique("id", keep="first", maintain_order=True)


def rows_written(table: DeltaTable) -> int | None:
    """Rows of the opened version, as its log says; null where it does not."""
    counts = pl.DataFrame(table.get_add_actions(flatten=True))
    if "num_records" not in counts.columns or counts["num_records"].null_count():
        return 0 if counts.is_empty() else None
    return int(counts["num_records"].sum())


def create_corpus(url: str | os.PathLike[str], *, redact: bool = False) -> Corpus:
    """Make an empty store in a folder or at an object-store URL; one that exists is opened.

    With `redact` it takes profiles only without private text.
    """
    text = normal(url)
    delta.require_writer()  # Before anything is made.
    if not _SCHEME.match(text):
        folder = Path(text)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{text} is a file; a store needs a folder")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "times").is_dir():
            raise UsageError(f"{text}: not empty and not a store; choose a new folder")
        folder.mkdir(parents=True, exist_ok=True)
    for name in (BATCHES, *TABLES):
        about = {VERSION_KEY: str(SCHEMA_VERSION)} if name == "profiles" else {}
        policy = {REDACT_KEY: "true"} if redact and name == "profiles" else {}
        delta.create(f"{text}/{name}", schema(name), f"solscope {name}", {**about, **policy})
    corpus = open_corpus(text)
    if redact and not corpus.redacts:
        raise UsageError(f"{text}: this store exists and was made without --redact")
    return corpus


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
    if version == "1":
        raise InputError(
            f"{text}: a store with tables of version 1; bring it to version {SCHEMA_VERSION} with "
            f"`solscope corpus migrate {text}`"
        )
    if version != str(SCHEMA_VERSION):
        raise InputError(
            f"{text}: a store with tables of version {version}; this solscope reads version "
            f"{SCHEMA_VERSION}: use a newer solscope"
        )
    return Corpus(text)


def _ids(profiles: DeltaTable) -> list[str]:
    return list(delta.scan(profiles, schema("profiles")).select("id").collect()["id"].to_list())


class _Look(NamedTuple):
    """What a writer has seen before it writes rows."""

    taken: set[str]
    """Ids of its batch that are there."""
    sweep: int
    files: frozenset[str]
    """Files that it need not look into again."""


def _look(profiles: DeltaTable, extracts: Sequence[Extract]) -> _Look:
    sweep = chain_number(profiles, SWEEP)
    files = frozenset(file for file, _ in delta.files(profiles))
    return _Look(_present(profiles, extracts), sweep, files)


def _present(
    profiles: DeltaTable, extracts: Iterable[Extract], but: Collection[str] = ()
) -> set[str]:
    """Ids among those of `extracts` that the table has, in other files than `but`."""
    ids = [extract.profile["id"] for extract in extracts]
    rows = delta.scan(profiles, schema("profiles"), but)
    return set(rows.select("id").filter(pl.col("id").is_in(ids)).collect()["id"].to_list())


def _without(extracts: Iterable[Extract], taken: set[str]) -> dict[str, Extract]:
    """Extracts whose content is not in `taken`, each once and under a new entry."""
    fresh = {}
    for extract in extracts:
        if extract.profile["id"] not in taken:
            taken.add(extract.profile["id"])
            fresh[uuid.uuid4().hex] = extract
    return fresh


def _parts(values: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _counts_text(batches: pl.Series) -> str:
    counts = {str(batch): count for batch, count in Counter(batches.to_list()).items()}
    return msgspec.json.encode(counts).decode()


def _rows(name: str, entry: str, extract: Extract) -> pl.DataFrame:
    """What one profile adds to one table."""
    rows = {"times": extract.times, "steps": extract.steps, "events": extract.events}[name]
    if rows is None:
        return schema(name).to_frame()
    return rows.with_columns(pl.lit(entry).alias("entry")).select(schema(name).names())


def _counts(values: pl.Series) -> dict[str, int]:
    named = values.fill_null("(unknown)").value_counts(sort=True, name="count")
    rows = sorted(named.iter_rows(), key=lambda row: (-row[1], row[0]))
    return dict(rows)
