"""`solscope export`: an attributed profile as a file for other programs.

Every file appears at once or not at all: it is written next to its final path and renamed at the
end, and removed when anything goes wrong before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.export.perfetto import perfetto_json
from solscope.files import check_target, new_file, new_folder
from solscope.profile import is_saved_profile
from solscope.readers.source import zlib_module
from solscope.redact import KINDS, Redactor, redact

Format = Literal["perfetto", "parquet", "csv"]


class Written(msgspec.Struct, frozen=True):
    """One file, or folder, that was written."""

    path: str
    format: str
    events: int
    """Events of the profile in it: rows of the event table, activities, or rows of a summary."""
    bytes: int


def export(attributed: Attributed, form: Format, target: Path, *, force: bool = False) -> Written:
    """Write `attributed` to `target` in one of the formats."""
    check_target(target, attributed.profile.path, force=force, folder=form == "parquet")
    events = _WRITERS[form](attributed, target)
    return Written(str(target), form, events, _size(target))


def redact_attributed(attributed: Attributed) -> tuple[Attributed, Redactor]:
    """The same without its private parts, and what did it, which knows what was replaced."""
    profile, redactor = redact(attributed.profile)
    tables = {
        field.name: redactor.table(value)
        for field in fields(attributed)
        if isinstance(value := getattr(attributed, field.name), pl.DataFrame)
    }
    changes: dict[str, Any] = {"profile": profile, **tables}
    return replace(attributed, **changes), redactor


def _write_perfetto(attributed: Attributed, target: Path) -> int:
    write_text(target, perfetto_json(attributed))
    return attributed.profile.events["start_ns"].count()


def write_text(target: Path, pieces: Iterable[str]) -> int:
    """Write a text piece by piece, compressed as the name says; returns the size of the file."""
    with new_file(target) as work:
        _write(work, (piece.encode() for piece in pieces), target.suffix)
    return target.stat().st_size


def _write_parquet(attributed: Attributed, target: Path) -> int:
    """The folder that `Profile.save` writes, plus `activities.parquet` and `steps.parquet`."""
    if target.exists() and not is_saved_profile(target):
        raise UsageError(f"{target} exists and is not a saved profile: not replaced")
    with new_folder(target) as work:
        profile = attributed.profile
        profile.save(work)
        attributed.activities.write_parquet(work / "activities.parquet", compression="zstd")
        attributed.steps.write_parquet(work / "steps.parquet", compression="zstd")
    return profile.events.height or profile.aggregates.height


def _write_csv(attributed: Attributed, target: Path) -> int:
    """The activities, or the rows of a summary, as a table for spreadsheets."""
    profile = attributed.profile
    table = attributed.aggregates if profile.is_aggregate else attributed.activities
    with new_file(target) as work:
        spreadsheet_safe(table).write_csv(work)
    return table.height


_WRITERS: dict[Format, Callable[[Attributed, Path], int]] = {
    "perfetto": _write_perfetto,
    "parquet": _write_parquet,
    "csv": _write_csv,
}


def spreadsheet_safe(table: pl.DataFrame) -> pl.DataFrame:
    """`table` with texts that a spreadsheet would run as a formula marked as text."""
    return table.with_columns(
        pl.when(texts.str.contains(r"^[=+\-@\x00-\x1f]"))
        .then(pl.concat_str(pl.lit("'"), texts))
        .otherwise(texts)
        .alias(column.name)
        for column in table
        if column.dtype in (pl.String, pl.Categorical, pl.Enum)
        for texts in (pl.col(column.name).cast(pl.String),)
    )


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def _write(path: Path, pieces: Iterable[bytes], suffix: str) -> None:
    with path.open("wb") as file:
        compressor = _compressor(suffix)
        for piece in pieces:
            file.write(compressor.compress(piece) if compressor else piece)
        file.write(compressor.flush() if compressor else b"")


def _compressor(suffix: str) -> _Compressor | None:
    if suffix == ".gz":
        return zlib_module().compressobj(6, 8, 31)  # type: ignore[no-any-return]
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(level=6).compressobj()
    return None


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.iterdir())


def say_redacted(counts: dict[str, int]) -> str:
    """One line: how many texts were changed, and why."""
    parts = [f"{count:,} with {KINDS[kind]}" for kind, count in counts.items() if count]
    return "redacted: " + (", ".join(parts) if parts else "nothing to redact was found")


def write_report(redactor: Redactor, target: Path) -> None:
    """List what was replaced by what; the originals are in it, so only its owner may read it."""
    text = msgspec.json.format(msgspec.json.encode(redactor.replacements))
    with new_file(target) as work:
        work.touch(mode=0o600)
        work.write_bytes(text + b"\n")
