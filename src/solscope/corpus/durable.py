"""Making sure that what was committed survives a power failure, on local file systems.

Delta Lake's writer leaves it to the operating system when bytes reach the disk. A commit counts
here once its data, its log entry and the folders that name them are on the disk. An object store
needs none of this: it answers only when an object is durable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

LOG = "_delta_log"


class _Line(msgspec.Struct):
    """What is read of one line of a log entry."""

    add: dict[str, Any] | None = None


def sync_file(path: Path) -> None:
    """Write a file or the names in a folder through to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_commits(table: Path, after: int) -> None:
    """Write through every commit of a table after a version, with the files that it adds."""
    version = after + 1
    entry = log_entry(table, version)
    while entry.exists():
        for file in _added(entry):
            with suppress(FileNotFoundError):  # A later commit has replaced it.
                sync_file(table / file)
        sync_file(entry)
        version += 1
        entry = log_entry(table, version)
    sync_file(table)
    sync_file(table / LOG)


def log_entry(table: Path, version: int) -> Path:
    """The file with one commit."""
    return table / LOG / f"{version:020}.json"


def _added(entry: Path) -> Iterable[str]:
    for text in entry.read_bytes().splitlines():
        line = msgspec.json.decode(text, type=_Line)
        if line.add is not None:
            yield unquote(str(line.add["path"]))
