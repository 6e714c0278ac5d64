"""Commits to `profiles` that are not there any more, found by what `batches` says of them.

A record is written after its commit. So where the logs of all tables were rolled back together,
records that only lie in data files prove that there were later commits. No clock is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import polars as pl

from solscope.corpus.commits import chain_number
from solscope.corpus.delta import open_existing, scan, uncommitted
from solscope.corpus.location import is_url
from solscope.corpus.schema import BATCHES, schema
from solscope.corpus.store import BATCH, REMOVED, Corpus

REPAIR = "repair"
"""In place of a writer's name, in records that a repair wrote."""
LOST = (
    "restore the store from a backup, or add the files of this batch again; then "
    "`corpus repair --accept-loss`"
)
ROLLED_BACK = (
    "the logs of the tables were rolled back, as by an old copy of them; put the newer "
    "`_delta_log` folders back, or add the files again and run `corpus repair --accept-loss`"
)


@dataclass(frozen=True)
class Chain:
    """The commits to `profiles`, as both tables know them."""

    last: int
    """Number of the last one, as `profiles` knows it."""
    records: pl.DataFrame
    """Rows of `batches`, each batch once."""
    counts: pl.DataFrame
    """Profiles by `batch`; 0 for those of schema 1."""

    @property
    def unrecorded(self) -> list[int]:
        """Commits without a record: their writer was stopped or is at work, or it is lost."""
        recorded = set(self.records["batch"].to_list())
        return [batch for batch in range(1, self.last + 1) if batch not in recorded]

    @property
    def undone(self) -> pl.DataFrame:
        """Records of commits that `profiles` knows nothing of."""
        return self.records.filter(pl.col("batch") > self.last).sort("batch")

    def differences(self) -> pl.DataFrame:
        """Batches with fewer or more profiles than were added and not removed."""
        expected = (
            self.records.filter(pl.col("batch") <= self.last)
            .group_by(pl.col("of_batch").alias("batch"))
            .agg(pl.col("profiles").sum().alias("expected"))
        )
        joined = expected.join(self.counts, on="batch", how="full", coalesce=True).fill_null(0)
        return joined.filter(pl.col("expected") != pl.col("found")).sort("batch")


def read_chain(corpus: Corpus, profiles: pl.DataFrame) -> Chain:
    """The chain of a snapshot; `profiles` are all rows of that table."""
    records = scan(corpus.open(BATCHES), schema(BATCHES)).collect()
    counts = profiles.group_by(pl.col("batch").fill_null(0)).agg(
        pl.len().cast(pl.Int64).alias("found")
    )
    return Chain(
        last=chain_number(corpus.open("profiles"), BATCH),
        records=_once(records),
        counts=counts,
    )


def _once(records: pl.DataFrame) -> pl.DataFrame:
    """Records of repairs count only where the writer itself has not written one after all."""
    unique = records.unique(["batch", "of_batch", "writer"], keep="any")
    by_repair = pl.col("writer") == REPAIR
    return unique.filter(~by_repair | by_repair.all().over("batch"))


class LostBatch(msgspec.Struct, frozen=True):
    """A commit that is not there as it was written."""

    batch: str
    reason: str


def lost(chain: Chain) -> Iterator[LostBatch]:
    """Commits that are lost, in whole or in part."""
    for row in chain.undone.iter_rows(named=True):
        change = f"{abs(row['profiles']):,} profiles were {_done(row['profiles'])}"
        reason = f"{change}, but this commit to `profiles` is lost; {LOST}"
        yield LostBatch(f"batch {row['batch']}", reason)
    open_ends = set(chain.unrecorded)
    for row in chain.differences().iter_rows(named=True):
        # Below 0 where profiles of a batch without a record were removed.
        if row["batch"] in open_ends and row["expected"] <= 0:
            continue  # Only its record is missing.
        text = f"{row['expected']:,} profiles expected, {row['found']:,} found"
        yield LostBatch(f"batch {row['batch']}", f"{text}; {LOST}")


def _done(profiles: int) -> str:
    return "removed" if profiles < 0 else "added"


def rolled_back(corpus: Corpus) -> Iterator[LostBatch]:
    """One line about all commits that were there and that no log names any more."""
    records = unnamed_records(corpus)
    if records.is_empty():
        return
    first, last = records["batch"].item(0), records["batch"].item(-1)
    name = f"batch {first}" if first == last else f"batches {first} to {last}"
    changes = records["profiles"]
    counts = (
        (changes.filter(changes > 0).sum(), "added"),
        (-changes.filter(changes < 0).sum(), "removed"),
    )
    what = " and ".join(
        f"{count:,} {'profile was' if count == 1 else 'profiles were'} {done}"
        for count, done in counts
        if count
    )
    yield LostBatch(name, f"{what or 'there was a commit'}, but no log names that: {ROLLED_BACK}")


def unnamed_records(corpus: Corpus) -> pl.DataFrame:
    """Records of commits that were there and that no log names any more, by batch.

    They lie in data files that no entry of `batches` names, under a number that `profiles` has not
    reached or that another commit has got since. The writer of other such files was stopped before
    it committed the record. Not found: a number that a writer got again who was then stopped before
    its own record.
    """
    found = _records_outside(corpus.table_url(BATCHES))
    if found.is_empty():
        return found
    # Opened after those files were found: commits that they record are in the log by now.
    last = chain_number(open_existing(corpus.table_url("profiles")), BATCH)
    named = scan(open_existing(corpus.table_url(BATCHES)), schema(BATCHES)).collect()
    taken = named.filter(pl.col("writer") != REPAIR)["batch"].unique().to_list()
    # Only these have one record each.
    alone = pl.col("kind").is_in(["add", "remove"]) & (pl.col("writer") != REPAIR)
    absent = found.join(named, on=["batch", "writer"], how="anti")
    return absent.filter((pl.col("batch") > last) | (alone & pl.col("batch").is_in(taken))).sort(
        "batch", "of_batch", "writer"
    )


def _records_outside(url: str) -> pl.DataFrame:
    """Records in data files that no entry in the log of `batches` names."""
    columns = schema(BATCHES)
    parts = [columns.to_frame()]
    for file in uncommitted(url):
        try:
            parts.append(pl.scan_parquet(file, glob=False, schema=columns).collect())
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            # In a folder, one that is being written or was never finished. An object store has
            # whole ones only, so there it is gone by now, or the store does not answer.
            if is_url(file) and file in uncommitted(url):
                raise
    return pl.concat(parts).unique(["batch", "of_batch", "writer"], keep="any")


def records_to_write(corpus: Corpus, chain: Chain) -> dict[int, tuple[str, dict[int, int]]]:
    """What the missing records must say, for the batches of which that is known."""
    profiles_in = dict(chain.counts.iter_rows())
    removed = dict(chain.records.group_by("of_batch").agg(-pl.col("profiles").sum()).iter_rows())
    notes = _removals(corpus) if chain.unrecorded else {}
    records = {}
    for batch in chain.unrecorded:
        added = profiles_in.get(batch, 0) + removed.get(batch, 0)
        if batch in notes:
            records[batch] = ("remove", notes[batch])
        elif added > 0:
            records[batch] = ("add", {batch: added})
    return records


def write_missing_records(corpus: Corpus) -> list[int]:
    """Write the records that stopped writers did not write; returns the batches without one."""
    chain = read_chain(corpus, corpus.raw("profiles").select("batch").collect())
    records = records_to_write(corpus, chain)
    for batch, (kind, profiles) in records.items():
        corpus.record(batch, kind, profiles, REPAIR)
    return [batch for batch in chain.unrecorded if batch not in records]


def accept_loss(corpus: Corpus) -> int:
    """Take what is there for what should be there; returns how many profiles are given up."""
    now = corpus.snapshot()
    chain = read_chain(now, now.raw("profiles").select("batch").collect())
    unnamed = unnamed_records(corpus)
    last = max([chain.last, *chain.records["batch"].to_list(), *unnamed["batch"].to_list()])
    whole = Chain(last, chain.records, chain.counts)
    wrong = whole.differences()
    if wrong.is_empty() and last == chain.last and not chain.unrecorded and unnamed.is_empty():
        return 0
    number = corpus.claim("accept", last + 1)
    changes = {batch: found - expected for batch, expected, found in wrong.iter_rows()}
    if changes:
        corpus.record(number, "accept", changes)
    for batch in whole.unrecorded:
        corpus.record(batch, "accept", {0: 0}, REPAIR)
    for batch, writer in unnamed.select("batch", "writer").unique(maintain_order=True).iter_rows():
        corpus.record(batch, "accept", {0: 0}, writer)  # It is known from now on.
    given_up = sum(expected - found for _, expected, found in wrong.iter_rows())
    added = unnamed["profiles"].clip(lower_bound=0)  # One that was removed is there again.
    return int(given_up + added.sum())


def _removals(corpus: Corpus) -> dict[int, dict[int, int]]:
    """Removals of which the log of `profiles` still has the entry."""
    removals = {}
    for entry in corpus.open("profiles").history():
        if REMOVED in entry:
            counts = msgspec.json.decode(entry[REMOVED], type=dict[str, int])
            removals[int(entry[BATCH])] = {int(of): -count for of, count in counts.items()}
    return removals
