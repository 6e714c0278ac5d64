"""Scanning a Chrome trace into typed columns: the contract, and the choice of a scanner.

Two scanners keep the same contract (`TraceScanner`) and give the same columns for the same bytes:
the native one (`solscope._native`, C++) and `kineto_scan.PythonScanner`, used where no compiler was
there. The conformance suite runs on both. `SOLSCOPE_CORE=native|python` chooses one by hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, TypedDict

from solscope.errors import MissingToolError, UsageError

CODES = (
    "cat",
    "name",
    "pid_text",
    "tid_text",
    "grid",
    "block",
    "input_dims",
    "input_types",
    "input_strides",
    "concrete_inputs",
    "collective",
    "process_group",
    "process_group_ranks",
    "launched",
)
"""Columns of uint32 codes into `jsons()`, those of `TEXTS` into `texts()`; `NONE` is null."""
TEXTS = (
    "cat",
    "name",
    "pid_text",
    "tid_text",
    "collective",
    "process_group",
    "process_group_ranks",
    "launched",
)
NUMBERS = (
    "start_ns",
    "dur_ns",
    "pid",
    "tid",
    "device",
    "stream",
    "correlation",
    "external_id",
    "graph_id",
    "graph_node",
    "bytes",
    "sequence",
    "peer",
)
"""Columns of int64; `NULL` is null."""


class ScanStats(TypedDict):
    """What a scanner saw."""

    events: int
    phased: int
    """Events with a `ph`, which every trace event has."""
    damaged: int
    wild: int
    absent_dur: int
    negative_dur: int
    truncated_at: int
    saw_events: bool
    not_trace: bool
    damage: list[tuple[int, str]]


class TraceScanner(Protocol):
    """Fills columns from pieces of one trace; see the head of `_native/scanner.cpp`."""

    def feed(self, piece: bytes, /) -> int:
        """Scan the next piece; returns the number of rows held."""
        ...

    def finish(self) -> None:
        """No more pieces will come."""
        ...

    def take(self) -> dict[str, Any]:
        """Columns of the rows held, as buffers; forgets the rows.

        A column without any value may be empty, except `start_ns`.
        """
        ...

    def texts(self, start: int, /) -> Sequence[bytes | str]:
        """Interned strings from code `start` on: raw text between quotes, or decoded str."""
        ...

    def jsons(self) -> Sequence[bytes]:
        """Interned raw JSON values."""
        ...

    def header(self) -> Sequence[tuple[bytes, bytes]]:
        """Other top-level members, as (key, raw JSON)."""
        ...

    def stats(self) -> ScanStats:
        """Counts of what was seen, skipped and broken."""
        ...


def native_scanner() -> Callable[[], TraceScanner] | None:
    """The native scanner's class, or None where it was not built."""
    try:
        from solscope._native._scanner import Scanner
    except ImportError:
        return None
    _require_current(Scanner)
    return Scanner


@cache
def _require_current(scanner: Callable[[], TraceScanner]) -> None:
    """Refuse a scanner that was built from another version of its source."""
    fresh = scanner()
    fresh.finish()
    if set(fresh.take()) != {*CODES, *NUMBERS}:
        raise MissingToolError(
            "the native scanner was built from another version of solscope; "
            "build it again: python setup.py build_ext --inplace"
        )


def core_name() -> str:
    """Which scanner is in use: `native` or `python`."""
    wanted = os.environ.get("SOLSCOPE_CORE", "")
    if wanted not in ("", "native", "python"):
        raise UsageError(f"SOLSCOPE_CORE={wanted!r}: choose native or python")
    if wanted == "native" and native_scanner() is None:
        raise MissingToolError(
            "SOLSCOPE_CORE=native, but the native scanner was not built; "
            "install a C++ compiler and reinstall solscope"
        )
    return wanted or ("native" if native_scanner() is not None else "python")
