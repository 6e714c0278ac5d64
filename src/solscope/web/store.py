"""The profile store as the dashboard reads it: version by version, small ones from memory."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import polars as pl

from solscope.corpus.store import Corpus, CorpusStatus
from solscope.web.kept import Kept, Shelf

LOOK_AGAIN_S = 1.0
"""How long a version is taken for the newest, when the folder does not say that it is."""
MOST_BYTES = 40_000_000
"""Tables that are held in memory, by the size of their files; they unpack to about 30 times it."""
HELD = ("profiles", "times", "steps")

Version = tuple[str, int]


@dataclass(frozen=True)
class Held(Corpus):
    """One version of a store, read into memory: questions about it read no file."""

    frames: dict[str, pl.DataFrame]

    def raw(self, name: str) -> pl.LazyFrame:
        return self.frames[name].lazy() if name in self.frames else super().raw(name)


class _Seen(NamedTuple):
    """A version, and when it was the newest."""

    version: Version
    looked_s: float
    """By the clock of this process."""
    changed_ns: int | None
    """When the store was last written; null when it was written only just now, or cannot tell."""

    def holds(self, corpus: Corpus) -> bool:
        if time.monotonic() - self.looked_s <= LOOK_AGAIN_S:
            return True
        return self.changed_ns is not None and self.changed_ns == corpus.changed_ns()


class StoreView:
    """A store, its newest version, and what is known about it."""

    def __init__(self, corpus: Corpus, shelf: Shelf) -> None:
        self._newest = corpus
        self.shelf = shelf
        self._held: Kept[Corpus] = Kept(1)
        self._status: Kept[CorpusStatus] = Kept(1)
        self._seen: _Seen | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._newest.url

    @property
    def newest(self) -> Corpus:
        """The store itself, for writing."""
        return self._newest

    def version(self) -> Version:
        """Changes with every batch that is added or removed."""
        with self._lock:
            if self._seen is None or not self._seen.holds(self._newest):
                changed = self._newest.changed_ns()
                # Two writes within one tick of the file system's clock look like one.
                if changed is not None and time.time_ns() - changed < LOOK_AGAIN_S * 1e9:
                    changed = None
                self._seen = _Seen(self._newest.version(), time.monotonic(), changed)
            return self._seen.version

    def look_again(self) -> None:
        """Forget which version was the newest: someone has written."""
        with self._lock:
            self._seen = None

    def corpus(self) -> Corpus:
        """The newest version, in memory where it is small enough."""
        return self._held.get(self.version(), self._hold)

    def is_small(self) -> bool:
        """Whether the newest version can be held in memory."""
        return sum(size for name in HELD for _, size in self._newest.files(name)) <= MOST_BYTES

    def status(self) -> CorpusStatus:
        """What the store holds."""
        version = self.version()

        def make() -> CorpusStatus:
            kept = self.shelf.get(
                (self.url, version, "status"), lambda: msgspec.json.encode(self._newest.status())
            )
            return msgspec.json.decode(kept, type=CorpusStatus)

        return self._status.get(version, make)

    def _hold(self) -> Corpus:
        if not self.is_small():
            return self._newest
        # Profiles first: a batch writes them last, so that what they name is in the other tables.
        return Held(self.url, {name: self._newest.raw(name).collect() for name in HELD})
