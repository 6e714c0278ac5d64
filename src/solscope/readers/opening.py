"""Opening one profile: from the cache when it was read before, else by a reader, then cached.

Only readers whose result depends on nothing but the bytes and the name of one file are cached
(`ONE_FILE`). Companion files, such as metrics, are read anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from solscope import demo
from solscope.cache import background
from solscope.cache.code import code_version
from solscope.cache.content import FileState
from solscope.cache.entries import Entries, entry_key
from solscope.cache.settings import settings
from solscope.errors import InputError
from solscope.profile import Profile, is_saved_profile, load_saved
from solscope.readers.base import Head, Reader, ReadOptions
from solscope.readers.metrics import attach_metrics, metrics_beside
from solscope.readers.source import read_head
from solscope.text import encodable

ONE_FILE = frozenset({"kineto", "nsys_sqlite", "nsys_stats", "rocprof"})
"""Built-in readers whose result depends on one file. `nsys_report` depends on the installed `nsys`;
the version of readers from other packages is not known."""


class Opening:
    """One profile that is about to be opened."""

    def __init__(self, asked: str, options: ReadOptions, choose: Callable[[Head], Reader]) -> None:
        self._asked = asked
        self._path = Path(demo.resolve(asked))
        self._options = options
        self._choose = choose
        self._one_file = True

    def profile(self) -> Profile:
        """The profile, as `solscope.open` returns it."""
        path = self._path
        if self._asked.startswith(demo.PREFIX):
            demo.require_profile(self._asked)
        if path.is_dir():
            if not is_saved_profile(path):
                raise InputError(f"{path} is a folder, not a profile; pass a file in it")
            return replace(load_saved(path), path=encodable(str(path)))
        profile = self._cached() or self._read()
        named = self._asked if self._asked.startswith(demo.PREFIX) else encodable(str(path))
        return replace(attach_metrics(profile, path), path=named)

    @cached_property
    def entries(self) -> Entries | None:
        """The cache, when this profile may be in it."""
        found = settings() if self._options.cache else None
        if found is None or not self._path.is_file() or _has_unsaved_changes(self._path):
            return None
        return Entries(found) if self._path.stat().st_size >= found.min_bytes else None

    def known_key(self) -> str | None:
        """What identifies the profile, its metrics included, when it was read before."""
        return self._key(self._known_digest)

    def key(self) -> str | None:
        """The same after it was read, at the price of reading the file once more."""
        return self._key(self._digest_of_read) if self._one_file else None

    @cached_property
    def _state(self) -> FileState | None:
        """The file as it was before it was read."""
        if self.entries is None:
            return None
        try:
            return FileState(self._path, self.entries.index)
        except OSError:
            return None

    @cached_property
    def _known_digest(self) -> str | None:
        return None if self._state is None else self._state.known_digest()

    @property
    def _digest_of_read(self) -> str | None:
        """The digest of the bytes that were read; null when the file was replaced meanwhile."""
        digest = self._known_digest or self._digest
        return digest if self._state is not None and self._state.is_unchanged() else None

    @cached_property
    def _digest(self) -> str | None:
        return None if self._state is None else self._state.digest()

    def _key(self, digest: str | None) -> str | None:
        if self.entries is None or digest is None:
            return None
        beside = metrics_beside(self._path)
        if beside is None:
            return entry_key(self._read_key(digest), None)
        metrics = _digest_now(beside, self.entries)
        return None if metrics is None else entry_key(self._read_key(digest), beside.name, metrics)

    def _read_key(self, digest: str) -> str:
        """What the result of a reader depends on; rank and stage can come from the name."""
        name, expansion = self._path.name, self._options.max_expansion
        return entry_key("profile", digest, name, expansion, code_version())

    def _cached(self) -> Profile | None:
        digest = self._known_digest
        if self.entries is None or digest is None:
            return None
        return self.entries.get(self._read_key(digest), Profile, {"path": str(self._path)})

    def _read(self) -> Profile:
        profile = self._choose(read_head(self._path)).read(self._path, self._options)
        self._one_file = profile.format in ONE_FILE
        if self.entries is not None and self._one_file:
            background.submit(lambda: self._store(profile))
        return profile

    def _store(self, profile: Profile) -> None:
        digest = self._digest_of_read
        if self.entries is not None and digest is not None:
            self.entries.put(self._read_key(digest), profile, {"path": profile.path})


def _digest_now(path: Path, entries: Entries) -> str | None:
    try:
        state = FileState(path, entries.index)
    except OSError:
        return None
    return state.known_digest() or state.digest()


def _has_unsaved_changes(path: Path) -> bool:
    """An SQLite database with a separate log is not complete in its file."""
    return path.with_name(f"{path.name}-wal").exists()
