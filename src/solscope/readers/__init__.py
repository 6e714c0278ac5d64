"""Readers of profile formats, and `open`, which chooses one by looking at the content."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import cast

from solscope import demo
from solscope.errors import InputError, UnknownFormatError
from solscope.profile import Profile, is_saved_profile, load_saved
from solscope.readers.base import Head, Reader, ReadOptions
from solscope.readers.source import read_head
from solscope.registry import Registry

READER_MODULES = {
    "kineto": "solscope.readers.kineto",
    "nsys_sqlite": "solscope.readers.nsys_sqlite",
    "nsys_report": "solscope.readers.nsys_report",
    "nsys_stats": "solscope.readers.nsys_stats",
    "rocprof": "solscope.readers.rocprof",
    "metrics": "solscope.readers.metrics",
}
"""One line per reader: its name and the module whose `READER` is the object."""


def readers() -> Registry[Reader]:
    """All readers, imported."""
    registry: Registry[Reader] = Registry("reader")
    for name, module in READER_MODULES.items():
        registry.register(name, cast("Reader", import_module(module).READER))
    return registry


def choose(head: Head) -> Reader:
    """The one reader that recognises the content."""
    matches = [reader for reader in readers() if reader.sniff(head)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(reader.name for reader in matches)
        raise UnknownFormatError(f"{head.path}: several readers claim this file ({names})")
    raise UnknownFormatError(
        f"{head.path}: not a profile that solscope knows ({_describe(head.data)}); "
        "it reads Kineto traces, nsys .sqlite and stats, rocprofv3 JSON and metrics CSV"
    )


def open(  # noqa: A001 - public as solscope.open, like gzip.open
    path: str | os.PathLike[str], *, options: ReadOptions | None = None
) -> Profile:
    """Open a profile of any known format, or a bundled one as `demo:NAME`.

    The metrics file that lies beside the profile (`X.metrics.csv`) is attached when there is one.
    """
    from solscope.readers.metrics import attach_metrics

    asked = os.fspath(path)
    path = Path(demo.resolve(asked))
    options = options or ReadOptions()
    if path.is_dir():
        if not is_saved_profile(path):
            raise InputError(f"{path} is a folder, not a profile; name one file in it")
        return replace(load_saved(path), path=str(path))
    profile = choose(read_head(path)).read(path, options)
    if asked.startswith(demo.PREFIX):
        return replace(profile, path=asked)
    return attach_metrics(profile, path)


def find_profiles(inputs: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Files behind files, folders, globs and `demo:NAME`s, in order and each once.

    A folder stands for the profiles directly in it (and in its `rank*` folders); files in it that
    are no profiles are passed over, and so are metrics files, which belong to the profile beside
    them.
    """
    found: dict[str, None] = {}
    for item in (os.fspath(given) for given in inputs):
        if item.startswith(demo.PREFIX) or (Path(item).is_dir() and is_saved_profile(Path(item))):
            found[item] = None
        elif Path(item).is_dir():
            found |= dict.fromkeys(_profiles_in(Path(item)))
        elif not Path(item).exists() and glob.has_magic(item):
            matches = sorted(path for path in glob.glob(item) if Path(path).is_file())  # noqa: PTH207
            if not matches:
                raise InputError(f"{item}: no file matches")
            found |= dict.fromkeys(path for path in matches if not _is_metrics(Path(path)))
        else:
            found[item] = None
    return list(found)


def _profiles_in(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    inner = [path for path in files if path.is_dir() and path.name.lower().startswith("rank")]
    files += sorted(path for sub in inner for path in sub.iterdir())
    found = [
        str(path)
        for path in files
        if (path.is_dir() and is_saved_profile(path))
        or (path.is_file() and not _is_metrics(path) and _is_profile(path))
    ]
    if not found:
        raise InputError(f"{folder}: no profile in this folder")
    return found


def _is_metrics(path: Path) -> bool:
    return path.name.endswith((".metrics.csv", ".metrics.parquet"))


def _is_profile(path: Path) -> bool:
    try:
        choose(read_head(path))
    except InputError:
        return False
    return True


def _describe(data: bytes) -> str:
    start = data.lstrip()[:1]
    if start in (b"{", b"["):
        return "JSON, but not a trace"
    if data[:4] == b"PAR1":
        return "a bare Parquet file; open the folder that Profile.save wrote"
    if b"\0" in data[:1024]:
        return "binary data of unknown kind"
    return "text without a kernel table"


__all__ = ["READER_MODULES", "ReadOptions", "Reader", "choose", "find_profiles", "open", "readers"]
