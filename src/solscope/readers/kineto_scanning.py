"""Scanning a Chrome trace on a thread of its own; the rows come in batches.

Nothing here imports a data library: the file is decompressed and scanned while the caller imports
what the event table is made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from solscope.readers.base import ReadOptions
from solscope.readers.kineto_core import ScanStats, TraceScanner, core_name, native_scanner
from solscope.readers.source import Prefetched, TruncatedStream, prefetch, stream

BATCH_ROWS = 1 << 17
BATCHES_AHEAD = 6
"""Batches that may wait for the table: 20 MB each, when every column has values."""


class Batch(NamedTuple):
    """Rows in file order, and the texts that no batch before them had."""

    texts: Sequence[bytes | str]
    columns: dict[str, Any]
    """As `TraceScanner.take` returns them."""


class Scanned(NamedTuple):
    """What is known at the end of the file."""

    stats: ScanStats
    cut: str | None
    """Why the compressed data ends early; null when it does not."""
    last: Batch
    jsons: Sequence[bytes]
    header: Sequence[tuple[bytes, bytes]]


class Scan:
    """One trace that is being scanned, from now on."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._work = _Work(new_scanner())
        pieces = prefetch(stream(path, options))
        self._batches = prefetch(self._work.batches(pieces), BATCHES_AHEAD, "solscope-scan")

    def batches(self) -> Iterator[Batch]:
        """All full batches, as they become ready; `finish` has what is left."""
        return self._batches

    def finish(self) -> Scanned:
        """To be called after the last batch."""
        return self._work.finish()

    def stop(self) -> None:
        """Scan no further."""
        self._batches.close()


class _Work:
    """What the thread works on: it must not hold a `Scan`, which ends the thread when dropped."""

    def __init__(self, scanner: TraceScanner) -> None:
        self._scanner = scanner
        self._texts = 0
        self._cut: str | None = None

    def batches(self, pieces: Prefetched[bytes]) -> Iterator[Batch]:
        with closing(pieces):
            try:
                for piece in pieces:
                    if self._scanner.feed(piece) >= BATCH_ROWS:
                        yield self._take()
            except TruncatedStream as stop:
                self._cut = str(stop)

    def finish(self) -> Scanned:
        scanner = self._scanner
        scanner.finish()
        last = self._take()
        scanned = Scanned(scanner.stats(), self._cut, last, scanner.jsons(), scanner.header())
        del self._scanner  # its memory is better used for the table
        return scanned

    def _take(self) -> Batch:
        texts = self._scanner.texts(self._texts)
        self._texts += len(texts)
        return Batch(texts, self._scanner.take())


def new_scanner() -> TraceScanner:
    """A fresh scanner of the core in use."""
    name, native = core_name(), native_scanner()
    if native is not None and name == "native":
        return native()
    from solscope.readers.kineto_scan import PythonScanner

    return PythonScanner()
