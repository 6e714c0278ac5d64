"""The SQLite side of Nsight Systems exports: what may be read, and reading it.

Nothing outside `ALLOWED` can be read: an SQLite authorizer refuses it, so the environment and
arguments of the profiled process, which many other tables hold, never reach a `Profile`. The file
is opened read-only and immutable; nothing is written next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from solscope.errors import DamagedFileError, UnknownFormatError

if TYPE_CHECKING:
    import sqlite3

BATCH_ROWS = 1 << 15


class Source(NamedTuple):
    """A table of events."""

    table: str
    kind: str
    detail: tuple[str, ...] = ()
    """Enum columns that the name is spelled from, where the table has no name column."""


SOURCES = (
    Source("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"),
    Source("CUPTI_ACTIVITY_KIND_MEMCPY", "memcpy", ("copyKind", "srcKind", "dstKind")),
    Source("CUPTI_ACTIVITY_KIND_MEMSET", "memset", ("memKind",)),
    Source("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graph", ("graphId",)),
    Source("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "sync", ("syncType",)),
    Source("CUPTI_ACTIVITY_KIND_RUNTIME", "runtime"),
    Source("NVTX_EVENTS", "annotation"),
    Source("CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead"),
    Source("PROFILER_OVERHEAD", "overhead"),
)
INTEGERS = {
    "start": ("start",),
    "end": ("end",),
    "device": ("deviceId",),
    "stream": ("streamId",),
    "correlation": ("correlationId",),
    "process": ("globalPid", "globalTid"),
    "thread": ("globalTid",),
    "graph_id": ("graphExecId", "graphId"),
    "graph_node": ("graphNodeId",),
    "bytes": ("bytes",),
    "name_id": ("demangledName", "shortName", "mangledName", "nameId", "textId"),
    "type": ("eventType",),
}
"""What is fetched of an event: the first of these columns that exists and is not null."""
TRIPLES = {"grid": ("gridX", "gridY", "gridZ"), "block": ("blockX", "blockY", "blockZ")}
GPU_INFO = (
    *("id", "name", "smCount", "totalMemory"),
    *("computeMajor", "computeMinor", "smMajor", "smMinor"),
)
_EVENT_COLUMNS = frozenset(
    column
    for group in (*INTEGERS.values(), *TRIPLES.values(), *(s.detail for s in SOURCES), ("text",))
    for column in group
)
ALLOWED: dict[str, frozenset[str]] = {
    **{source.table: _EVENT_COLUMNS for source in SOURCES},
    "StringIds": frozenset({"id", "value"}),
    "TARGET_INFO_GPU": frozenset(GPU_INFO),
    "TARGET_INFO_CUDA_DEVICE": frozenset({"gpuId", "cudaId", "pid"}),
    "TARGET_INFO_SESSION_START_TIME": frozenset({"utcEpochNs"}),
    "META_DATA_EXPORT": frozenset({"name", "value"}),
    "ENUM_CUDA_MEMCPY_OPER": frozenset({"id", "label"}),
    "ENUM_CUDA_MEM_KIND": frozenset({"id", "label"}),
    "ENUM_NSYS_EVENT_TYPE": frozenset({"id", "name"}),
    "ENUM_NVTX_EVENT_TYPE": frozenset({"id", "name"}),
    "sqlite_master": frozenset({"name", "sql"}),
}
"""Every table and column that may be read."""
_ALLOWED_FUNCTIONS = ("coalesce", "count")


def one_line(text: object) -> str:
    """`text` without line breaks and control characters, fit for a one-line message."""
    return "".join(char for char in " ".join(str(text).split()) if char.isprintable())


def connect(path: Path) -> sqlite3.Connection:
    """Open `path` so that only `ALLOWED` can be read from it."""
    import sqlite3

    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    db.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    db.execute("PRAGMA trusted_schema=OFF")
    # Only with this does SQLite look into a file shorter than its header says; it stays read-only.
    db.execute("PRAGMA writable_schema=ON")
    db.set_authorizer(_authorize)
    return db


def _authorize(action: int, a: str | None, b: str | None, _db: str | None, via: str | None) -> int:
    import sqlite3

    allowed = via is None and (
        action == sqlite3.SQLITE_SELECT
        or (action == sqlite3.SQLITE_PRAGMA and a == "table_info")
        or (action == sqlite3.SQLITE_FUNCTION and b in _ALLOWED_FUNCTIONS)
        # An empty column name means count(*).
        or (action == sqlite3.SQLITE_READ and a in ALLOWED and (not b or b in ALLOWED[a]))
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@dataclass
class Export:
    """An open export."""

    db: sqlite3.Connection
    columns: dict[str, frozenset[str]] = field(default_factory=dict)
    """Allowed columns that exist, by table."""
    damage: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    """Rows that deserve a warning, by its code."""

    def batches(self, sql: str, values: Sequence[int] = ()) -> Iterator[list[Any]]:
        """Rows in lists of `BATCH_ROWS`; stops, and notes it, where the file is damaged."""
        import sqlite3

        rows: list[Any] = []
        try:
            cursor = self.db.execute(sql, values)
            while True:
                rows = []
                # Unlike fetchmany, extend keeps the rows that came before an error.
                rows.extend(islice(cursor, BATCH_ROWS))
                if len(rows) < BATCH_ROWS:
                    break
                yield rows
        except sqlite3.DatabaseError as error:
            self.damage.append(one_line(error))
        if rows:
            yield rows

    def rows(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[Any]:
        """All rows of a small table; none when it is absent, null for an absent column."""
        present = self.columns.get(table)
        if present is None:
            return
        fields = (f'"{c}"' if c in present else "NULL" for c in columns)
        for batch in self.batches(f'SELECT {", ".join(fields)} FROM "{table}" {where}'):  # noqa: S608
            yield from batch

    def count(self, table: str) -> int:
        """Number of rows; 0 when damage forbids counting."""
        for [(rows,)] in self.batches(f'SELECT count(*) FROM "{table}"'):  # noqa: S608
            return int(rows)
        return 0

    def enum(self, table: str, column: str, default: dict[int, str]) -> dict[int, str]:
        """A table of enum values as a mapping; `default` when the export has none."""
        texts = {i: str(text) for i, text in self.rows(table, ("id", column)) if isinstance(i, int)}
        return texts or default


def discover(db: sqlite3.Connection, path: Path) -> Export:
    """Find the tables and columns that this version of the export has."""
    import sqlite3

    export = Export(db)
    try:
        listed = db.execute("SELECT name, sql FROM sqlite_master").fetchall()
        # A view or virtual table that poses as one of the known tables is an attack.
        tables = {n for n, sql in listed if str(sql).upper().startswith("CREATE TABLE")}
        for table in tables & ALLOWED.keys():
            info = db.execute(f'PRAGMA table_info("{table}")').fetchall()
            export.columns[table] = ALLOWED[table] & {row[1] for row in info}
    except sqlite3.DatabaseError as error:
        raise DamagedFileError(
            f"{path}: damaged SQLite file ({one_line(error)}); copy or export it again"
        ) from error
    if not export.columns.keys() & {"META_DATA_EXPORT", *(s.table for s in SOURCES)}:
        raise UnknownFormatError(
            f"{path}: an SQLite database, but not an Nsight Systems export (no table of CUDA or "
            "NVTX events); make one with `nsys export --type sqlite REPORT.nsys-rep`"
        )
    return export
