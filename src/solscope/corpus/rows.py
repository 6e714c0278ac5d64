"""The rows that a store keeps of one profile, and the hash by which they are checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import polars as pl


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
    order = [name for name, dtype in plain.schema.items() if not isinstance(dtype, pl.List)]
    lines = plain.sort(order, nulls_last=True).write_ndjson()
    return hashlib.sha256(lines.encode()).hexdigest()
