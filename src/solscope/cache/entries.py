"""Entries on disk: found by key, written whole or not at all, evicted when there are too many.

No locks: an entry is a folder that is renamed into its place, and renamed away before it is
deleted. Two processes that write the same entry write the same thing, and the first one wins. A
process that reads an entry while another deletes it has a miss.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solscope.cache.digest import blake2b
from solscope.cache.listing import ENTRIES, INDEX, MANIFEST, WORK, owned, stored
from solscope.cache.removal import remove, work_folder
from solscope.cache.settings import Settings, make_private
from solscope.cache.tables import Files, UnfitError, Value, dump, fetch, load
from solscope.errors import SolscopeError

UNUSED_S = 30 * 24 * 3600
"""An entry that nobody asked for in this time goes."""
ABANDONED_S = 3600
"""Work of a process that was killed goes after this time."""
MAX_INDEXED = 8192
"""Digests of files that are kept, the newest; each takes one block on the disk."""


class Entries:
    """The entries of one cache."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.folder

    @property
    def index(self) -> Path:
        """Folder of the digests of files."""
        return self._folder / INDEX

    def fetch(self, key: str) -> Files | None:
        """The files of an entry, for `get`; null unless they are there and whole."""
        try:
            return fetch(key, self._place(key))
        except (OSError, ValueError, UnfitError):  # `get` will see it and say what it means
            return None

    def get(
        self,
        key: str,
        kind: type[Value],
        given: Mapping[str, object],
        fetched: Files | None = None,
    ) -> Value | None:
        """The value, when it is there and whole; `fetched` are its files, if they were read."""
        place = self._place(key)
        try:
            value = load(kind, fetched or fetch(key, place), given)
        except FileNotFoundError:
            return None
        except _damaged():
            self._remove(place)
            return None
        with contextlib.suppress(OSError):
            os.utime(place / MANIFEST)
        return value

    def put(self, key: str, value: Any, given: Mapping[str, object]) -> None:
        """Write the value, unless that fails or it is too large; evict old entries for it."""
        place = self._place(key)
        with contextlib.suppress(*_damaged()):
            make_private(place.parent)
            with work_folder(self._folder) as work:
                dump(value, key, work, given)
                size = sum(file.stat().st_size for file in work.iterdir())
                if size > self._settings.max_bytes or place.exists():
                    return
                # Before the entry appears, so that the limit holds at all times.
                self.evict(size)
                work.rename(place)  # fails when another process was faster
            # Again: processes that write at the same time each made room for one entry only.
            self.evict()

    def evict(self, incoming_bytes: int = 0) -> None:
        """Remove what nobody uses, then the least recently used until the rest fits.

        `incoming_bytes` is the size of an entry that is about to be added.
        """
        entries = stored(self._folder)
        total = incoming_bytes + sum(entry.bytes for entry in entries)
        now = time.time()
        for entry in entries:
            if total <= self._settings.max_bytes and now - entry.used_s <= UNUSED_S:
                break
            self._remove(entry.path)
            total -= entry.bytes
        for path in owned(self._folder / WORK, WORK):
            if now - _changed_s(path) > ABANDONED_S:
                self._remove(path)
        indexed = owned(self.index, INDEX)
        if len(indexed) > MAX_INDEXED:
            for path in sorted(indexed, key=_changed_s)[: -MAX_INDEXED // 2]:
                self._remove(path)

    def _place(self, key: str) -> Path:
        return self._folder / ENTRIES / key

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            remove(self._folder, path)


def _damaged() -> tuple[type[BaseException], ...]:
    """What reading a damaged entry raises. An entry without tables is read without Polars."""
    from polars.exceptions import PanicException, PolarsError

    errors = (OSError, ValueError, TypeError, KeyError)  # msgspec raises ValueError, too
    return (*errors, UnfitError, SolscopeError, PolarsError, PanicException)


def entry_key(*parts: object) -> str:
    """The key of what depends on these parts, each of which `repr` must tell from all others."""
    return blake2b(repr(parts).encode(), digest_size=20).hexdigest()


def _changed_s(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
