"""The rows that a store keeps of one profile, and the hash by which they are checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

_NEWLINE = 10


@dataclass(frozen=True)
class Extract:
    """What a store keeps of one profile; the columns `entry` and `added_ns` are still missing."""

    profile: dict[str, Any]
    """The row in `profiles`."""
    times: pl.DataFrame
    steps: pl.DataFrame
    events: pl.DataFrame | None = None


def rows_hash(rows: pl.DataFrame) -> str:
    """SHA-256 of rows as JSON lines, without `entry` and whatever their order."""
    plain = rows.select(pl.exclude("entry"))
    lines = plain.sort(_order(plain), nulls_last=True).write_ndjson()
    return hashlib.sha256(lines.encode()).hexdigest()


def rows_hashes(rows: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Each entry with the `rows_hash` of its rows, for many entries at once."""
    plain = rows.select(pl.exclude("entry"))
    ordered = rows.sort("entry", *_order(plain), nulls_last=True)
    text = ordered.select(pl.exclude("entry")).write_ndjson().encode()
    # JSON escapes line ends, so that each one in the text ends a row.
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
    counts = ordered.group_by("entry", maintain_order=True).len()
    start = row = 0
    for entry, count in counts.iter_rows():
        row += count
        end = int(ends[row - 1])
        yield entry, hashlib.sha256(text[start:end]).hexdigest()
        start = end


def _order(rows: pl.DataFrame) -> list[str]:
    return [name for name, dtype in rows.schema.items() if not isinstance(dtype, pl.List)]
