"""Is a store whole? Every file readable, every sum and hash as written, no commit lost.

All tables are read at one moment, so other processes may write meanwhile. Hashes of files that an
earlier check found in order are not computed again, unless that is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import polars as pl

from solscope.corpus import delta
from solscope.corpus.location import is_url
from solscope.corpus.maintenance.checked_files import CheckedFiles
from solscope.corpus.maintenance.compaction import uncommitted
from solscope.corpus.maintenance.lost_batches import lost, read_chain, rolled_back
from solscope.corpus.rows import rows_hash, rows_hashes
from solscope.corpus.schema import ALL_TABLES, HASHES, ROW_COUNTS, schema
from solscope.corpus.store import Corpus
from solscope.errors import SolscopeError

_UNREADABLE = (
    SolscopeError,
    OSError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
AT_ONCE = 200_000
"""Rows that are held at one time."""
SUMS = {"times": {"gpu_ns": "time_ns", "activities": "launches"}, "steps": {}}
"""Columns of `profiles` that are sums of a column of another table."""
_WHAT = {
    "gpu_ns": "GPU time in ns",
    "activities": "GPU activities",
    "times_sha256": "hash of times",
    "steps_sha256": "hash of steps",
}


class Problem(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    where: str
    """A table, a file of it, a batch, or a profile."""
    what: str


class Verification(msgspec.Struct, frozen=True):
    """The outcome of a check."""

    profiles: int
    files: int
    problems: list[Problem]
    leftover_entries: int
    """Attempts whose rows are not part of the store; harmless, removed by `corpus compact`."""
    doubled_profiles: int
    """Profiles with more rows than were written; `corpus repair` removes copies."""
    unrecorded_batches: int
    """Commits without a record in `batches`: a writer was stopped after its commit, and nothing is
    missing; `corpus repair` writes the record."""
    files_from_earlier_check: int
    """Files whose contents an earlier check on this machine read and that have not changed."""
    uncommitted_files: int | None
    """Data files that no commit names: of adds that are at work or were killed, or of commits whose
    log entries are lost in all tables alike, which is a problem as well; null at an object store,
    where they are not listed."""

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass
class _TableCheck:
    """What was read of one table."""

    counts: pl.DataFrame
    """Rows by `entry`."""
    problems: list[Problem]
    wrong: dict[str, str] = field(default_factory=dict)
    """The first thing that is wrong with an entry."""
    skipped: int = 0


def verify(corpus: Corpus, *, full: bool = False) -> Verification:
    """Compare every row of a store with what `profiles` says; `full` trusts no earlier check."""
    problems: list[Problem] = []
    try:
        now = corpus.snapshot()
    except _UNREADABLE:
        now = corpus  # A table is missing: the others are checked one by one.
    listed = {name: _files(now, name, problems) for name in ("profiles", *ROW_COUNTS)}
    profiles = _profiles(listed["profiles"], problems)
    checked = CheckedFiles(corpus.url, _identity(now))
    if not full:
        checked.load()
    checks = {name: _check(name, listed[name], profiles, checked) for name in ROW_COUNTS}
    checked.save()
    problems += [problem for table in checks.values() for problem in table.problems]
    problems += _doubles(profiles)
    problems += _by_profile(profiles, checks)
    unrecorded = _chain(now, profiles, problems)
    return Verification(
        profiles=profiles["id"].n_unique(),
        files=sum(len(files) for files in listed.values()),
        problems=problems,
        leftover_entries=_leftovers(profiles, checks),
        doubled_profiles=len(_doubled(profiles, checks)),
        unrecorded_batches=unrecorded,
        files_from_earlier_check=sum(table.skipped for table in checks.values()),
        uncommitted_files=_uncommitted(corpus),
    )


def _uncommitted(corpus: Corpus) -> int | None:
    if is_url(corpus.url):
        return None
    count = 0
    for name in ALL_TABLES:
        with suppress(*_UNREADABLE):  # A table that cannot be read is a problem already.
            count += len(uncommitted(Path(corpus.table_url(name))))
    return count


def _identity(corpus: Corpus) -> str:
    try:
        return str(corpus.open("profiles").metadata().id)
    except _UNREADABLE:
        return ""


def _files(corpus: Corpus, name: str, problems: list[Problem]) -> list[str]:
    """Files of a table that may be readable; problems for those that are not as written."""
    try:
        listed = corpus.files(name)
    except _UNREADABLE as error:
        problems.append(Problem(name, delta.first_line(error)))
        return []
    files = []
    for file, size in listed:
        try:
            if not is_url(file) and (there := Path(file).stat().st_size) != size:
                problems.append(Problem(file, f"{size:,} bytes expected, {there:,} found"))
            if not _has_columns(file, name):
                problems.append(Problem(file, "the columns are not those of this table"))
                continue
        except _UNREADABLE as error:
            problems.append(Problem(file, f"cannot be read: {delta.first_line(error)}"))
            continue
        files.append(file)
    return files


def _has_columns(file: str, name: str) -> bool:
    there, declared = pl.read_parquet_schema(file), schema(name)
    return all(declared.get(column) == dtype for column, dtype in there.items()) and (
        set(declared) - set(there) <= {"batch"}
    )


def _profiles(files: list[str], problems: list[Problem]) -> pl.DataFrame:
    columns = schema("profiles")
    parts = [columns.to_frame()]
    for file in files:
        try:
            parts.append(_scan(file, "profiles").collect())
        except _UNREADABLE as error:
            problems.append(Problem(file, f"cannot be read: {delta.first_line(error)}"))
    return pl.concat(parts)


def _scan(file: str, name: str) -> pl.LazyFrame:
    return pl.scan_parquet(file, glob=False, schema=schema(name), missing_columns="insert")


def _check(
    name: str, files: list[str], profiles: pl.DataFrame, checked: CheckedFiles
) -> _TableCheck:
    """Count the rows of every profile in one table, and compare sums and hashes."""
    empty = pl.Schema({"entry": pl.String(), "found": pl.Int64()}).to_frame()
    result = _TableCheck(empty, [])
    counts = [empty]
    split = schema(name).to_frame()
    for file in files:
        try:
            here = _counts(file, name)
            counts.append(here)
            if name not in HASHES:
                continue
            own = profiles.join(here, on="entry").sort("entry", "id")
            digest = _digest(own, name)
            if checked.holds(file, digest):
                result.skipped += 1
                checked.passed(file, digest)
                continue
            before = len(result.wrong)
            cut = _check_file(file, name, own, result)
            split = pl.concat([split, cut])
            if len(result.wrong) == before and cut.is_empty():
                checked.passed(file, digest)
        except _UNREADABLE as error:
            result.problems.append(Problem(file, f"cannot be read: {delta.first_line(error)}"))
    if not split.is_empty():
        _compare(name, split, profiles, result)
    result.counts = pl.concat(counts).group_by("entry").agg(pl.col("found").sum())
    return result


def _counts(file: str, name: str) -> pl.DataFrame:
    return (
        _scan(file, name)
        .group_by("entry")
        .agg(pl.len().cast(pl.Int64).alias("found"))
        .collect(engine="streaming")
    )


def _digest(own: pl.DataFrame, name: str) -> str:
    """What a file is checked against: figures of its profiles, and its rows of each."""
    facts = own.select("entry", "found", ROW_COUNTS[name], HASHES[name], *SUMS[name])
    return hashlib.sha256(facts.write_csv().encode()).hexdigest()


def _check_file(file: str, name: str, own: pl.DataFrame, result: _TableCheck) -> pl.DataFrame:
    """Compare the profiles of one file; returns rows of those that it has only a part of."""
    whole = own.filter(pl.col("found") == pl.col(ROW_COUNTS[name]))
    waiting = schema(name).to_frame()
    height = int(_scan(file, name).select(pl.len()).collect().item())
    apart = [schema(name).to_frame()]
    for start in range(0, height, AT_ONCE):
        rows = pl.concat([waiting, _scan(file, name).slice(start, AT_ONCE).collect()])
        apart.append(rows.join(own, on="entry", how="semi").join(whole, on="entry", how="anti"))
        rows = rows.join(whole, on="entry", how="semi")
        # Profiles may go on in a later slice, several of them where files were merged side by side.
        here = rows.group_by("entry").agg(pl.len().cast(pl.Int64).alias("here"))
        complete = here.join(whole, on="entry").filter(pl.col("here") == pl.col("found"))
        waiting = rows.join(complete, on="entry", how="anti")
        _compare(name, rows.join(complete, on="entry", how="semi"), own, result)
    return pl.concat(apart)


def _compare(name: str, rows: pl.DataFrame, profiles: pl.DataFrame, result: _TableCheck) -> None:
    """Sums and hashes of rows against their profiles."""
    expected = profiles.select("entry", HASHES[name], *SUMS[name]).unique("entry", keep="any")
    facts = {row["entry"]: row for row in expected.iter_rows(named=True)}
    sums = rows.group_by("entry").agg(
        pl.col(column).sum().alias(total) for total, column in SUMS[name].items()
    )
    for row in sums.iter_rows(named=True):
        fact = facts.get(row["entry"], row)
        for total in SUMS[name]:
            if row[total] != fact[total]:
                result.wrong.setdefault(row["entry"], _differs(total, fact[total], row[total]))
    for entry, digest in rows_hashes(rows):
        stored = facts[entry][HASHES[name]] if entry in facts else digest
        if digest != stored:
            result.wrong.setdefault(entry, _differs(HASHES[name], stored, digest))


def _differs(what: str, expected: object, actual: object) -> str:
    return f"{_WHAT.get(what, what)}: {expected} expected, {actual} found"


def _doubles(profiles: pl.DataFrame) -> Iterator[Problem]:
    for what in ("entry", "id"):
        twice = profiles.group_by(what).len().filter(pl.col("len") > 1)
        for name in sorted(twice[what].to_list()):
            yield Problem("profiles", f"{what} {name} occurs more than once")


def _by_profile(profiles: pl.DataFrame, checks: dict[str, _TableCheck]) -> Iterator[Problem]:
    """The first thing that is wrong with each profile: counts of rows, then sums and hashes."""
    wrong: dict[str, str] = {}
    nothing = {name: rows_hash(schema(name).to_frame()) for name in HASHES}
    for name, table in checks.items():
        counted = profiles.join(table.counts, on="entry", how="left").with_columns(
            pl.col("found").fill_null(0)
        )
        count = ROW_COUNTS[name]
        for row in counted.filter(pl.col(count) != pl.col("found")).iter_rows(named=True):
            what = "events" if name == "events" else f"rows in {name}"
            wrong.setdefault(row["entry"], f"{what}: {row[count]} expected, {row['found']} found")
        if name in HASHES:
            bare = counted.filter((pl.col("found") == 0) & (pl.col(HASHES[name]) != nothing[name]))
            for row in bare.iter_rows(named=True):
                text = _differs(HASHES[name], row[HASHES[name]], nothing[name])
                wrong.setdefault(row["entry"], text)
        for entry, text in table.wrong.items():
            wrong.setdefault(entry, text)
    damaged = profiles.filter(pl.col("entry").is_in(list(wrong))).unique("entry", keep="any")
    for row in damaged.sort("id").iter_rows(named=True):
        yield Problem(f"profile {row['id'][:12]} ({row['file']})", wrong[row["entry"]])


def _chain(corpus: Corpus, profiles: pl.DataFrame, problems: list[Problem]) -> int:
    """Problems for lost commits; returns how many have no record."""
    try:
        chain = read_chain(corpus, profiles)
        found = [*lost(chain), *rolled_back(corpus)]
    except _UNREADABLE as error:
        problems.append(Problem("batches", delta.first_line(error)))
        return 0
    problems += [Problem(batch.batch, batch.reason) for batch in found]
    return len(chain.unrecorded)


def _doubled(profiles: pl.DataFrame, checks: dict[str, _TableCheck]) -> set[str]:
    """Entries with more rows in a table than `profiles` says."""
    entries = set(profiles.filter(pl.col("entry").is_duplicated())["entry"].to_list())
    for name, table in checks.items():
        more = profiles.join(table.counts, on="entry").filter(
            pl.col("found") > pl.col(ROW_COUNTS[name])
        )
        entries |= set(more["entry"].to_list())
    return entries


def _leftovers(profiles: pl.DataFrame, checks: dict[str, _TableCheck]) -> int:
    entries = pl.concat(table.counts.select("entry") for table in checks.values()).unique()
    return entries.join(profiles, on="entry", how="anti").height
