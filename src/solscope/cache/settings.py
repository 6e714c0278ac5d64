"""Where the cache lies, how large it may grow, and whether it is used at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import NamedTuple

from solscope.errors import UsageError

MAX_BYTES = 4 << 30
"""Size of the cache, unless `SOLSCOPE_CACHE_MAX_BYTES` gives another one."""
MIN_BYTES = 256 << 10
"""A smaller file is read and attributed in less than 0.1 s: not worth a folder on the disk."""
FOLDER = "solscope-cache-1"
"""All that is cached is below a folder of this name; SOLSCOPE_CACHE_DIR may hold other files.
The number changes with the layout."""
TAG = "CACHEDIR.TAG"
_TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of solscope. See https://bford.info/cachedir/
"""
OFF = ("", "0")
"""Values of SOLSCOPE_NO_CACHE that leave the cache on."""


class Settings(NamedTuple):
    """The cache as the environment describes it."""

    folder: Path
    max_bytes: int
    """Entries are evicted beyond this, the least recently used first."""
    min_bytes: int
    """Files smaller than this are not cached."""


def cache_folder() -> Path | None:
    """The folder for everything that solscope caches; null when the user has no home folder."""
    try:
        return _base_folder() / FOLDER
    except RuntimeError:  # Neither HOME nor the user database names a home folder.
        return None


def _base_folder() -> Path:
    chosen = os.environ.get("SOLSCOPE_CACHE_DIR")
    if chosen:
        # A shell expands `~`; a container file or a service file does not.
        return Path(chosen).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():  # The XDG specification: a relative path is invalid and is ignored.
        return base / "solscope"
    return Path.home().joinpath(*_PLATFORM_FOLDER, "solscope")


_PLATFORM_FOLDER = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)


def is_off() -> bool:
    """True when SOLSCOPE_NO_CACHE forbids the cache."""
    return os.environ.get("SOLSCOPE_NO_CACHE", "") not in OFF


def settings() -> Settings | None:
    """The cache to use; null when there is none to use, for whatever reason."""
    folder = cache_folder()
    if folder is None or is_off() or why_not(folder) is not None:
        return None
    return Settings(folder, max_bytes(), min_bytes())


def max_bytes() -> int:
    """The size that SOLSCOPE_CACHE_MAX_BYTES allows."""
    return _number("SOLSCOPE_CACHE_MAX_BYTES", MAX_BYTES)


def min_bytes() -> int:
    """Least size of a file that is cached."""
    return _number("SOLSCOPE_CACHE_MIN_BYTES", MIN_BYTES)


def why_not(folder: Path) -> str | None:
    """Why this folder cannot be the cache; null when it can, or when it can be made.

    Entries below a folder that others can write to could be anybody's.
    """
    return _why_not(folder.absolute().parent) or _why_not(folder.absolute())


def _why_not(folder: Path) -> str | None:
    place = folder
    while True:
        try:
            status = place.stat()
        except FileNotFoundError:
            place = place.parent
            continue
        except OSError as error:
            return f"{place}: {error.strerror or error}"
        break
    if not stat.S_ISDIR(status.st_mode):
        return f"{place} is not a folder"
    if place == folder:
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            return f"{place} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{place} can be written by other users"
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    return None


def make_private(folder: Path) -> None:
    """Make the folder of one part of the cache, which only the user can open.

    The cache is tagged as such for backup programs.
    """
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (folder.parent, folder):
        place.mkdir(mode=0o700, exist_ok=True)
    tag = folder.parent / TAG
    if folder.parent.name == FOLDER and not tag.exists():
        tag.write_text(_TAG_TEXT, encoding="ascii")


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{name}={text}: give a number of bytes")
    return int(text)
