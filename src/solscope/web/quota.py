"""Room for uploads: reserved before bytes are written, so that several at once stay within it."""

from __future__ import annotations

import os
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
    """Bytes that uploads at work may write."""
    at_work: set[str] = field(default_factory=set)
    """Names of the hidden folders of uploads at work: their bytes are reserved, not used."""
    _taken: int = 0
    """Bytes of all uploads that were taken."""
    _measured: tuple[int, int] = (0, 0)
    """Bytes in the folder, and of uploads that had been taken when it was measured."""

    def measure(self) -> None:
        """Look again at what is in the folder, where files may have been removed.

        It may run in another thread. An upload that ends meanwhile may count twice until the next
        time: better than not at all.
        """
        if self.bytes < sys.maxsize:
            before = self._taken
            self._measured = self._in_folder(), before

    @property
    def used(self) -> int:
        """Bytes of the files, as last measured, and of uploads since then."""
        in_folder, before = self._measured
        return in_folder + self._taken - before

    @contextmanager
    def reservation(self, size: int) -> Iterator[Reservation]:
        """Room for one upload of at least `size` bytes; used when it is there, or given back."""
        held = Reservation(self)
        held.grow(size)
        try:
            yield held
            self._taken += held.written
        finally:
            self.reserved -= held.size
            self.at_work -= held.folders

    def left(self) -> int:
        """Bytes that are neither used nor reserved."""
        return self.bytes - self.used - self.reserved

    def _in_folder(self) -> int:
        used = 0
        for folder, folders, files in os.walk(self.folder):
            if folder == os.fspath(self.folder):
                folders[:] = [name for name in folders if name not in self.at_work]
            for name in files:
                with suppress(OSError):  # Removed meanwhile, or a link to nowhere.
                    used += Path(folder, name).stat().st_size
        return used


@dataclass
class Reservation:
    """What one upload may write."""

    quota: Quota
    size: int = field(default=0, init=False)
    written: int = field(default=0, init=False)
    folders: set[str] = field(default_factory=set, init=False)

    def write_in(self, folder: Path) -> None:
        """The hidden folder in which the upload is written."""
        self.folders.add(folder.name)
        self.quota.at_work.add(folder.name)

    def require(self, size: int) -> None:
        """Room for `size` bytes in all, which are about to be written."""
        if size > self.size:
            wanted = size - self.size
            self.grow(max(wanted, min(STEP_BYTES, self.quota.left())))
        self.written = size

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
