"""Caches of the dashboard: values in memory, and answers on disk across starts.

Not to be confused with `solscope.cache`, which holds read profiles for every command; answers on
disk are in a folder beside them, under the same settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from solscope.cache.code import package_files
from solscope.cache.listing import ANSWERS, owned
from solscope.cache.settings import make_private, settings
from solscope.files import new_file

Value = TypeVar("Value")
MAX_FILES = 400
"""Answers on disk; beyond that the oldest are evicted."""


class MemoryCache(Generic[Value]):
    """The values used last, by key; each is made once, even when two threads ask for it at once."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._values: OrderedDict[object, Value] = OrderedDict()
        self._making: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()

    def peek(self, key: object) -> Value | None:
        """The value, when it is there."""
        with self._lock:
            return self._values.get(key)

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """The value, made when it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            # One lock per key: making a value can take seconds, and must not block other keys.
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    # Another thread may have made it while this one waited for `making`.
                    if key in self._values:
                        return self._values[key]
                value = make()
                with self._lock:
                    self._values[key] = value
                    while len(self._values) > self._max_values:
                        self._values.popitem(last=False)
        finally:
            with self._lock:
                # Also after a failure. A thread that came later may have put a new lock here.
                if self._making.get(key) is making:
                    del self._making[key]
        return value


class DiskCache:
    """Answers as files, so that a dashboard that is started again has them at once.

    The key must hold everything that an answer depends on. A folder that cannot be used means only
    that nothing is cached.
    """

    def __init__(self, folder: Path | None, max_files: int = MAX_FILES) -> None:
        self._folder = folder
        self._max_files = max_files

    def peek(self, key: object) -> bytes | None:
        """The cached answer, when there is one; a crash of the machine can leave an empty file."""
        place = self._place(key)
        if place is not None:
            with contextlib.suppress(OSError):
                return place.read_bytes() or None
        return None

    def get(self, key: object, make: Callable[[], bytes]) -> bytes:
        """The cached answer, or the one that `make` gives."""
        cached = self.peek(key)
        if cached is not None:
            return cached
        value = make()
        place = self._place(key)
        if place is not None:
            with contextlib.suppress(OSError):
                make_private(place.parent)
                with new_file(place) as work:
                    work.write_bytes(value)
                self._evict(place.parent)
        return value

    def _place(self, key: object) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / hashlib.sha256(repr((key, code_stamp())).encode()).hexdigest()

    def _evict(self, folder: Path) -> None:
        # Oldest first, not least recently used: reading an answer does not touch its file.
        entries = sorted(owned(folder, ANSWERS), key=lambda path: path.lstat().st_mtime_ns)
        for path in entries[: -self._max_files]:
            if path.is_dir():  # Left by a server that was killed while it wrote.
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def answers_folder() -> Path | None:
    """Where answers are cached: in the user's cache folder, unless nothing may be cached."""
    current = settings()
    return None if current is None else current.folder / ANSWERS


@cache
def code_stamp() -> str:
    """Changes with every change of the program, which may change its answers."""
    return _stamp_of(Path(__file__).resolve().parents[1])


def _stamp_of(package: Path) -> str:
    """Of all files, not the newest alone: one may go, be put back, or have no date of its own."""
    versions = sorted(package_files(package, deep=True))
    return hashlib.sha256(repr(versions).encode()).hexdigest()
