"""From files, folders, globs and URLs to the files that a run adds.

A folder means all profiles in it, at any depth. Files in it that are not profiles are passed
over; whether one is is found out by the worker that opens it, so that a folder of a million files
does not wait for one process to look at each.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from solscope import demo
from solscope.corpus.ingest.describe import SIDECAR
from solscope.errors import InputError, MissingToolError
from solscope.profile import is_saved_profile

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
BESIDE = (SIDECAR, ".metrics.csv", ".metrics.parquet")
"""Suffixes of files that accompany a profile and are not profiles."""


class Item(NamedTuple):
    """One file of a run."""

    path: str
    named: bool
    """Named by the user, or matched by a glob: then it must be a profile."""


def find_items(inputs: Iterable[str | os.PathLike[str]]) -> list[Item]:
    """The files behind what a user names, in order, each once."""
    items: dict[str, Item] = {}
    for given in inputs:
        for item in _items(os.fspath(given)):
            earlier = items.get(item.path)
            if earlier is None or (item.named and not earlier.named):
                items[item.path] = item
    return list(items.values())


def _items(given: str) -> Iterator[Item]:
    path = Path(given)
    if given.startswith(demo.PREFIX):
        yield from (Item(name, True) for name in demo.expand(given))
    elif URL.match(given):
        yield from _in_bucket(given)
    elif path.is_dir() and not is_saved_profile(path):
        yield from _in_folder(path)
    elif not path.exists() and glob.has_magic(given):
        matches = sorted(glob.glob(given, recursive=True))  # noqa: PTH207
        files = [m for m in matches if _is_candidate(Path(m))]
        if not files:
            raise InputError(f"{given}: nothing matches")
        yield from (Item(name, True) for name in files)
    else:
        yield Item(given, True)


def _in_folder(folder: Path) -> Iterator[Item]:
    for folder_path, folders, files in os.walk(folder):
        base = Path(folder_path)
        saved = [name for name in folders if is_saved_profile(base / name)]
        yield from (Item(str(base / name), False) for name in sorted(saved))
        # Inside a saved profile or a table there are files, but no profiles.
        folders[:] = sorted(
            name
            for name in folders
            if name not in saved and not name.startswith(".") and not _is_table(base / name)
        )
        for name in sorted(files):
            if not name.startswith(".") and _is_candidate(base / name):
                yield Item(str(base / name), False)


def _is_candidate(path: Path) -> bool:
    if path.is_dir():
        return is_saved_profile(path)
    return path.is_file() and not path.name.endswith(BESIDE)


def _is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


def _in_bucket(url: str) -> Iterator[Item]:
    """Objects below a URL, through fsspec; a URL of one object is that object."""
    system, path = filesystem(url)
    if glob.has_magic(path):
        objects = [name for name in sorted(system.glob(path)) if not name.endswith(BESIDE)]
        named = True
    elif system.isdir(path):
        objects = [name for name in sorted(system.find(path)) if not name.endswith(BESIDE)]
        named = False
    else:
        objects, named = [path], True
    if not objects:
        raise InputError(f"{url}: nothing there")
    scheme = url.partition("://")[0]
    for name in objects:
        yield Item(f"{scheme}://{name.removeprefix(f'{scheme}://')}", named)


def filesystem(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise MissingToolError(
            "profiles at a URL need the package fsspec, and the one for the scheme "
            "(s3fs, gcsfs, adlfs): pip install fsspec s3fs"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise MissingToolError(f"{url}: {error}") from None
    return system, path
