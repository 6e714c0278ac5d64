"""A dataclass of tables and small values as a folder of Parquet files, and back, without loss.

Fields are not named here: a table becomes a Parquet file, anything else JSON of the type that the
field declares. What cannot be restored exactly is refused when it is written. Columns without a
value, a third of those of most traces, are not in the file: reading them would take time, too.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from solscope.cache.digest import blake2b
from solscope.cache.listing import MANIFEST

if TYPE_CHECKING:
    import polars as pl

LAYOUT = 3
"""Raise it when the files of an entry change their meaning."""
Value = TypeVar("Value")


class Table(msgspec.Struct, frozen=True):
    """What a table must be when it is read again."""

    digest: str
    dtypes: dict[str, str]
    rows: int
    unused: bytes
    """Columns without a value: no rows of them, as a Parquet file; empty where there are none."""


class Manifest(msgspec.Struct, frozen=True):
    """What an entry holds."""

    layout: int
    key: str
    """The key that the entry was written under, so that an entry in another's folder is a miss."""
    tables: dict[str, Table]
    values: dict[str, msgspec.Raw]
    """Fields that are not tables, as JSON."""


class UnfitError(Exception):
    """A value that cannot be cached, or an entry that is not what its manifest says."""


def dump(value: Any, key: str, folder: Path, given: Mapping[str, object]) -> None:
    """Write all fields of a dataclass but those `given`, which `load` is given again."""
    import polars as pl

    types = get_type_hints(type(value))
    tables: dict[str, Table] = {}
    values: dict[str, msgspec.Raw] = {}
    for name in (each.name for each in fields(value) if each.name not in given):
        content = getattr(value, name)
        if isinstance(content, pl.DataFrame):
            tables[name] = _write_table(content, folder / f"{name}.parquet")
        else:
            values[name] = _encode(content, types[name])
    manifest = msgspec.json.encode(Manifest(LAYOUT, key, tables, values))
    (folder / MANIFEST).write_bytes(f"{_digest(manifest)}\n".encode() + manifest)


class Files(NamedTuple):
    """The files of an entry, none of them damaged."""

    manifest: Manifest
    tables: dict[str, bytes]


def fetch(key: str, folder: Path) -> Files:
    """What `dump` wrote, as bytes; raises when it is not as it was written. Needs no Polars."""
    manifest = _read_manifest(folder / MANIFEST)
    if manifest.key != key:
        raise UnfitError("the entry of another key")
    tables = {}
    for name, table in manifest.tables.items():
        # Names in a manifest are parts of paths.
        if not name.isidentifier():
            raise UnfitError(f"{name!r} is no field")
        tables[name] = (folder / f"{name}.parquet").read_bytes()
        if _digest(tables[name]) != table.digest:
            raise UnfitError(f"{name}.parquet is damaged")
    return Files(manifest, tables)


def load(kind: type[Value], files: Files, given: Mapping[str, object]) -> Value:
    """The value that `dump` wrote; raises when it is of other fields or tables."""
    manifest = files.manifest
    if {*manifest.tables, *manifest.values} != _names(kind) - {*given}:
        raise UnfitError("other fields than were asked for")
    types = get_type_hints(kind)
    values: dict[str, Any] = {
        name: msgspec.json.decode(text, type=types[name]) for name, text in manifest.values.items()
    }
    for name, table in manifest.tables.items():
        values[name] = _read_table(table, name, files.tables[name])
    return kind(**values, **given)


def _names(kind: Any) -> set[str]:
    return {each.name for each in fields(kind)}


def _read_manifest(path: Path) -> Manifest:
    digest, _, text = path.read_bytes().partition(b"\n")
    if digest.decode("ascii", errors="replace") != _digest(text):
        raise UnfitError("the manifest is damaged")
    manifest = msgspec.json.decode(text, type=Manifest)
    if manifest.layout != LAYOUT:
        raise UnfitError(f"layout {manifest.layout}, not {LAYOUT}")
    return manifest


def _encode(content: object, declared: Any) -> msgspec.Raw:
    text = msgspec.json.encode(content)
    if msgspec.json.decode(text, type=declared) != content:
        raise UnfitError(f"{content!r} changes when it is written as JSON")
    return msgspec.Raw(text)


def _write_table(table: pl.DataFrame, path: Path) -> Table:
    # Through memory: Polars cannot write to a path that is not valid UTF-8.
    unused = [name for name in table.columns if table[name].null_count() == table.height]
    if len(unused) == table.width:  # a table without columns has no rows
        unused = []
    data = _parquet(table.drop(unused))
    path.write_bytes(data)
    without_rows = _parquet(table.select(unused).clear()) if unused else b""
    return Table(_digest(data), _dtypes(table), table.height, without_rows)


def _parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()


def _read_table(expected: Table, name: str, data: bytes) -> pl.DataFrame:
    import polars as pl

    table = pl.read_parquet(io.BytesIO(data))
    if expected.unused:
        lengths = table.to_series().chunk_lengths()
        for column, dtype in pl.read_parquet_schema(io.BytesIO(expected.unused)).items():
            empty = _nothing(column, dtype, lengths)
            table.insert_column([*expected.dtypes].index(column), empty)
    if _dtypes(table) != expected.dtypes or table.height != expected.rows:
        raise UnfitError(f"{name}.parquet has other columns or rows than were written")
    return table


def _nothing(name: str, dtype: pl.DataType, lengths: list[int]) -> pl.Series:
    """A column of nulls in chunks of these lengths: those of one table should be cut alike."""
    import polars as pl

    one = pl.Series(name, [None], dtype=dtype)
    first, *others = (one.new_from_index(0, length) for length in lengths)
    for chunk in others:
        first.append(chunk)
    return first


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _dtypes(table: pl.DataFrame) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in table.schema.items()}
