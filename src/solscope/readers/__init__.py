"""Readers of profile formats, and `open`, which chooses one by looking at the content."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from solscope.errors import UnknownFormatError
from solscope.readers.base import EarlyReader, Head, Reader, ReadOptions
from solscope.readers.find import Skipped, find
from solscope.readers.offered import Guarded, Offered, offered, recognizing
from solscope.readers.opening import Opening
from solscope.registry import Registry

if TYPE_CHECKING:
    from solscope.profile import Profile

READER_MODULES = {
    "kineto": "solscope.readers.kineto",
    "nsys_sqlite": "solscope.readers.nsys_sqlite",
    "nsys_report": "solscope.readers.nsys_report",
    "nsys_stats": "solscope.readers.nsys_stats",
    "rocprof": "solscope.readers.rocprof",
    "metrics": "solscope.readers.metrics",
    "behavior_csv": "solscope.readers.behavior_csv",
    "observations": "solscope.readers.observations",
}
"""One line per reader: its name and the module whose `READER` is the object."""
JSON_READERS = {
    "kineto": b"",
    "rocprof": b'"rocprofiler-sdk-tool"',
    "observations": b'"solscope_observations"',
}
"""Readers of text that begins like JSON, and what the head of their files must contain. For such a
file no other reader needs to be imported."""
EARLY_READER = "kineto"
"""The reader that can begin before the data libraries are imported."""


@cache
def readers() -> Registry[Reader]:
    """All readers, imported: ours, then those that other packages offer as entry points."""
    registry: Registry[Reader] = Registry("reader")
    for reader in (*map(_own_reader, READER_MODULES), *other_readers().readers):
        registry.register(reader.name, reader)
    return registry


@cache
def _own_reader(name: str) -> Reader:
    return cast("Reader", import_module(READER_MODULES[name]).READER)


def other_readers() -> Offered:
    """Readers that other packages offer, and those of them that cannot be loaded."""
    return offered(tuple(READER_MODULES))


def choose(head: Head) -> Reader:
    """The one reader that recognizes the content; built-in readers are tried first.

    A reader whose `sniff` raises is left out and named in the warnings of the profile.
    """
    marked = [name for name, mark in JSON_READERS.items() if mark in head.data]
    names = marked if head.is_json else READER_MODULES
    matches, failed = recognizing(map(_own_reader, names), head)
    if len(matches) == 1 and not failed:
        return matches[0]
    if not matches:
        others = other_readers()
        matches, raised = recognizing(others.readers, head)
        failed += [*others.failed, *raised]
    if len(matches) == 1:
        return Guarded(matches[0], tuple(failed))
    if matches:
        claims = ", ".join(reader.name for reader in matches)
        raise UnknownFormatError(f"{head.path}: several readers claim this file ({claims})")
    raise UnknownFormatError(
        f"{head.path}: unknown profile format ({_describe(head.data)}); readers: "
        + ", ".join((*READER_MODULES, *(reader.name for reader in other_readers().readers)))
        + "; `solscope doctor` says what each reads"
        + "".join(f"; {failure}" for failure in failed)
    )


def open(  # noqa: A001 - public as solscope.open, like gzip.open
    path: str | os.PathLike[str], *, options: ReadOptions | None = None
) -> Profile:
    """Open a profile of any known format, or a bundled one as `demo:NAME`.

    A metrics file next to the profile (`X.metrics.csv`) is loaded with it.
    A large file that was read before comes from the cache, unless `options` forbid it.
    """
    return opening(path, options).profile()


def opening(path: str | os.PathLike[str], options: ReadOptions | None = None) -> Opening:
    """A profile that is about to be opened, for callers that also cache what they make of it."""
    return Opening(os.fspath(path), options or ReadOptions(), choose, _early)


def _early(head: Head) -> EarlyReader | None:
    """A reader that can begin at once, and that `choose` would probably choose."""
    reader = cast("EarlyReader", _own_reader(EARLY_READER))
    return reader if head.is_json and reader.sniff(head) else None


def find_profiles(
    inputs: Iterable[str | os.PathLike[str]], skipped: Skipped | None = None
) -> list[str]:
    """Profiles behind files, folders, globs and `demo:NAME`s; see `readers/find.py`."""
    return find(inputs, choose, skipped)


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
