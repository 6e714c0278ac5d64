"""Readers that other packages offer, used so that a bad one harms no other file.

A package registers a reader object as an entry point of the group `solscope.readers`. A reader
that cannot be loaded, or whose `sniff` raises, is left out and named: in the warnings of the
profile that was opened nevertheless, or in the error if no reader recognizes the file. `solscope
doctor` lists those that cannot be loaded. An exception from `read` becomes one line with the name
of the reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from solscope.errors import InputError, SolscopeError
from solscope.readers.base import Head, Reader, ReadOptions

if TYPE_CHECKING:
    from solscope.profile import Profile

ENTRY_POINTS = "solscope.readers"
"""Group of entry points under which another package registers a reader object."""


class Failure(NamedTuple):
    """A reader that was left out, and why."""

    reader: str
    reason: str

    def __str__(self) -> str:
        return f"reader {self.reader!r} was left out: {self.reason}"


class Offered(NamedTuple):
    """Readers of other packages."""

    readers: tuple[Reader, ...]
    failed: tuple[Failure, ...]


@cache
def offered(taken: tuple[str, ...]) -> Offered:
    """All that can be loaded; `taken` are names that a reader of another package cannot have."""
    # Importing `importlib.metadata` and searching all installed packages takes tens of ms.
    from importlib.metadata import entry_points

    readers: dict[str, Reader] = {}
    failed = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            reader = _checked(point.load())
        except Exception as error:  # noqa: BLE001 - code of another package raises anything
            failed.append(Failure(point.name, _reason(error)))
            continue
        if reader.name in (*taken, *readers):
            failed.append(Failure(point.name, f"the name {reader.name!r} is taken"))
        else:
            readers[reader.name] = reader
    return Offered(tuple(readers.values()), tuple(failed))


def _checked(loaded: object) -> Reader:
    for name in ("name", "summary"):
        if not isinstance(getattr(loaded, name, None), str):
            raise TypeError(f"it has no {name}")
    for name in ("sniff", "read"):
        if not callable(getattr(loaded, name, None)):
            raise TypeError(f"it has no method {name}")
    return cast("Reader", loaded)


def recognizing(readers: Iterable[Reader], head: Head) -> tuple[list[Reader], list[Failure]]:
    """The readers that recognize a file, and those whose `sniff` raised."""
    matches, failed = [], []
    for reader in readers:
        try:
            if reader.sniff(head):
                matches.append(reader)
        except Exception as error:  # noqa: BLE001 - one reader must not stop the others
            failed.append(Failure(reader.name, _reason(error)))
    return matches, failed


class Guarded:
    """A reader whose exceptions become one line, and the readers left out before it was chosen."""

    def __init__(self, reader: Reader, failed: tuple[Failure, ...]) -> None:
        self.name = reader.name
        self.summary = reader.summary
        self._reader = reader
        self._failed = failed

    def sniff(self, head: Head) -> bool:
        """As the reader says."""
        return self._reader.sniff(head)

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """What the reader returns, with a warning for each reader that was left out."""
        from solscope.profile import Profile, ProfileWarning

        try:
            # What it returns is checked: a plug-in need not be type-checked.
            profile: object = self._reader.read(path, options)
        except SolscopeError:
            raise
        except Exception as error:
            raise InputError(f"{path}: reader {self.name!r} failed: {_reason(error)}") from error
        if not isinstance(profile, Profile):
            kind = type(profile).__name__
            raise InputError(f"{path}: reader {self.name!r} returned {kind}, not a Profile")
        named = tuple(ProfileWarning("reader_failed", str(failure)) for failure in self._failed)
        return replace(profile, warnings=(*profile.warnings, *named))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
