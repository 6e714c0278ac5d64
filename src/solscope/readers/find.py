"""From what a user names (files, folders, globs, demos) to the profiles behind it."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from solscope import demo
from solscope.errors import InputError, UnknownFormatError
from solscope.patterns import lazy_pattern
from solscope.readers.base import Head
from solscope.readers.source import read_head

Skipped = Callable[[str, str], None]
"""Called with a file that was passed over although it seems to be a profile, and why."""
_TRACE_NAME = lazy_pattern(
    r"(?P<stem>.+?)(?:\.pt)?(?:\.trace)?\.(?:json|sqlite|nsys-rep)(?:\.(?:gz|zst))?", re.IGNORECASE
)


def find(
    inputs: Iterable[str | os.PathLike[str]],
    recognizes: Callable[[Head], object],
    skipped: Skipped | None = None,
) -> list[str]:
    """Profiles behind files, folders, globs and `demo:NAME`s, in order and each once.

    A folder means the profiles directly in it (and in its `rank*` folders). Other files in it are
    skipped, and so are metrics files, which are loaded with their profile. `recognizes` raises for
    content that no reader recognizes.
    """
    paths: dict[str, None] = {}
    for item in (os.fspath(given) for given in inputs):
        path = Path(item)
        if item.startswith(demo.PREFIX):
            paths |= dict.fromkeys(demo.expand(item))
        elif _is_saved(path):
            paths[item] = None
        elif path.is_dir():
            paths |= dict.fromkeys(_in_folder(path, recognizes, skipped))
        elif not path.exists() and glob.has_magic(item):
            paths |= dict.fromkeys(_in_glob(item))
        else:
            paths[item] = None
    return list(paths)


def metrics_beside(path: Path) -> Path | None:
    """The metrics file that belongs to the profile at `path`, when there is one."""
    match = _TRACE_NAME.fullmatch(path.name)
    if match is None:
        return None
    names = (f"{match['stem']}.metrics.{suffix}" for suffix in ("csv", "parquet"))
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)


def _in_glob(pattern: str) -> list[str]:
    matches = [Path(path) for path in sorted(glob.glob(pattern))]  # noqa: PTH207
    paths = [
        str(path)
        for path in matches
        if _is_saved(path) or (path.is_file() and not _is_metrics(path))
    ]
    if not paths:
        raise InputError(f"{pattern}: no profile matches")
    return paths


def _in_folder(
    folder: Path, recognizes: Callable[[Head], object], skipped: Skipped | None
) -> list[str]:
    entries = _visible(folder)
    for path in [path for path in entries if path.name.lower().startswith("rank")]:
        if path.is_dir() and not _is_saved(path):
            entries += _visible(path)
    paths, lost = [], {}
    for path in entries:
        if path.is_dir():
            paths += [str(path)] if _is_saved(path) else []
        elif path.is_file() and not _is_metrics(path):
            try:
                recognizes(read_head(path))
            except UnknownFormatError:
                continue
            except InputError as error:
                lost[str(path)] = str(error)
            else:
                paths.append(str(path))
    if not paths:
        raise InputError(f"{folder}: no profile in this folder{_hint(entries, lost)}")
    if skipped is not None:
        for name, reason in lost.items():
            skipped(name, reason)
    return paths


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _hint(entries: list[Path], lost: dict[str, str]) -> str:
    """What else a folder without profiles holds."""
    if lost:
        return f" ({next(iter(lost.values()))})"
    below = [path.name for path in entries if path.is_dir()]
    return f"; it has folders, name one of them: {', '.join(below[:8])}" if below else ""


def _is_metrics(path: Path) -> bool:
    return path.name.endswith(
        (".metrics.csv", ".metrics.parquet", "counters_data.csv", ".counters.csv")
    )


def _is_saved(path: Path) -> bool:
    if not path.is_dir():
        return False
    from solscope.profile import is_saved_profile  # imports the data libraries

    return is_saved_profile(path)
