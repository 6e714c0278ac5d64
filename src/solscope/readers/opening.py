"""Opening one profile: from the cache when it was read before, else by a reader, then cached.

Only readers whose result depends on nothing but the bytes and the name of one file are cached
(`ONE_FILE`). Companion files, such as metrics, are read anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from solscope import demo
from solscope.cache.content import FileState
from solscope.cache.listing import INDEX
from solscope.cache.settings import Settings, settings
from solscope.errors import InputError, SolscopeError
from solscope.readers.base import EarlyReader, Head, Reader, Reading, ReadOptions
from solscope.readers.find import metrics_beside
from solscope.readers.source import read_head

if TYPE_CHECKING:
    from concurrent.futures import Future

    from solscope.cache.entries import Entries
    from solscope.cache.tables import Files
    from solscope.profile import Profile

Result = TypeVar("Result")
ONE_FILE = frozenset({"kineto", "nsys_sqlite", "nsys_stats", "rocprof"})
"""Built-in readers whose result depends on one file. `nsys_report` depends on the installed `nsys`;
the version of readers from other packages is not known."""


class Opening:
    """One profile that is about to be opened.

    `start` begins to read it. As a context manager it ends what `start` began and nobody awaited.
    """

    def __init__(
        self,
        asked: str,
        options: ReadOptions,
        choose: Callable[[Head], Reader],
        early: Callable[[Head], EarlyReader | None],
    ) -> None:
        self._asked = asked
        self._path = Path(demo.resolve(asked))
        self._options = options
        self._choose = choose
        self._early = early
        self._started: tuple[EarlyReader, Reading] | None = None
        self._one_file = True
        self._fetching: Future[Files | None] | None = None
        self._loading: Future[Profile | None] | None = None

    def start(self) -> None:
        """Begin to read the file on a thread, or the entry of the cache that it may have.

        Nothing is imported that takes long, but NumPy where the scanner is the one in Python, and
        nothing is raised: the caller imports what it needs and calls `profile`, which reports what
        is wrong.
        """
        if self.was_read:
            self._start_fetching()
        if self._started is not None or not self._path.is_file() or self.was_read:
            return
        try:
            reader = self._early(self._head)
            if reader is not None:
                self._started = (reader, reader.start(self._path, self._options))
        except SolscopeError:
            return

    @property
    def was_read(self) -> bool:
        """Whether this file was read before, so that the profile may be in the cache."""
        return self._known_digest is not None

    def start_loading(self) -> None:
        """Begin to load the profile from the cache on a thread, when it is there.

        For a caller that has imported Polars and has other modules to import meanwhile.
        """
        if self._loading is None and self.entries is not None and self._known_digest is not None:
            import solscope.profile  # here, so that two threads do not import it at once

            assert solscope.profile
            self._loading = _on_a_thread(self._from_cache)

    def _start_fetching(self) -> None:
        """Begin to read the files of the entry; not to decode them, which needs Polars."""
        if self._fetching is None and self.entries is not None and self._known_digest is not None:
            key = self._read_key(self._known_digest)
            self._fetching = _on_a_thread(partial(self.entries.fetch, key))

    def __enter__(self) -> Opening:
        return self

    def __exit__(self, *_: object) -> None:
        if self._started is not None:
            self._started[1].stop()
            self._started = None

    def profile(self) -> Profile:
        """The profile, as `solscope.open` returns it."""
        from solscope.profile import is_saved_profile, load_saved
        from solscope.readers.limits import check_limits
        from solscope.readers.metrics import attach_metrics
        from solscope.text import encodable

        path = self._path
        if self._asked.startswith(demo.PREFIX):
            demo.require_profile(self._asked)
        if path.is_dir():
            if not is_saved_profile(path):
                raise InputError(f"{path} is a folder, not a profile; pass a file in it")
            return check_limits(replace(load_saved(path), path=encodable(str(path))))
        profile = self._cached() or self._read()
        named = self._asked if self._asked.startswith(demo.PREFIX) else encodable(str(path))
        return check_limits(replace(attach_metrics(profile, path), path=named))

    @cached_property
    def entries(self) -> Entries | None:
        """The cache, when this profile may be in it."""
        if self._settings is None:
            return None
        from solscope.cache.entries import Entries

        return Entries(self._settings)

    @cached_property
    def _settings(self) -> Settings | None:
        chosen = settings() if self._options.cache else None
        if chosen is None or not self._path.is_file() or _has_unsaved_changes(self._path):
            return None
        return chosen if self._path.stat().st_size >= chosen.min_bytes else None

    @cached_property
    def _head(self) -> Head:
        return read_head(self._path)

    def known_key(self) -> str | None:
        """What identifies the profile, its metrics included, when it was read before."""
        return self._key(self._known_digest)

    def key(self) -> str | None:
        """The same after it was read, at the price of reading the file once more."""
        return self._key(self._digest_of_read) if self._one_file else None

    def metrics_now(self) -> tuple[str, str | None] | None:
        """Name and digest of the metrics file beside the profile; null when there is none."""
        beside = None if self.entries is None else metrics_beside(self._path)
        if self.entries is None or beside is None:
            return None
        return beside.name, _digest_now(beside, self.entries)

    @cached_property
    def _state(self) -> FileState | None:
        """The file as it was before it was read."""
        if self._settings is None:
            return None
        try:
            return FileState(self._path, self._settings.folder / INDEX)
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
        # Another opening of the same file may have computed it since.
        state = self._state
        return None if state is None else state.known_digest() or state.digest()

    def _key(self, digest: str | None) -> str | None:
        if self.entries is None or digest is None:
            return None
        from solscope.cache.entries import entry_key

        metrics = self.metrics_now()
        if metrics is None:
            return entry_key(self._read_key(digest), None)
        return None if metrics[1] is None else entry_key(self._read_key(digest), *metrics)

    def _read_key(self, digest: str) -> str:
        """What the result of a reader depends on; rank and stage can come from the name."""
        from solscope.cache.code import code_version
        from solscope.cache.entries import entry_key

        name, expansion = self._path.name, self._options.max_expansion
        return entry_key("profile", digest, name, expansion, code_version())

    def _cached(self) -> Profile | None:
        return self._from_cache() if self._loading is None else self._loading.result()

    def _from_cache(self) -> Profile | None:
        digest = self._known_digest
        if self.entries is None or digest is None:
            return None
        from solscope.profile import Profile

        fetched = None if self._fetching is None else self._fetching.result()
        given = {"path": str(self._path)}
        return self.entries.get(self._read_key(digest), Profile, given, fetched)

    def _read(self) -> Profile:
        profile = self._by_reader()
        self._one_file = profile.format in ONE_FILE
        if self.entries is not None and self._one_file:
            from solscope.cache import background

            background.submit(lambda: self._store(profile))
        return profile

    def _by_reader(self) -> Profile:
        self.start()
        with self:
            reader = self._choose(self._head)
            if self._started is not None and self._started[0] is reader:
                return self._started[1].finish()
        return reader.read(self._path, self._options)

    def _store(self, profile: Profile) -> None:
        digest = self._digest_of_read
        if self.entries is not None and digest is not None:
            self.entries.put(self._read_key(digest), profile, {"path": profile.path})


def _on_a_thread(work: Callable[[], Result]) -> Future[Result]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, thread_name_prefix="solscope-load")
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def _digest_now(path: Path, entries: Entries) -> str | None:
    try:
        state = FileState(path, entries.index)
    except OSError:
        return None
    return state.known_digest() or state.digest()


def _has_unsaved_changes(path: Path) -> bool:
    """An SQLite database with a separate log is not complete in its file."""
    return path.with_name(f"{path.name}-wal").exists()
