"""ACME profiles: a line `ACME1`, then one kernel per line: start and duration in ns, and a name."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from solscope.errors import DamagedFileError
from solscope.events import EVENT_SCHEMA, conform
from solscope.profile import Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_DUR_NS, MAX_TIME_NS, Head, ReadOptions
from solscope.readers.source import read_all

LIMIT_BYTES = 64 << 20


class AcmeReader:
    """Reads ACME profiles."""

    name = "acme"
    summary = "ACME profiler text, one kernel per line"

    def sniff(self, head: Head) -> bool:
        """True for files that begin with the magic line; it must be true for no other format."""
        return head.data.startswith(b"ACME1\n")

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read what can be used, count the rest."""
        lines = read_all(path, options, LIMIT_BYTES).decode(errors="replace").splitlines()[1:]
        parsed = [_parse(line) for line in lines if line.strip()]
        rows = [row for row in parsed if row is not None]
        if not rows:
            raise DamagedFileError(f"{path}: no kernel can be read; record it again")
        table = pl.DataFrame(rows, schema=["start_ns", "dur_ns", "name"], orient="row")
        table = table.with_columns(pl.lit("kernel").alias("kind"), pl.lit(0).alias("device"))
        damaged = len(parsed) - len(rows)
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(events_in_file=len(parsed)),
            events=conform(table, EVENT_SCHEMA),
            warnings=_warnings(damaged),
        )


def _parse(line: str) -> tuple[int, int, str] | None:
    """Start, duration and name; null for a line that is damaged."""
    start, _, rest = line.partition(" ")
    duration, _, name = rest.partition(" ")
    if not (start.isdecimal() and duration.isdecimal() and name):
        return None
    row = int(start[:20]), int(duration[:20]), name
    return row if row[0] <= MAX_TIME_NS and row[1] <= MAX_DUR_NS else None


def _warnings(damaged: int) -> tuple[ProfileWarning, ...]:
    if not damaged:
        return ()
    return (ProfileWarning("damaged_rows", f"{damaged} lines could not be read"),)


READER = AcmeReader()
