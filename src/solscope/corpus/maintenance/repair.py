"""Removing rows that a store holds more than once, and completing its records.

A store should never get there: two compactions that both commit (deltalake 1.6.6), or rows that
another program appended a second time, are how it can. `profiles` says how many rows each profile
has in each table, and for `times` and `steps` their hash. There, copies are removed only if the
remaining rows have the stored count and hash. `events` and `profiles` have no hash: copies are
removed only if every row is there the same multiple of times. Everything else stays as it is and is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import polars as pl

from solscope.corpus import commits, delta
from solscope.corpus.maintenance.lost_batches import (
    LostBatch,
    accept_loss,
    lost,
    read_chain,
    rolled_back,
    write_missing_records,
)
from solscope.corpus.rows import rows_hash
from solscope.corpus.schema import HASHES, ROW_COUNTS, schema
from solscope.corpus.store import Corpus, rows_written

REMOVE = "remove the profile (`corpus remove`) and add its file again"


class TableRepair(msgspec.Struct, frozen=True):
    """Copies in one table."""

    table: str
    profiles: int
    """Profiles with rows that are there more than once."""
    rows: int
    """Rows too many: removed, or to be removed in a dry run."""


class Unrepaired(msgspec.Struct, frozen=True):
    """A profile with fewer rows than were written, or more, of which the right ones are unknown."""

    table: str
    profile: str
    """Its id."""
    file: str
    reason: str


class RepairResult(msgspec.Struct, frozen=True):
    """What was doubled, and what became of it."""

    dry_run: bool
    profiles: int
    """Profiles that had doubled rows in any table."""
    rows: int
    """Rows too many in all tables."""
    tables: list[TableRepair]
    """Tables with doubled rows."""
    unrepaired: list[Unrepaired]
    lost: list[LostBatch]
    """Commits that are lost, in whole or in part: no repair can bring them back."""
    accepted_loss: int
    """Profiles that are lost and no longer expected, as was asked for."""

    @property
    def clean(self) -> bool:
        """Whether the store has the rows that were written, each once, and no commit is lost."""
        return not self.unrepaired and not self.lost and not (self.dry_run and self.rows)


class _Doubled(NamedTuple):
    """The entries of one table that have copies, and their rows without them."""

    rows: pl.DataFrame
    """What is to remain of them."""
    extra: int
    entries: frozenset[str]
    unrepaired: list[Unrepaired]


def repair(corpus: Corpus, *, dry_run: bool = False, accept: bool = False) -> RepairResult:
    """Remove every row that is there more than once, one commit per table.

    Other processes may keep reading and writing. A repair that is killed can be run again. With
    `accept`, lost commits are no longer expected to be there.
    """
    results = {name: _repair_table(corpus, name, dry_run) for name in ("profiles", *ROW_COUNTS)}
    if not dry_run:
        write_missing_records(corpus)
    accepted = accept_loss(corpus) if accept and not dry_run else 0
    now = corpus.snapshot()
    rows = now.raw("profiles").collect()
    chain = read_chain(now, rows.select("batch"))
    return RepairResult(
        dry_run=dry_run,
        profiles=len(frozenset().union(*(doubled.entries for doubled in results.values()))),
        rows=sum(doubled.extra for doubled in results.values()),
        tables=[
            TableRepair(name, len(doubled.entries), doubled.extra)
            for name, doubled in results.items()
            if doubled.extra
        ],
        unrepaired=[
            *(row for doubled in results.values() for row in doubled.unrepaired),
            *(row for name in ROW_COUNTS for row in _incomplete(now, name, rows)),
        ],
        lost=[*lost(chain), *rolled_back(corpus)],
        accepted_loss=accepted,
    )


def _repair_table(corpus: Corpus, name: str, dry_run: bool) -> _Doubled:
    profiles = corpus.raw("profiles").collect().unique("entry", keep="any")
    results: list[_Doubled] = []

    def select(rows: pl.LazyFrame) -> pl.DataFrame:
        results.append(_find(name, rows, profiles))
        return results[-1].rows

    url = corpus.table_url(name)
    columns = schema(name)
    if not select(delta.scan(delta.open_existing(url), columns)).is_empty() and not dry_run:
        commits.replace(url, "entry", columns, select)
    return results[-1]


def _find(name: str, rows: pl.LazyFrame, profiles: pl.DataFrame) -> _Doubled:
    """Entries with more rows than `profiles` says; only their rows are read as a whole."""
    counts = rows.group_by("entry").agg(pl.len().cast(pl.Int64).alias("found")).collect()
    written = pl.lit(1, pl.Int64) if name == "profiles" else pl.col(ROW_COUNTS[name])
    more = (
        profiles.with_columns(written.alias("written"))
        .join(counts, on="entry")
        .filter(pl.col("found") > pl.col("written"))
        .sort("id", "entry")
    )
    remaining, extra, entries, unrepaired = [schema(name).to_frame()], 0, set(), []
    for profile, own in _with_rows(more, rows):
        whole = _without_copies(name, own, profile)
        if whole is None:
            reason = f"{profile['written']:,} rows expected, {own.height:,} found; {REMOVE}"
            unrepaired.append(Unrepaired(name, profile["id"], profile["file"], reason))
            continue
        remaining.append(whole)
        extra += own.height - whole.height
        entries.add(profile["entry"])
    return _Doubled(pl.concat(remaining), extra, frozenset(entries), unrepaired)


def _incomplete(corpus: Corpus, name: str, profiles: pl.DataFrame) -> Iterator[Unrepaired]:
    """Profiles of a snapshot with fewer rows than were written: a commit or a file is lost."""
    if rows_written(corpus.open(name)) == profiles[ROW_COUNTS[name]].sum():
        return  # Without reading any row.
    counts = corpus.raw(name).group_by("entry").agg(pl.len().alias("found")).collect()
    written, present = pl.col(ROW_COUNTS[name]), pl.col("found").fill_null(0)
    fewer = profiles.join(counts, on="entry", how="left").filter(present < written).sort("id")
    for row in fewer.iter_rows(named=True):
        reason = f"{row[ROW_COUNTS[name]]:,} rows expected, {row['found'] or 0:,} found; {REMOVE}"
        yield Unrepaired(name, row["id"], row["file"], reason)


def _with_rows(
    profiles: pl.DataFrame, rows: pl.LazyFrame
) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """Each profile with its rows of one table."""
    if profiles.is_empty():
        return
    wanted = rows.join(profiles.lazy().select("entry"), on="entry", how="semi").collect()
    parts = wanted.partition_by("entry", as_dict=True)
    for profile in profiles.iter_rows(named=True):
        yield profile, parts[(profile["entry"],)]


def _without_copies(name: str, rows: pl.DataFrame, profile: dict[str, Any]) -> pl.DataFrame | None:
    """The rows as they were written; null when they cannot be determined.

    Events may repeat in a profile, so equal rows are counted: a table that was doubled as a whole
    has an even number of each. When only a part was doubled, the distinct rows may be the original
    ones. Only a hash can confirm that: a foreign row can make up for a copy in the count.
    """
    written = int(profile["written"])
    distinct = rows.group_by(pl.all(), maintain_order=True).agg(pl.len().alias("copies"))
    share = _share(distinct, rows.height, written)
    hashed = HASHES.get(name)
    if hashed is None:
        return None if share is None else share.select(rows.columns)
    for whole in (share, distinct):
        if whole is None:
            continue
        original = whole.select(rows.columns)
        if original.height == written and rows_hash(original) == profile[hashed]:
            return original
    return None


def _share(distinct: pl.DataFrame, height: int, written: int) -> pl.DataFrame | None:
    """The n-th part of each group of equal rows, when the table has n times the rows it should."""
    times, remainder = divmod(height, written) if written else (0, 1)
    if remainder or not (distinct["copies"] % times == 0).all():
        return None
    repeats = pl.int_ranges(0, pl.col("copies") // times)
    return distinct.with_columns(repeats.alias("copies")).explode("copies")
