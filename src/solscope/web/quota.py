"""Room for uploads: reserved before bytes are written, so that several at once stay within it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from solscope.errors import LimitError

STEP_BYTES = 8 << 20
"""Reserved at a time for an upload that does not say how long it is."""


@dataclass
class Quota:
    """How many bytes the files in a folder may have together."""

    folder: Path
    bytes: int
    reserved: int = 0
    """Bytes that uploads at work may write; hidden folders, where they do, are not counted."""

    @contextmanager
    def reservation(self, size: int) -> Iterator[Reservation]:
        """Room for one upload of at least `size` bytes; given back when it is there, or failed."""
        held = Reservation(self)
        held.grow(size)
        try:
            yield held
        finally:
            self.reserved -= held.size

    def left(self) -> int:
        """Bytes that are neither used nor reserved."""
        used = self._used() if self.bytes < sys.maxsize else 0
        return self.bytes - used - self.reserved

    def _used(self) -> int:
        used = 0
        for path in self.folder.rglob("*"):
            if not path.relative_to(self.folder).parts[0].startswith("."):
                with suppress(FileNotFoundError):  # Removed meanwhile.
                    used += path.stat().st_size if path.is_file() else 0
        return used


@dataclass
class Reservation:
    """What one upload may write."""

    quota: Quota
    size: int = field(default=0, init=False)

    def require(self, size: int) -> None:
        """Room for `size` bytes in all."""
        if size > self.size:
            wanted = size - self.size
            self.grow(max(wanted, min(STEP_BYTES, self.quota.left())))

    def grow(self, more: int) -> None:
        """Room for so many more bytes; `LimitError` when there is none."""
        left = self.quota.left()
        if left <= 0 or more > left:
            raise LimitError(
                f"the uploads here may have {self.quota.bytes:,} bytes together, and "
                f"{max(0, left):,} are left: remove some first"
            )
        self.quota.reserved += more
        self.size += more
