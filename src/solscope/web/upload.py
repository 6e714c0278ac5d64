"""Profiles dropped onto the dashboard: bounded, named safely, kept only when they can be read."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from solscope.errors import LimitError, UsageError
from solscope.files import new_file
from solscope.readers import open as open_profile
from solscope.web.library import Library, ProfileEntry

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_NAME = 120


async def take_upload(
    library: Library, folder: Path, name: str, body: AsyncIterator[bytes], most_bytes: int
) -> ProfileEntry:
    """Write one upload into `folder` and show it; nothing stays of one that is no profile."""
    target = folder / safe_name(name)
    if target.exists():
        raise UsageError(f"{target.name} is here already: rename the file to upload it again")
    with new_file(target) as work:
        size = 0
        with work.open("xb") as file:
            async for piece in body:
                size += len(piece)
                if size > most_bytes:
                    raise LimitError(f"{target.name}: larger than {most_bytes:,} bytes")
                file.write(piece)
        await run_in_threadpool(open_profile, work)
    return await run_in_threadpool(library.add, target)


def safe_name(name: str) -> str:
    """A plain file name: no folders, nothing hidden, no odd characters."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).lstrip("._-")
    if not plain:
        raise UsageError("an upload needs a file name")
    return plain[-LONGEST_NAME:].lstrip("._-") or "profile"
