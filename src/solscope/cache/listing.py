"""The folders of the cache, and what lies in them; looking needs none of the large libraries."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from solscope.patterns import lazy_pattern

ENTRIES, INDEX, WORK, ANSWERS = "profiles", "files", "work", "answers"
"""Entries, digests of files, what is being written or deleted, and answers of the dashboard."""
MANIFEST = "manifest"
"""File of an entry: the digest of the rest, a line break, and what the entry holds as JSON."""
WORK_PREFIX = "entry-"
_DIGEST = r"(?:stat|samples)-[0-9a-f]{32}"
_OWNED = {
    ENTRIES: lazy_pattern(r"[0-9a-f]{40}"),
    # A name with a dot in front is what `new_file` had not finished.
    INDEX: lazy_pattern(rf"{_DIGEST}|\.{_DIGEST}\.\w+"),
    WORK: lazy_pattern(rf"{WORK_PREFIX}\w+"),
    ANSWERS: lazy_pattern(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.\w+"),
}


class Entry(NamedTuple):
    """One entry, as the file system has it."""

    path: Path
    bytes: int
    used_s: float
    """Unix time at which it was last written or read."""


def stored(cache: Path) -> list[Entry]:
    """All entries of a cache, the least recently used first."""
    entries = [_entry(path) for path in owned(cache / ENTRIES, ENTRIES)]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.used_s)


def owned(folder: Path, kind: str) -> list[Path]:
    """What solscope itself wrote into the folder of one part of the cache.

    Only this may be deleted: whatever has another name is not ours. Empty when the folder cannot be
    listed.
    """
    try:
        return [path for path in folder.iterdir() if _OWNED[kind].fullmatch(path.name)]
    except OSError:
        return []


def _entry(path: Path) -> Entry | None:
    try:
        sizes = [file.stat().st_size for file in path.iterdir()]
        return Entry(path, sum(sizes), (path / MANIFEST).stat().st_mtime)
    except FileNotFoundError:
        # Without a manifest it is of no use; as the oldest it goes first.
        return Entry(path, 0, 0.0) if path.exists() else None
    except OSError:
        return None
