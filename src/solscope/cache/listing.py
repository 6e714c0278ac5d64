"""The folders of the cache, and what lies in them; looking needs none of the large libraries."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ENTRIES, INDEX, WORK, ANSWERS = "profiles", "files", "work", "answers"
"""Entries, digests of files, what is being written or deleted, and answers of the dashboard."""
MANIFEST = "manifest"
"""File of an entry: the digest of the rest, a line break, and what the entry holds as JSON."""


class Entry(NamedTuple):
    """One entry, as the file system has it."""

    path: Path
    bytes: int
    used_s: float
    """Unix time at which it was last written or read."""


def stored(folder: Path) -> list[Entry]:
    """All entries of the cache in `folder`, the least recently used first."""
    found = [_entry(path) for path in inside(folder / ENTRIES)]
    return sorted((one for one in found if one is not None), key=lambda one: one.used_s)


def inside(folder: Path) -> list[Path]:
    """What lies in a folder; nothing when it cannot be listed."""
    try:
        return list(folder.iterdir())
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
