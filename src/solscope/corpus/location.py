"""The location of a store, and what is known without loading the libraries that open it."""

from __future__ import annotations

import os
from pathlib import Path

_LOG = Path("profiles", "_delta_log")
"""The log of the table that is written last: with it, a batch is in the store."""


def normal(url: str | os.PathLike[str]) -> str:
    """One way to write the place of a store."""
    text = os.fspath(url).removeprefix("file://")
    return text.rstrip("/") or "/"


def is_url(address: str) -> bool:
    """Whether something is not in a local folder."""
    return "://" in address


def is_store(source: str) -> bool:
    """Whether a source is a profile store, a folder or a URL."""
    return is_url(source) or (Path(source) / _LOG).is_dir()


def changed_ns(url: str) -> int | None:
    """When a store in a folder was last written, as the folder says; null elsewhere."""
    try:
        return None if is_url(url) else (Path(url) / _LOG).stat().st_mtime_ns
    except OSError:
        return None
