"""Profiles dropped onto the dashboard: bounded, named safely, kept only when they can be read."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from solscope.errors import LimitError, SolscopeError, UsageError
from solscope.files import new_file
from solscope.web.background_thread import run_in_thread
from solscope.web.library import Library, ProfileEntry
from solscope.web.quota import Quota

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
MAX_NAME_LENGTH = 120
_UNFINISHED = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._-]*\.[a-z0-9_]{8}")
"""Names of the folders in which `new_file` writes."""
_TAKING: set[Path] = set()
"""Folder of unfinished uploads."""


class Uploaded(ProfileEntry, frozen=True):
    """A profile that was taken."""

    stored: bool
    """Whether it is new in the store; false when it was there, or was not to go there."""


class Body(NamedTuple):
    """What a client sends."""

    pieces: AsyncIterator[bytes]
    length: int = 0
    """As it says; 0 when it does not."""


class UploadLimits(NamedTuple):
    """How large one upload may be, and all together."""

    max_bytes: int
    quota: Quota

    def check(self, name: str, size: int) -> None:
        """`LimitError` for an upload of this size."""
        if size > self.max_bytes:
            raise LimitError(f"{name}: larger than {self.max_bytes:,} bytes")


@contextmanager
def uploading_to(folder: Path) -> Iterator[None]:
    """Remove what uploads left that a kill ended, and hold the folder while serving.

    Another server that takes uploads into the same folder holds it, too: then nothing is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
        else:
            for left in folder.glob(".*"):
                if left.is_dir() and _UNFINISHED.fullmatch(left.name):
                    shutil.rmtree(left, ignore_errors=True)
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)


async def take_upload(
    library: Library,
    folder: Path,
    name: str,
    body: Body,
    limits: UploadLimits,
    to_store: bool = False,
) -> Uploaded:
    """Write one upload into `folder` and show it; a file that is not a profile is removed.

    With `to_store` the profile store takes it as well.
    """
    target = folder / safe_name(name)
    limits.check(target.name, body.length)
    await run_in_thread(limits.quota.measure)
    with (
        limits.quota.reservation(body.length) as room,
        _only(target),
        new_file(target) as work,
    ):
        room.write_in(work.parent)
        size = 0
        with work.open("xb") as file:
            async for piece in body.pieces:
                size += len(piece)
                limits.check(target.name, size)
                room.require(size)
                file.write(piece)
        await run_in_thread(_check, work)
    entry = await run_in_thread(library.add, target)
    stored = to_store and await run_in_thread(_store, library, target)
    return Uploaded(**msgspec.structs.asdict(entry), stored=stored)


@contextmanager
def _only(target: Path) -> Iterator[None]:
    """Refuse a name that is taken, or that another upload is about to take."""
    if target in _TAKING or target.exists():
        raise UsageError(f"{target.name} already exists here; rename the file to upload it again")
    _TAKING.add(target)
    try:
        yield
    finally:
        _TAKING.discard(target)


def _check(work: Path) -> None:
    """Read it once; errors name the file, not its temporary path."""
    from solscope.readers import ReadOptions
    from solscope.readers import open as open_profile

    try:
        open_profile(work, options=ReadOptions(cache=False))
    except LimitError as error:
        raise LimitError(
            f"{work.name}: too large when decompressed; the upload was discarded"
        ) from error
    except SolscopeError as error:
        raise type(error)(str(error).replace(str(work), work.name)) from error


def _store(library: Library, path: Path) -> bool:
    from solscope.corpus.ingest.add import by_policy
    from solscope.corpus.ingest.extract import ExtractOptions, extract

    store = library.store
    options = by_policy(store.newest, ExtractOptions())
    added = store.newest.append([extract(str(path), options)])
    store.look_again()
    return bool(added)


def safe_name(name: str) -> str:
    """A plain file name: no folders, nothing hidden, no odd characters."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).lstrip("._-")
    if not plain:
        raise UsageError("an upload needs a file name")
    return plain[-MAX_NAME_LENGTH:].lstrip("._-") or "profile"
