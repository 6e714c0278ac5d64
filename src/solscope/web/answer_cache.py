"""Answers that were made before: in memory, and in a folder of the user's across starts."""

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

from solscope.cache.listing import ANSWERS, owned
from solscope.cache.settings import make_private, settings
from solscope.files import new_file

Value = TypeVar("Value")
MOST_FILES = 400
"""Answers that are kept on disk; beyond that the oldest go."""


class MemoryCache(Generic[Value]):
    """The last values that were made, by key; each is made once, even when asked for twice."""

    def __init__(self, most: int) -> None:
        self._most = most
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
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    if key in self._values:
                        return self._values[key]
                value = make()
                with self._lock:
                    self._values[key] = value
                    while len(self._values) > self._most:
                        self._values.popitem(last=False)
        finally:
            with self._lock:
                if self._making.get(key) is making:
                    del self._making[key]
        return value


class DiskCache:
    """Answers as files, so that a dashboard that is started again has them at once.

    The key must hold everything that an answer depends on. A folder that cannot be used means only
    that nothing is kept.
    """

    def __init__(self, folder: Path | None, most: int = MOST_FILES) -> None:
        self._folder = folder
        self._most = most

    def peek(self, key: object) -> bytes | None:
        """The kept answer, when there is one; an empty file is what a crash of the machine left."""
        place = self._place(key)
        if place is not None:
            with contextlib.suppress(OSError):
                return place.read_bytes() or None
        return None

    def get(self, key: object, make: Callable[[], bytes]) -> bytes:
        """The kept answer, or the one that `make` gives."""
        kept = self.peek(key)
        if kept is not None:
            return kept
        value = make()
        place = self._place(key)
        if place is not None:
            with contextlib.suppress(OSError):
                make_private(place.parent)
                with new_file(place) as work:
                    work.write_bytes(value)
                self._forget(place.parent)
        return value

    def _place(self, key: object) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / hashlib.sha256(repr((key, code_stamp())).encode()).hexdigest()

    def _forget(self, folder: Path) -> None:
        entries = sorted(owned(folder, ANSWERS), key=lambda path: path.lstat().st_mtime_ns)
        for path in entries[: -self._most]:
            if path.is_dir():  # Left by a server that was killed while it wrote.
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def answers_folder() -> Path | None:
    """Where answers are kept: in the user's cache folder, unless nothing may be cached."""
    found = settings()
    return None if found is None else found.folder / ANSWERS


@cache
def code_stamp() -> str:
    """Changes with every change of the program, which may change its answers."""
    return _stamp_of(Path(__file__).resolve().parents[1])


def _stamp_of(package: Path) -> str:
    """Of all files, not the newest alone: one may go, be put back, or have no date of its own."""
    files = sorted(path for path in package.rglob("*") if path.suffix not in ("", ".pyc"))
    stats = [(str(path), path.stat()) for path in files]
    versions = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
    return hashlib.sha256(repr(versions).encode()).hexdigest()
