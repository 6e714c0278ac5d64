"""What is in the cache, for `solscope cache` and `solscope doctor`."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import msgspec

from solscope.cache.listing import ANSWERS, owned, stored
from solscope.cache.removal import remove_all
from solscope.cache.settings import cache_folder, is_off, max_bytes, min_bytes, why_not
from solscope.errors import UsageError
from solscope.text import encodable


class CacheInfo(msgspec.Struct, frozen=True):
    """The cache as it is now."""

    folder: str | None
    """Where it lies; null when there is no place for it."""
    on: bool
    reason: str | None
    """Why nothing is cached; null when it is on."""
    entries: int
    """Read and attributed profiles, an entry for each, and the pages of reports."""
    bytes: int
    """Their size."""
    answers: int
    """Answers of the dashboard."""
    answer_bytes: int
    max_bytes: int
    """Entries are evicted beyond this size, the least recently used first."""
    min_bytes: int
    """Smaller files are not cached."""


class Cleared(msgspec.Struct, frozen=True):
    """What was removed from the cache."""

    folder: str | None
    entries: int
    answers: int
    bytes: int
    """Size of both."""


def cache_info() -> CacheInfo:
    """Look at the cache."""
    folder, reason = cache_folder(), _reason()
    entries = [] if folder is None else stored(folder)
    answers = [] if folder is None else _answer_sizes(folder / ANSWERS)
    return CacheInfo(
        folder=None if folder is None else encodable(str(folder)),
        on=reason is None,
        reason=reason,
        entries=len(entries),
        bytes=sum(entry.bytes for entry in entries),
        answers=len(answers),
        answer_bytes=sum(answers),
        max_bytes=max_bytes(),
        min_bytes=min_bytes(),
    )


def clear_cache() -> Cleared:
    """Remove all that is cached, and nothing else in the folder."""
    before = cache_info()
    folder = cache_folder()
    if folder is not None and folder.is_dir():
        reason = why_not(folder)
        if reason is not None:
            raise UsageError(f"the cache is not cleared: {encodable(reason)}")
        remove_all(folder)
    return Cleared(
        before.folder, before.entries, before.answers, before.bytes + before.answer_bytes
    )


def _reason() -> str | None:
    folder = cache_folder()
    if folder is None:
        if os.environ.get("SOLSCOPE_CACHE_DIR"):
            return "SOLSCOPE_CACHE_DIR names the home folder of a user who is not known here"
        return "no home folder is known; set SOLSCOPE_CACHE_DIR"
    if is_off():
        return "SOLSCOPE_NO_CACHE is set"
    reason = why_not(folder)
    return None if reason is None else encodable(reason)


def _answer_sizes(folder: Path) -> list[int]:
    sizes = []
    for path in owned(folder, ANSWERS):
        with contextlib.suppress(FileNotFoundError):  # Evicted since the folder was listed.
            status = path.lstat()
            sizes += [status.st_size] if stat.S_ISREG(status.st_mode) else []
    return sizes
