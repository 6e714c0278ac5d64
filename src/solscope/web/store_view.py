"""The profile store as the dashboard reads it: version by version, small ones from memory."""

from __future__ import annotations

import threading
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from solscope.corpus.location import changed_ns, is_url, normal
from solscope.corpus.status import CorpusStatus
from solscope.web.answer_cache import DiskCache, MemoryCache

if TYPE_CHECKING:
    from solscope.corpus.store import Corpus

RECHECK_AFTER_S = 1.0
"""How long the last version seen counts as the newest without looking at the store again. Also the
age from which on the folder's modification time is trusted: file systems with whole seconds give
two commits within one the same time."""
MAX_FILE_BYTES = 40_000_000
"""Largest size of the tables' files for a store to be read into memory: they unpack to about 30
times that, 1.2 GB."""
TABLES_IN_MEMORY = ("profiles", "times", "steps")

Version = tuple[str, int, int]


class _Seen(NamedTuple):
    """A version, and when it was the newest."""

    version: Version
    looked_s: float
    """By the clock of this process."""
    changed_ns: int | None
    """When the store was last written; null when it was written only just now, or cannot tell."""

    def holds(self, url: str) -> bool:
        if time.monotonic() - self.looked_s <= RECHECK_AFTER_S:
            return True
        return self.changed_ns is not None and self.changed_ns == changed_ns(url)


class StoreView:
    """A store, its newest version, and what is known about it.

    It is opened when something must be read from it; `InputError` when there is none.
    """

    def __init__(self, url: str, disk_cache: DiskCache) -> None:
        place = normal(url)
        self.url = place if is_url(place) else str(Path(place).absolute())
        """Where the store is, wherever the server was started: answers are kept by it."""
        self.disk_cache = disk_cache
        self._in_memory: MemoryCache[Corpus] = MemoryCache(1)
        self._status: MemoryCache[CorpusStatus] = MemoryCache(1)
        self._seen: _Seen | None = None
        self._lock = threading.Lock()
        self.version()  # Report a store that cannot be shown at startup.

    @cached_property
    def newest(self) -> Corpus:
        """The store itself."""
        from solscope.corpus.store import open_corpus

        return open_corpus(self.url)

    def version(self) -> Version:
        """Changes with every batch that is added or removed."""
        with self._lock:
            if self._seen is None or not self._seen.holds(self.url):
                changed = changed_ns(self.url)
                # Two writes within one tick of the file system's clock look like one.
                if changed is not None and time.time_ns() - changed < RECHECK_AFTER_S * 1e9:
                    changed = None
                self._seen = _Seen(self._look(changed), time.monotonic(), changed)
            return self._seen.version

    def _look(self, changed: int | None) -> Version:
        """The newest version; that of a folder that says when it was written is kept."""
        if changed is None:
            return self.newest.version()
        key = (self.url, changed, "version")
        cached = self.disk_cache.get(key, lambda: msgspec.json.encode(self.newest.version()))
        version: Version = msgspec.json.decode(cached, type=Version)
        return version

    def look_again(self) -> None:
        """Forget which version was the newest: someone has written."""
        with self._lock:
            self._seen = None

    def corpus(self) -> Corpus:
        """The newest version, in memory where it is small enough."""
        return self._in_memory.get(self.version(), self._load)

    def is_small(self) -> bool:
        """Whether the newest version can be held in memory."""
        return (
            sum(size for name in TABLES_IN_MEMORY for _, size in self.newest.files(name))
            <= MAX_FILE_BYTES
        )

    def status(self) -> CorpusStatus:
        """What the store holds."""
        version = self.version()

        def make() -> CorpusStatus:
            cached = self.disk_cache.get(
                (self.url, version, "status"), lambda: msgspec.json.encode(self.newest.status())
            )
            return msgspec.json.decode(cached, type=CorpusStatus)

        return self._status.get(version, make)

    def _load(self) -> Corpus:
        from solscope.web.memory_store import load_into_memory

        return load_into_memory(self.newest, TABLES_IN_MEMORY) if self.is_small() else self.newest
