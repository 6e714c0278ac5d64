"""Removing parts of the cache: renamed away first, so that no process sees half of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from solscope.cache.listing import ANSWERS, ENTRIES, INDEX, WORK, WORK_PREFIX, owned
from solscope.cache.settings import TAG, make_private

MAX_ATTEMPTS = 10
"""How often to start again when another process clears the cache at the same time."""


@contextlib.contextmanager
def work_folder(cache: Path) -> Iterator[Path]:
    """A folder for what is being written or deleted, removed at the end."""
    folder = _make_work_folder(cache)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_work_folder(cache: Path) -> Path:
    for attempt in range(MAX_ATTEMPTS):
        try:
            make_private(cache / WORK)
            return Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=cache / WORK))
        except FileNotFoundError:
            # `cache clear` in another process deletes empty folders: also one that was just made.
            if attempt == MAX_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def remove(cache: Path, path: Path) -> None:
    """Remove one file or folder of the cache; nothing happens when another process was faster."""
    for _ in range(MAX_ATTEMPTS):
        try:
            with work_folder(cache) as work:
                path.rename(work / "old")
                return
        except FileNotFoundError:
            # Either the entry is gone, or `cache clear` in another process took the work folder.
            if not os.path.lexists(path):
                return
    # Readers check digests, so an entry that is deleted in place is at worst a miss for them.
    _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_all(cache: Path) -> None:
    """Remove all that solscope wrote into its cache, and folders that are empty then."""
    for kind in (ENTRIES, INDEX, ANSWERS):
        for path in owned(cache / kind, kind):
            remove(cache, path)
    for path in owned(cache / WORK, WORK):
        shutil.rmtree(path, ignore_errors=True)
    for kind in (ENTRIES, INDEX, ANSWERS, WORK):
        # Not empty, or already removed by another process: both are fine.
        with contextlib.suppress(OSError):
            (cache / kind).rmdir()
    with contextlib.suppress(OSError):
        if [path.name for path in cache.iterdir()] == [TAG]:
            (cache / TAG).unlink()
            cache.rmdir()
