"""Which files of a store were found in order before, so that `verify` need not read them again.

Data files never change under one name. A file counts as checked while its size and modification
time are the same and `profiles` says the same about its profiles. The record lies in the cache of
this machine; without a cache every check reads everything.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from solscope.cache.settings import settings
from solscope.corpus.location import is_url

Checked = dict[str, str]
"""Address of a file, and the digest of what it was checked against."""


class CheckedFiles:
    """The record of one store."""

    def __init__(self, url: str, identity: str) -> None:
        cache = settings()
        place = url if is_url(url) else str(Path(url).absolute())
        name = hashlib.sha256(f"{place}\0{identity}".encode()).hexdigest()[:32]
        self.path = None if cache is None else cache.folder / "verified" / f"{name}.json"
        self.known: Checked = {}
        self.now: Checked = {}

    def load(self) -> None:
        """Read what earlier checks found in order."""
        if self.path is not None:
            with suppress(OSError, msgspec.MsgspecError):
                self.known = msgspec.json.decode(self.path.read_bytes(), type=Checked)

    def holds(self, file: str, digest: str) -> bool:
        """Whether an earlier check found this file in order, against the same figures."""
        return self.known.get(file) == f"{_state(file)}:{digest}"

    def passed(self, file: str, digest: str) -> None:
        """Note that a file is in order."""
        self.now[file] = f"{_state(file)}:{digest}"

    def save(self) -> None:
        """Replace the record; one that cannot be written only costs time later."""
        if self.path is None:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self.path.with_suffix(".part")
            unfinished.write_bytes(msgspec.json.encode(self.now))
            unfinished.replace(self.path)


def _state(file: str) -> str:
    if is_url(file):
        return ""
    with suppress(OSError):
        status = Path(file).stat()
        return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
    return "missing"
