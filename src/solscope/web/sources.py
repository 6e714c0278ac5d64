"""What the user named: which of it is a store, results or profiles, and whether it can be shown.

Telling a profile from another file takes the readers, and they take large libraries. What was found
is kept until a file changes, so that the next start needs neither.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from solscope import demo
from solscope.bench.results.files import is_results, results_in
from solscope.corpus.location import is_store
from solscope.demo import PREFIX
from solscope.errors import InputError
from solscope.web.answer_cache import DiskCache

_METRICS = ("csv", "parquet")
"""How files of samples end, as `NAME.metrics.csv`."""


_SAVED = "events.parquet"
"""In a folder that `Profile.save` wrote, which is one profile."""
MAX_FOLDERS = 2_000
"""Folders below one that are looked into."""


class Found(NamedTuple):
    """The profiles behind the sources."""

    paths: list[str]
    skipped: list[tuple[str, str]]
    """Files of a folder that are not profiles, with the reason."""


def check_sources(sources: Sequence[str], disk_cache: DiskCache) -> None:
    """Raise for a source that cannot be shown, at startup rather than on a page."""
    files = []
    for source in sources:
        path = Path(source)
        if source.startswith(PREFIX):
            if not is_results(demo.resolve(source)):
                demo.expand(source)
        elif path.is_file():
            files += [] if is_results(source) else [source]
        elif not (path.is_dir() or is_store(source) or glob.has_magic(source)):
            raise InputError(f"{source}: no such file or folder")
    if files:
        disk_cache.get(("known", *map(state, files)), lambda: _recognize(files))


def find_sources(sources: Sequence[str], disk_cache: DiskCache) -> Found:
    """The profiles behind files, folders, globs and demos."""
    if all(source.startswith(PREFIX) for source in sources):
        profiles = [source for source in sources if not is_results(demo.resolve(source))]
        return Found(
            list(dict.fromkeys(path for given in profiles for path in demo.expand(given))), []
        )
    key = ("found", *map(state, sources))
    paths, skipped = json.loads(disk_cache.get(key, lambda: _find(sources)))
    return Found(paths, [(path, why) for path, why in skipped])


def find_results(sources: Sequence[str]) -> list[str]:
    """Files of benchmark results among the sources, and in folders among them."""
    results: list[str] = []
    for source in map(demo.resolve, sources):
        if is_results(source):
            results.append(source)
        elif Path(source).is_dir() and not is_store(source):
            results += results_in(Path(source))
    return list(dict.fromkeys(results))


def folders_in(root: Path) -> list[Path]:
    """A folder and those below it, but for hidden ones, stores and saved profiles."""
    folders: list[Path] = []
    for place, names, _ in os.walk(root):
        folder = Path(place)
        if folders and (is_store(place) or (folder / _SAVED).is_file()):
            names.clear()
            continue
        folders.append(folder)
        names[:] = sorted(name for name in names if not name.startswith("."))
        if len(folders) >= MAX_FOLDERS:
            break
    return folders


def state(source: str) -> object:
    """Changes with everything on which it depends what a source stands for."""
    path = Path(source)
    if path.is_dir():
        within = [
            path_within
            for folder in folders_in(path)
            for path_within in (folder, *folder.glob("*"))
        ]
    elif path.exists() or not glob.has_magic(source):
        within = [path]
    else:
        within = [Path(name) for name in glob.glob(source)]  # noqa: PTH207
    return source, str(path.absolute()), sorted((str(file), stamp(file)) for file in within)


def held(source: str) -> object:
    """Changes when a folder holds other files than before, or a pattern matches others."""
    path = Path(source)
    if path.is_dir():
        return [(str(folder), stamp(folder)) for folder in folders_in(path)]
    return stamp(path) or sorted(glob.glob(source))  # noqa: PTH207


def read_from(profile: str) -> tuple[tuple[str, object], ...]:
    """All that a profile is read from, with stamps: its files, and its sensor samples."""
    path = Path(profile)
    pieces = path.name.split(".")
    stems = [".".join(pieces[:end]) for end in range(1, len(pieces))]
    beside = [path.with_name(f"{stem}.metrics.{end}") for stem in stems for end in _METRICS]
    within = sorted(path.glob("*")) if path.is_dir() else []
    return tuple((str(file), stamp(file)) for file in (path.absolute(), *within, *beside))


def stamp(path: str | Path) -> tuple[int, int, int] | None:
    """Changes when the file does, also when it is replaced by one of equal size and date.

    Null if it is not a file.
    """
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns)


def _recognize(files: Sequence[str]) -> bytes:
    from solscope.readers import choose
    from solscope.readers.source import read_head

    for file in files:
        choose(read_head(Path(file)))
    return b"all"


def _find(sources: Sequence[str]) -> bytes:
    from solscope.readers import find_profiles

    skipped: dict[str, str] = {}
    paths: dict[str, None] = {}
    for source in sources:
        path = Path(source)
        try:
            profiles = find_profiles([source], skipped.__setitem__)
        except InputError:
            profiles = _below(path, skipped)
            if not profiles and not find_results([source]):
                raise
        else:
            profiles = [*profiles, *_below(path, skipped)]
        paths |= dict.fromkeys(profiles)
    # Not msgspec: a name need not be valid UTF-8.
    return json.dumps([list(paths), list(skipped.items())]).encode()


def _below(path: Path, skipped: dict[str, str]) -> list[str]:
    """Profiles in the folders of a folder, however deep."""
    from solscope.profile import is_saved_profile
    from solscope.readers import find_profiles

    if not path.is_dir() or is_saved_profile(path):
        return []
    profiles: list[str] = []
    for folder in folders_in(path)[1:]:
        try:
            profiles += find_profiles([str(folder)], skipped.__setitem__)
        except InputError as error:
            if any(file.is_file() for file in folder.iterdir()):
                skipped[str(folder)] = str(error)
    inner = [file for folder in folders_in(path) for file in folder.iterdir() if file.is_dir()]
    return list(
        dict.fromkeys([*profiles, *(str(file) for file in inner if is_saved_profile(file))])
    )
