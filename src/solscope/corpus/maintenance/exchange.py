"""Profiles out of one store and into another, as plain Parquet files.

An export has one file per table, with the rows of the chosen profiles. An import adds those that
the store does not have yet, each checked against the hashes that it was stored with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import ROW_COUNTS, SCHEMA_VERSION, schema
from solscope.corpus.store import Corpus
from solscope.errors import DamagedFileError, InputError, UsageError
from solscope.files import new_folder

MANIFEST = "solscope-export.json"
AT_ONCE = 500
"""Profiles that are imported in one batch."""
_OWN = ("entry", "added_ns", "batch")
"""Columns of `profiles` that each store sets for itself."""


class Exported(msgspec.Struct, frozen=True):
    """What was written."""

    path: str
    profiles: int
    bytes: int


class Imported(msgspec.Struct, frozen=True):
    """What was added."""

    added: int
    skipped: int
    """Profiles whose content the store had already."""


@dataclass(frozen=True)
class Manifest:
    """The file that makes a folder an export."""

    store_schema: int
    profiles: int
    redacted: bool = False
    """Whether the store that it comes from takes profiles only without private text."""


def export_profiles(
    corpus: Corpus, profiles: pl.DataFrame, target: str | os.PathLike[str]
) -> Exported:
    """Write some profiles of a snapshot to a new folder."""
    path = Path(target)
    if path.exists():
        raise UsageError(f"{path} exists; choose a new folder")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    entries = profiles.select("entry").lazy()
    with new_folder(path) as work:
        work.mkdir()
        profiles.select(schema("profiles").names()).write_parquet(work / "profiles.parquet")
        for name in ROW_COUNTS:
            rows = corpus.raw(name).join(entries, on="entry", how="semi")
            rows.sink_parquet(work / f"{name}.parquet", compression="zstd")
        manifest = Manifest(SCHEMA_VERSION, profiles.height, corpus.redacts)
        (work / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    size = sum(file.stat().st_size for file in path.iterdir())
    return Exported(str(path), profiles.height, size)


def import_profiles(corpus: Corpus, source: str | os.PathLike[str]) -> Imported:
    """Add the profiles of an export that the store does not have."""
    path = Path(source)
    manifest = _manifest(path)
    if corpus.redacts and not manifest.redacted:
        raise UsageError(
            f"{path}: exported from a store that does not redact, which {corpus.url} demands; "
            "add the original profiles instead"
        )
    profiles = pl.read_parquet(path / "profiles.parquet")
    if profiles.height != manifest.profiles:
        raise DamagedFileError(
            f"{path}: {manifest.profiles} profiles expected, {profiles.height} found"
        )
    stored = corpus.known()
    fresh = profiles.filter(~pl.col("id").is_in(list(stored)))
    added = 0
    for start in range(0, fresh.height, AT_ONCE):
        extracts = list(_extracts(path, fresh.slice(start, AT_ONCE)))
        added += len(corpus.append(extracts))
    return Imported(added, profiles.height - added)


def _manifest(path: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        raise InputError(f"{path}: not an export; `solscope corpus export` makes one") from None
    if manifest.store_schema != SCHEMA_VERSION:
        raise InputError(
            f"{path}: an export of schema {manifest.store_schema}; this solscope reads "
            f"{SCHEMA_VERSION}: migrate the store that it came from, and export again"
        )
    return manifest


def _extracts(path: Path, profiles: pl.DataFrame) -> Iterator[Extract]:
    entries = profiles["entry"].to_list()
    rows = {name: _rows(path, name, entries) for name in ROW_COUNTS}
    for row in profiles.iter_rows(named=True):
        entry = row["entry"]
        parts = {
            name: of_entries.get(entry, schema(name).to_frame()).drop("entry")
            for name, of_entries in rows.items()
        }
        for name, column in (("times", "times_sha256"), ("steps", "steps_sha256")):
            if rows_hash(parts[name]) != row[column]:
                raise DamagedFileError(f"{path}: {name} of {row['file']} are not as stored")
        facts = {name: value for name, value in row.items() if name not in _OWN}
        events = parts["events"] if row["kept_events"] else None
        yield Extract(facts, parts["times"], parts["steps"], events)


def _rows(path: Path, name: str, entries: list[str]) -> dict[str, pl.DataFrame]:
    wanted = pl.scan_parquet(path / f"{name}.parquet").filter(pl.col("entry").is_in(entries))
    by_entry = wanted.collect().partition_by("entry", as_dict=True)
    return {str(key[0]): rows for key, rows in by_entry.items()}
