"""Answers that were made before: in memory, and in a folder of the user's across starts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from solscope.files import new_file

Value = TypeVar("Value")
MOST_FILES = 400
"""Answers that are kept on disk; beyond that the oldest go."""


class Kept(Generic[Value]):
    """The last values that were made, by key; each is made once, even when asked for twice."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[object, Value] = OrderedDict()
        self._making: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: object, make: Callable[[], Value]) -> Value:
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


class Shelf:
    """Answers as files, so that a dashboard that is started again has them at once.

    The key must hold everything that an answer depends on. A folder that cannot be used means only
    that nothing is kept.
    """

    def __init__(self, folder: Path | None, most: int = MOST_FILES) -> None:
        self._folder = folder
        self._most = most

    def get(self, key: object, make: Callable[[], bytes]) -> bytes:
        """The kept answer, or the one that `make` gives."""
        if self._folder is None:
            return make()
        place = self._folder / f"{hashlib.sha256(repr((key, code_stamp())).encode()).hexdigest()}"
        with contextlib.suppress(OSError):
            return place.read_bytes()
        value = make()
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with new_file(place) as work:
                work.write_bytes(value)
            self._forget()
        return value

    def _forget(self) -> None:
        assert self._folder is not None
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in files[: -self._most]:
            path.unlink(missing_ok=True)


def shelf_folder() -> Path:
    """Where answers are kept: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "solscope" / "answers"


@cache
def code_stamp() -> int:
    """Changes with every change of the program, which may change its answers."""
    package = Path(__file__).resolve().parents[1]
    files = (path for path in package.rglob("*") if path.suffix not in ("", ".pyc"))
    return max(path.stat().st_mtime_ns for path in files)
