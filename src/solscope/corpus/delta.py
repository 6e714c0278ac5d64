"""Delta Lake tables, through the optional package `deltalake`: opening, reading, creating.

Writing is in `commits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
import polars as pl

from solscope.corpus.conflicts import check_conflicts
from solscope.corpus.durable import sync_commits
from solscope.corpus.location import is_url
from solscope.corpus.remote_errors import explain
from solscope.errors import DamagedFileError, InputError, MissingToolError, UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TYPES: dict[pl.DataType, str] = {
    pl.String(): "string",
    pl.Int64(): "long",
    pl.Int32(): "integer",
    pl.Boolean(): "boolean",
}
SETTINGS = {"delta.dataSkippingNumIndexedCols": "0"}
"""No smallest and largest values in the log: texts of removed profiles would stay readable there.
Parquet files have them, per row group."""
REMOTE_SETTINGS = {"delta.checkpointInterval": "10"}
"""At an object store every log entry since the last checkpoint is a request for each opening, so
there are ten at most, as with Spark, and not a hundred."""
_OPENED: ContextVar[dict[str, DeltaTable] | None] = ContextVar("opened", default=None)


class DamagedDataError(DamagedFileError):
    """A data file that the opened version names is missing or damaged."""

    def __init__(self, file: str) -> None:
        self.file = file
        super().__init__(
            f"{file}: this file of the store is missing or damaged; "
            "`solscope corpus verify` lists all damage"
        )


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
    from deltalake.exceptions import DeltaError

    if not is_url(url) and unquote(url) != url:
        raise UsageError(f"{url}: Delta Lake takes %20 in a path for a space; choose another name")
    try:
        delta.DeltaTable.create(
            url,
            delta.Schema(fields(columns)),
            mode="ignore",
            name=name,
            configuration={**SETTINGS, **(REMOTE_SETTINGS if is_url(url) else {}), **about},
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        raise InputError(f"{url}: cannot be created: {explain(error, url)}") from None
    if not is_url(url):
        sync_commits(Path(url), -1)


def fields(columns: pl.Schema) -> list[Any]:
    """Columns as Delta Lake declares them."""
    delta = require()
    return [delta.Field(column, _delta_type(dtype)) for column, dtype in columns.items()]


def _delta_type(dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.List):
        from deltalake.schema import ArrayType, PrimitiveType

        return ArrayType(PrimitiveType(_TYPES[pl.Int64()]), contains_null=True)
    return _TYPES[dtype]


def open_table(url: str, version: int | None = None) -> DeltaTable | None:
    """The table at its newest version, or an earlier one; null when there is none."""
    delta = require()
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table: DeltaTable = delta.DeltaTable(url, version=version)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        reason = explain(error, url)
        if damaged := None if is_url(url) else _damaged_entry(Path(url)):
            raise DamagedFileError(
                f"{damaged}: this entry in the log of a table is damaged; restore it, or the "
                "store, from a backup"
            ) from None
        raise DamagedFileError(f"{url}: this table cannot be opened: {reason}") from None
    return table


def _damaged_entry(table: Path) -> Path | None:
    """The first log entry of a table that is no list of actions, one JSON object per line."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        try:
            for line in entry.read_bytes().splitlines():
                msgspec.json.decode(line, type=dict[str, dict[str, Any]])
        except (OSError, msgspec.DecodeError):
            return entry
    return None


@contextmanager
def reusing_tables() -> Iterator[None]:
    """Read each log at an object store once, and from then on only what was committed since.

    For one operation, such as adding a batch or a compaction, which opens each table many times. A
    table that `open_newest` returns again is the same object, brought to the newest version.
    """
    if _OPENED.get() is not None:
        yield
        return
    token = _OPENED.set({})
    try:
        yield
    finally:
        _OPENED.reset(token)


def open_existing(url: str) -> DeltaTable:
    """The table at its newest version; it must be there."""
    table = open_table(url)
    if table is None:
        raise DamagedFileError(f"{url}: this table of the store is missing; restore it from a copy")
    return table


def open_newest(url: str) -> DeltaTable:
    """The same, as cheaply as `reusing_tables` allows."""
    opened = _OPENED.get() if is_url(url) else None
    if opened is None:
        return open_existing(url)
    table = _updated(opened.pop(url, None)) or open_existing(url)
    opened[url] = table
    return table


def _updated(table: DeltaTable | None) -> DeltaTable | None:
    """An opened table at its newest version; null where that takes more than the newest entries."""
    if table is None:
        return None
    from deltalake.exceptions import DeltaError

    try:
        table.update_incremental()
    except (DeltaError, OSError):
        return None  # For example when `remove --forget` has deleted entries since.
    return table


def scan(table: DeltaTable, columns: pl.Schema, but: Collection[str] = ()) -> pl.LazyFrame:
    """The rows of the version that was opened, without the files `but`.

    Files in a folder must be there and whole. A column that an older file does not have yet is null
    there.
    """
    listed = [(file, size) for file, size in files(table) if file not in but]
    if not listed:
        return columns.to_frame().lazy()
    if not is_url(listed[0][0]):
        check_sizes(listed)
    # Not through `scan_delta`, which does not find files below a folder with a space in its name.
    return pl.scan_parquet(
        [file for file, _ in listed], glob=False, schema=columns, missing_columns="insert"
    )


def check_sizes(listed: list[tuple[str, int]]) -> None:
    """`DamagedFileError` for a file that is not as long as the log says: Polars would panic."""
    for file, size in listed:
        if _size(file) != size:
            raise DamagedDataError(file)


def files(table: DeltaTable) -> list[tuple[str, int]]:
    """Path or URL, and size, of the files that the opened version consists of."""
    sizes = pl.DataFrame(table.get_add_actions(flatten=True))["size_bytes"].to_list()
    # Paths are given as in a URL, with %20 for a space, though without `file://`.
    names = [uri if is_url(uri) else unquote(uri) for uri in table.file_uris()]
    return list(zip(names, sizes, strict=True))


def uncommitted(url: str) -> list[str]:
    """Data files that no log entry names, neither in use nor replaced.

    Their writer is at work or was killed, or the entries that named them are lost.
    """
    if is_url(url):
        table = open_existing(url)
        listed = table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
        there = [f"{url}/{name}" for name in listed if name.endswith(".parquet")]
    else:
        there = [str(file) for file in Path(url).glob("*.parquet")]
        table = open_existing(url)  # After that: what was committed meanwhile is named by now.
    named = {Path(file).name for file, _ in files(table)}
    replaced = table.vacuum(0, dry_run=True, enforce_retention_duration=False)
    named |= {Path(name).name for name in replaced}
    return sorted(file for file in there if Path(file).name not in named)


def written_ms(table: DeltaTable) -> int:
    """When the opened version was written, as its log says, Unix time; for display only."""
    return int(table.history(1)[0].get("timestamp", 0))


def _size(file: str) -> int | None:
    try:
        return Path(file).stat().st_size
    except OSError:
        return None


def first_line(error: BaseException) -> str:
    """The first line of a message that may have many."""
    return (str(error).splitlines() or [type(error).__name__])[0]
