"""Removing parts of the cache: renamed away first, so that no process sees half of one."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from solscope.cache.listing import ANSWERS, ENTRIES, INDEX, WORK, WORK_PREFIX, owned
from solscope.cache.settings import TAG, make_private


@contextlib.contextmanager
def work_folder(cache: Path) -> Iterator[Path]:
    """A folder for what is being written or deleted, removed at the end."""
    make_private(cache / WORK)
    folder = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=cache / WORK))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove(cache: Path, path: Path) -> None:
    """Remove one file or folder of the cache; nothing happens when another process was faster."""
    with work_folder(cache) as work, contextlib.suppress(FileNotFoundError):
        path.rename(work / "old")


def remove_all(cache: Path) -> None:
    """Remove all that solscope wrote into its cache, and folders that are empty then."""
    for part in (ENTRIES, INDEX, ANSWERS):
        for path in owned(cache / part, part):
            remove(cache, path)
    for path in owned(cache / WORK, WORK):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        for part in (ENTRIES, INDEX, ANSWERS, WORK):
            if (cache / part).is_dir():
                (cache / part).rmdir()
        if [path.name for path in cache.iterdir()] == [TAG]:
            (cache / TAG).unlink()
            cache.rmdir()
