"""The contract of a reader, and what a reader may know about the file before it is chosen.

A reader is one module with one object that satisfies `Reader` and one line in
`readers/__init__.py`. It is chosen by content: `sniff` looks at the first bytes (decompressed) and
says yes or no; exactly one reader must say yes. `read` returns a `Profile` and prints nothing. It
streams: memory grows with the event table, never with the file. What it cannot use it counts and
reports as a warning; only a file from which nothing can be used is an error (`DamagedFileError`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from solscope.profile import Profile

MAX_TIME_NS = 4_000_000_000_000_000_000
"""No event starts later than this, or as long before zero: start plus duration still fits int64."""
MAX_DUR_NS = 100_000_000_000_000
"""27 hours. A longer duration is a damaged number, and sums of such ones would not fit int64."""


@dataclass(frozen=True)
class ReadOptions:
    """What a caller may change about reading."""

    max_expansion: int = 200
    """Refuse a compressed file that grows beyond this factor (see `source.py`)."""
    progress: Callable[[int, int], None] | None = None
    """Called now and then with bytes consumed and bytes in all, of the file as stored."""
    cache: bool = True
    """Whether the cache may be used; off for files that are read once and never again."""


@dataclass(frozen=True)
class Head:
    """The start of a file, decompressed, as given to `sniff`."""

    path: Path
    data: bytes
    """Up to `source.HEAD_BYTES` bytes."""

    @property
    def text(self) -> str:
        """`data` as text, undecodable bytes replaced; for readers of text formats."""
        return self.data.decode("utf-8-sig", errors="replace")

    @property
    def is_json(self) -> bool:
        """Whether this is text that begins like JSON."""
        return self.data.lstrip()[:1] in (b"{", b"[") and b"\0" not in self.data


class Reader(Protocol):
    """One profile format."""

    name: str
    """Name in `Profile.format`, lower_snake."""
    summary: str
    """What it reads, one line, for `solscope doctor` and the docs."""

    def sniff(self, head: Head) -> bool:
        """True when this reader, and no other, should read the file."""
        ...

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read the whole file."""
        ...


class Reading(Protocol):
    """A file that is being read by a thread."""

    def finish(self) -> Profile:
        """Wait for the end, and return or raise what `Reader.read` would."""
        ...

    def stop(self) -> None:
        """Read no further; does nothing after `finish`."""
        ...


class EarlyReader(Reader, Protocol):
    """A reader that can begin before the data libraries are imported; it must not import them."""

    def start(self, path: Path, options: ReadOptions) -> Reading:
        """Begin to read the file on a thread. What goes wrong there is raised by `finish`."""
        ...
