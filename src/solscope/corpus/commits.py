"""Commits to Delta Lake tables: atomic, in a known order, and durable before they count.

A commit is in a table whole or not at all, whoever else writes. One that lost a race is made again
on top of the winner's. What must not happen twice carries a number of a chain (`Chain`): of two
commits that claim the same number, Delta Lake refuses the second. `conflicts` tries that out before
anything is written with a version of the package for the first time.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import polars as pl

from solscope.corpus.delta import (
    DamagedDataError,
    files,
    open_existing,
    open_newest,
    require,
    require_writer,
    reusing_tables,
    scan,
)
from solscope.corpus.durable import sync_commits, sync_file
from solscope.corpus.location import is_url
from solscope.corpus.remote_errors import explain
from solscope.errors import DamagedFileError, InputError

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

T = TypeVar("T")
ATTEMPTS = 24
"""How often a commit is tried when other writers get in between."""
COMPACT_FROM = 16
"""Small files from which on a table is rewritten into few."""
TARGET_BYTES = 32 << 20
"""Size of a file after compaction, at most about."""
ROW_GROUP = 65_536
"""Rows of a group in a Parquet file: what a reader takes or skips as a whole."""
REWRITE = "solscope.rewrite"
"""Chain of commits that replace files; two from one version of a table cannot both succeed."""
_NO_ENTRY = "Invalid table version"
"""What deltalake says where a log entry is missing that a commit must look at."""
_NO_FILE = ("not found", "no such file", "os error 2)")
"""What deltalake and Polars say, in lower case, where a data file is missing."""
_DATA_FILE = re.compile(r"[\w.=-]+\.parquet")


class Chain(NamedTuple):
    """A number that only one commit can claim."""

    name: str
    number: int


def chain_number(table: DeltaTable, name: str) -> int:
    """The last number that a commit to this table claimed; 0 before the first."""
    return table.transaction_version(name) or 0


@reusing_tables()
def commit(url: str, change: Callable[[DeltaTable], T]) -> T:
    """`change` on the newest version, again when another writer was faster."""
    require_writer()
    from deltalake.exceptions import CommitFailedError, DeltaError

    _check_writable(url)
    for attempt in range(ATTEMPTS):
        table = open_newest(url)
        before = table.version()
        try:
            done = change(table)
        except (DeltaError, DamagedFileError, OSError, pl.exceptions.PolarsError) as error:
            if not isinstance(error, CommitFailedError) and not _was_cut(url, before, error):
                if isinstance(error, DamagedFileError):
                    raise
                raise InputError(f"{url}: cannot be changed: {explain(error, url)}") from error
            if attempt == ATTEMPTS - 1:
                raise InputError(
                    f"{url}: other writers changed this table {ATTEMPTS} times in a row "
                    f"({explain(error, url)}); try again"
                ) from error
            # Writers that collide should not collide again: wait for different times.
            time.sleep(random.uniform(0.01, 0.05) * 2 ** min(attempt, 5))  # noqa: S311
        else:
            if not is_url(url):
                sync_commits(Path(url), before)
            return done
    raise AssertionError("unreachable")


def look(url: str, read: Callable[[DeltaTable], T]) -> T:
    """`read` on the newest version, again when what it needs was forgotten meanwhile."""
    require()
    from deltalake.exceptions import DeltaError

    for _ in range(ATTEMPTS):
        table = open_newest(url)
        try:
            return read(table)
        except (DeltaError, DamagedFileError, OSError, pl.exceptions.PolarsError) as error:
            if not _was_cut(url, table.version(), error):
                raise
    return read(open_existing(url))


def _was_cut(url: str, before: int, error: Exception) -> bool:
    """Whether others removed what a writer needs of the version it has opened.

    `corpus remove --forget` takes log entries and replaced files. Compactions take files that were
    replaced before the last one; at an object store, several can be at work. A file that the newest
    version still names is damaged, and trying again does not help.
    """
    if isinstance(error, DamagedDataError):
        return error.file not in {file for file, _ in files(open_existing(url))}
    said = str(error)
    data = set(_DATA_FILE.findall(said))
    if data and any(words in said.lower() for words in _NO_FILE):
        return not data <= {file.rpartition("/")[2] for file, _ in files(open_existing(url))}
    missing = _NO_ENTRY in said or ("_delta_log" in said and "not found" in said.lower())
    return missing and open_existing(url).version() > before


def append(url: str, rows: pl.DataFrame) -> None:
    """Add rows in one commit."""
    commit(url, lambda table: add_rows(url, table, rows))


def add_rows(
    url: str,
    table: DeltaTable,
    rows: pl.DataFrame,
    chains: tuple[Chain, ...] = (),
    about: Mapping[str, str] | None = None,
) -> None:
    """Add rows to the version that was opened; fails where another commit claimed a number.

    deltalake can fail after its commit, when it cleans up the log. Rows that are in the table then
    are added: whoever tries again would add them twice.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        _write_rows(url, table, rows, commit_properties(chains, about))
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        try:
            added = look(url, lambda newest: _holds(newest, rows))
        except (InputError, DeltaError, OSError, pl.exceptions.PolarsError):
            # Not known, so nobody may try again.
            raise InputError(f"{url}: cannot be changed: {explain(error, url)}") from error
        if not added:
            raise


def _holds(table: DeltaTable, rows: pl.DataFrame) -> bool:
    """Whether rows are in a table: one of them is enough, as a commit is whole or not at all.

    Data files say nothing about that, since another writer may have joined them meanwhile. An entry
    is drawn for each attempt; rows without one are looked for as a whole.
    """
    key = ["entry"] if "entry" in rows.columns else rows.columns
    first = rows.lazy().select(key).head(1)
    held = scan(table, rows.schema).join(first, on=key, how="semi", nulls_equal=True)
    return not held.select(key).head(1).collect().is_empty()


def _write_rows(
    url: str, table: DeltaTable, rows: pl.DataFrame, properties: CommitProperties
) -> None:
    if is_url(url):
        delta = require()
        delta.write_deltalake(
            table,
            rows,
            mode="append",
            writer_properties=delta.WriterProperties(compression="ZSTD"),
            commit_properties=properties,
            # Which would list the whole log after each commit; compaction does it.
            post_commithook_properties=delta.PostCommitHookProperties(cleanup_expired_logs=False),
        )
        return
    _add_file(Path(url), table, rows, properties)


def _add_file(
    folder: Path, table: DeltaTable, rows: pl.DataFrame, properties: CommitProperties
) -> None:
    """The same in a folder: the data is on the disk before the log names it."""
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction

    name = f"part-{uuid.uuid4().hex}.parquet"
    rows.write_parquet(folder / name, compression="zstd", row_group_size=ROW_GROUP)
    sync_file(folder / name)
    size = (folder / name).stat().st_size
    stats = msgspec.json.encode({"numRecords": rows.height}).decode()
    added = AddAction(name, size, {}, time.time_ns() // 10**6, True, stats)
    try:
        table.create_write_transaction(
            [added], "append", table.schema(), commit_properties=properties
        )
    except CommitFailedError:
        # Only where nothing was committed for certain: after any other error the log may name it.
        (folder / name).unlink(missing_ok=True)
        raise


def claim(table: DeltaTable, chains: tuple[Chain, ...], about: Mapping[str, str]) -> None:
    """A commit without rows that only claims numbers."""
    table.create_write_transaction(
        [], "append", table.schema(), commit_properties=commit_properties(chains, about)
    )


def commit_properties(
    chains: tuple[Chain, ...], about: Mapping[str, str] | None = None
) -> CommitProperties:
    """Numbers that a commit claims, and notes in its log entry."""
    delta = require()
    made: CommitProperties = delta.CommitProperties(
        custom_metadata=dict(about or {}),
        app_transactions=[delta.Transaction(chain.name, chain.number) for chain in chains],
    )
    return made


def rewriting(table: DeltaTable) -> Chain:
    """The number for a commit that replaces files of the version that was opened."""
    return Chain(REWRITE, table.version() + 1)


def delete(url: str, column: str, values: list[str]) -> None:
    """Remove the rows whose `column` is one of `values`, in one commit."""
    commit(url, lambda table: delete_rows(table, column, values))


def delete_rows(
    table: DeltaTable,
    column: str,
    values: list[str],
    chains: tuple[Chain, ...] = (),
    about: Mapping[str, str] | None = None,
) -> None:
    """Remove rows from the version that was opened."""
    table.delete(
        one_of(column, values),
        commit_properties=commit_properties((rewriting(table), *chains), about),
    )


def replace(
    url: str, column: str, columns: pl.Schema, select: Callable[[pl.LazyFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Rewrite rows in one commit: those that share a `column` value with what `select` returns.

    `select` gets the rows of the version that the commit builds on; when another writer changes
    the table meanwhile, it is called again with the newer rows. Returns the rows that were written.
    """
    delta = require()
    properties = delta.WriterProperties(compression="ZSTD")

    def change(table: DeltaTable) -> pl.DataFrame:
        rows = select(scan(table, columns))
        if not rows.is_empty():
            delta.write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=one_of(column, rows[column].unique().to_list()),
                writer_properties=properties,
                commit_properties=commit_properties((rewriting(table),)),
            )
        return rows

    return commit(url, change)


def one_of(column: str, values: list[str]) -> str:
    """SQL for a column that has one of these values."""
    listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"{column} IN ({listed})"


def merge_files(table: DeltaTable) -> None:
    """Few large files in place of many small ones, in one commit.

    deltalake writes no numbers of chains with this commit. Of two from one version the second is
    refused because both remove the same files, which `conflicts` tries out.
    """
    properties = require().WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP)
    table.optimize.compact(
        target_size=TARGET_BYTES,
        writer_properties=properties,
    )


def _check_writable(url: str) -> None:
    """`InputError` for a folder without the right to write, before any work is done."""
    for folder in (Path(url), Path(url) / "_delta_log"):
        if not is_url(url) and folder.is_dir() and not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: no permission to write to this folder of the store")
