"""Delta Lake tables, through the optional package `deltalake`.

Every commit is atomic: a table has it whole or not at all, whoever else writes. A commit that lost
a race is made again on top of the winner's. That holds only while the package notices that a race
was lost, so a version that does not is refused before the first write (`conflicts`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import polars as pl

from solscope.corpus.conflicts import check_conflicts
from solscope.corpus.location import is_url
from solscope.errors import DamagedFileError, InputError, MissingToolError, UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")
ATTEMPTS = 12
"""How often a commit is tried when other writers get in between."""
RETENTION_HOURS = 24
"""Files that no longer belong to a table are kept so long, for readers and writers at work."""
COMPACT_FROM = 16
"""Small files from which on a table is rewritten into few."""

_TYPES: dict[pl.DataType, str] = {
    pl.String(): "string",
    pl.Int64(): "long",
    pl.Int32(): "integer",
    pl.Boolean(): "boolean",
}


def require() -> Any:
    """The package, or a sentence that says how to get it."""
    try:
        import deltalake
    except ImportError:
        raise MissingToolError(
            "a profile store needs the package deltalake: pip install 'solscope[corpus]'"
        ) from None
    return deltalake


def require_writer() -> Any:
    """The package, in a version that can write without losing a race unnoticed."""
    delta = require()
    check_conflicts(delta)
    return delta


def create(url: str, columns: pl.Schema, name: str, about: dict[str, str | None]) -> None:
    """An empty table; one that is there already stays as it is."""
    delta = require_writer()
    if not is_url(url) and unquote(url) != url:
        raise UsageError(f"{url}: Delta Lake takes %20 in a path for a space; choose another name")
    fields = [delta.Field(column, _delta_type(dtype)) for column, dtype in columns.items()]
    delta.DeltaTable.create(
        url,
        delta.Schema(fields),
        mode="ignore",
        name=name,
        configuration=about,
        raise_if_key_not_exists=False,
    )


def _delta_type(dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.List):
        from deltalake.schema import ArrayType, PrimitiveType

        return ArrayType(PrimitiveType(_TYPES[pl.Int64()]), contains_null=True)
    return _TYPES[dtype]


def open_table(url: str) -> DeltaTable | None:
    """The table at its newest version; null when there is none."""
    delta = require()
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table: DeltaTable = delta.DeltaTable(url)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise DamagedFileError(f"{url}: this table cannot be opened: {first_line(error)}") from None
    return table


def open_existing(url: str) -> DeltaTable:
    """The table, which must be there."""
    table = open_table(url)
    if table is None:
        raise DamagedFileError(f"{url}: this table of the store is missing; restore it from a copy")
    return table


def scan(table: DeltaTable) -> pl.LazyFrame:
    """The rows of the version that was opened; files in a folder must be there and whole."""
    listed = files(table)
    if not listed or is_url(listed[0][0]):
        return pl.scan_delta(table)
    for file, size in listed:
        # Polars ends in a panic at a file that is shorter than the table says.
        if _size(file) != size:
            raise DamagedFileError(
                f"{file}: this file of the store is missing or damaged; "
                "`solscope corpus verify` lists all damage"
            )
    # Not through `scan_delta`, which does not find files below a folder with a space in its name.
    return pl.scan_parquet([file for file, _ in listed], glob=False)


def files(table: DeltaTable) -> list[tuple[str, int]]:
    """Path or URL, and size, of the files that the opened version consists of."""
    sizes = pl.DataFrame(table.get_add_actions(flatten=True))["size_bytes"].to_list()
    # Paths are given as in a URL, with %20 for a space, though without `file://`.
    names = [uri if is_url(uri) else unquote(uri) for uri in table.file_uris()]
    return list(zip(names, sizes, strict=True))


def written_ms(table: DeltaTable) -> int:
    """When the opened version was written, as its log says, Unix time."""
    return int(table.history(1)[0].get("timestamp", 0))


def _size(file: str) -> int | None:
    try:
        return Path(file).stat().st_size
    except OSError:
        return None


def append(url: str, rows: pl.DataFrame) -> None:
    """Add rows in one commit."""
    delta = require()
    properties = delta.WriterProperties(compression="ZSTD")
    commit(
        url,
        lambda table: delta.write_deltalake(
            table, rows, mode="append", writer_properties=properties
        ),
    )


def delete(url: str, column: str, values: list[str]) -> None:
    """Remove the rows whose `column` is one of `values`, in one commit."""
    commit(url, lambda table: table.delete(_one_of(column, values)))


def replace(url: str, column: str, select: Callable[[pl.LazyFrame], pl.DataFrame]) -> pl.DataFrame:
    """Rewrite rows in one commit: those that share a `column` value with what `select` returns.

    `select` gets the rows of the version that the commit builds on; when another writer changes
    the table meanwhile, it is called again with the newer rows. Returns the rows that were written.
    """
    delta = require()
    properties = delta.WriterProperties(compression="ZSTD")

    def change(table: DeltaTable) -> pl.DataFrame:
        rows = select(scan(table))
        if not rows.is_empty():
            delta.write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=_one_of(column, rows[column].unique().to_list()),
                writer_properties=properties,
            )
        return rows

    return commit(url, change)


def _one_of(column: str, values: list[str]) -> str:
    listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"{column} IN ({listed})"


def compact(url: str) -> None:
    """Few large files in place of many small ones; those out of use for a day are removed."""
    if len(open_existing(url).file_uris()) >= COMPACT_FROM:
        properties = require().WriterProperties(compression="ZSTD")
        commit(url, lambda table: table.optimize.compact(writer_properties=properties))
    commit(
        url,
        lambda table: table.vacuum(
            RETENTION_HOURS, dry_run=False, enforce_retention_duration=False
        ),
    )


def commit(url: str, change: Callable[[DeltaTable], T]) -> T:
    """`change` on the newest version, again when another writer was faster."""
    require_writer()
    from deltalake.exceptions import CommitFailedError, DeltaError

    _check_writable(url)
    for attempt in range(ATTEMPTS):
        try:
            return change(open_existing(url))
        except CommitFailedError as error:
            if attempt == ATTEMPTS - 1:
                raise InputError(
                    f"{url}: other writers changed this table {ATTEMPTS} times in a row "
                    f"({first_line(error)}); try again"
                ) from error
            # Writers that collide should not collide again: wait for different times.
            time.sleep(random.uniform(0.01, 0.05) * 2 ** min(attempt, 5))  # noqa: S311
        except (DeltaError, OSError) as error:
            raise InputError(f"{url}: cannot be changed: {first_line(error)}") from error
    raise AssertionError("unreachable")


def _check_writable(url: str) -> None:
    """`InputError` for a folder without the right to write, before any work is done."""
    for folder in (Path(url), Path(url) / "_delta_log"):
        if not is_url(url) and folder.is_dir() and not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: no permission to write to this folder of the store")


def first_line(error: BaseException) -> str:
    """The first line of a message that may have many."""
    return (str(error).splitlines() or [type(error).__name__])[0]
