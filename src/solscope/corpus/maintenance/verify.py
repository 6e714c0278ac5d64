"""Is a store whole? Every file readable, every sum and hash as it was when written."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import polars as pl

from solscope.corpus import delta
from solscope.corpus.rows import rows_hash
from solscope.corpus.schema import ROW_COUNTS, TABLES, schema
from solscope.corpus.store import Corpus
from solscope.errors import SolscopeError

_UNREADABLE = (
    SolscopeError,
    OSError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)


class Problem(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    where: str
    """A table, a file of it, or a profile."""
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

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(corpus: Corpus) -> Verification:
    """Read every row of a store and compare it with what `profiles` says."""
    problems: list[Problem] = []
    files = 0
    readable: dict[str, list[pl.DataFrame]] = {}
    for name in TABLES:
        try:
            listed = corpus.files(name)
        except _UNREADABLE as error:
            problems.append(Problem(name, delta.first_line(error)))
            continue
        files += len(listed)
        readable[name] = []
        for uri, _ in listed:
            rows = _read_file(uri, name)
            if isinstance(rows, str):
                problems.append(Problem(uri, rows))
            else:
                readable[name].append(rows)
    profiles, leftovers, doubled = schema("profiles").to_frame(), 0, 0
    if "profiles" in readable:
        profiles = pl.concat([profiles, *readable["profiles"]])
        problems += _doubles(profiles)
        problems += _profiles(profiles, readable)
        problems += _events(profiles, readable.get("events", []))
        leftovers = _leftovers(profiles, readable)
        doubled = len(_doubled(profiles, readable))
    return Verification(profiles["id"].n_unique(), files, problems, leftovers, doubled)


def _read_file(uri: str, name: str) -> pl.DataFrame | str:
    """The rows of one file, or why it cannot be read; kept events are many, and only counted."""
    try:
        rows = pl.read_parquet(uri)
        if rows.schema != schema(name):
            return "the columns are not those of this table"
    except _UNREADABLE as error:
        return f"cannot be read: {delta.first_line(error)}"
    return rows.select("entry") if name == "events" else rows


def _doubles(profiles: pl.DataFrame) -> Iterator[Problem]:
    twice = profiles.group_by("entry").len().filter(pl.col("len") > 1)
    for entry in sorted(twice["entry"].to_list()):
        yield Problem("profiles", f"entry {entry} is there more than once")


def _profiles(profiles: pl.DataFrame, readable: dict[str, list[pl.DataFrame]]) -> Iterator[Problem]:
    """Each profile against its rows in the other tables."""
    times, steps = (_by_entry(name, readable) for name in ("times", "steps"))
    for row in profiles.sort("id").iter_rows(named=True):
        where = f"profile {row['id'][:12]} ({row['file']})"
        own_times = times.get(row["entry"], schema("times").to_frame())
        own_steps = steps.get(row["entry"], schema("steps").to_frame())
        checks = (
            ("rows in times", row["times_rows"], own_times.height),
            ("GPU time in ns", row["gpu_ns"], int(own_times["time_ns"].sum())),
            ("GPU activities", row["activities"], int(own_times["launches"].sum())),
            ("rows in steps", row["steps"], own_steps.height),
            ("hash of times", row["times_sha256"], rows_hash(own_times)),
            ("hash of steps", row["steps_sha256"], rows_hash(own_steps)),
        )
        wrong = [
            f"{what}: {expected} expected, {actual} found"
            for what, expected, actual in checks
            if expected != actual
        ]
        if wrong:
            yield Problem(where, wrong[0])


def _by_entry(name: str, readable: dict[str, list[pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    rows = pl.concat([schema(name).to_frame(), *readable.get(name, [])])
    parts = rows.partition_by("entry", as_dict=True)
    return {str(key[0]): part for key, part in parts.items()}


def _events(profiles: pl.DataFrame, parts: list[pl.DataFrame]) -> Iterator[Problem]:
    rows = pl.concat([schema("events").to_frame().select("entry"), *parts])
    counts = rows.group_by("entry").agg(pl.len().cast(pl.Int64).alias("found"))
    counted = profiles.join(counts, on="entry", how="left").with_columns(
        pl.col("found").fill_null(0)
    )
    for row in counted.filter(pl.col("kept_events") != pl.col("found")).iter_rows(named=True):
        where = f"profile {row['id'][:12]} ({row['file']})"
        yield Problem(where, f"events: {row['kept_events']} expected, {row['found']} found")


def _doubled(profiles: pl.DataFrame, readable: dict[str, list[pl.DataFrame]]) -> set[str]:
    """Entries with more rows in a table than `profiles` says."""
    entries = set(profiles.filter(pl.col("entry").is_duplicated())["entry"].to_list())
    for name, written in ROW_COUNTS.items():
        parts = [part.select("entry") for part in readable.get(name, [])]
        counts = pl.concat([schema(name).to_frame().select("entry"), *parts])
        counted = counts.group_by("entry").len("found")
        more = profiles.join(counted, on="entry").filter(pl.col("found") > pl.col(written))
        entries |= set(more["entry"].to_list())
    return entries


def _leftovers(profiles: pl.DataFrame, readable: dict[str, list[pl.DataFrame]]) -> int:
    entries = set(profiles["entry"].to_list())
    return len(
        {
            entry
            for name, parts in readable.items()
            if name != "profiles"
            for part in parts
            for entry in part["entry"].unique().to_list()
            if entry not in entries
        }
    )
