"""What a file holds, as a digest, without reading it again each time.

The digest of a file that was seen before is looked up by what the file system says of it: device,
inode, size, and the times of the last change. A file that is new here (copied, moved, touched) is
read for its digest only when a file of the same size with the same samples was seen before; else no
entry can exist, and the digest can wait until the answer is given.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from solscope.cache.digest import blake2b
from solscope.cache.settings import make_private
from solscope.files import new_file
from solscope.patterns import lazy_pattern

SAMPLE_BYTES = 64 << 10
"""Bytes at the start, the middle and the end of a file that are compared."""
BLOCK_BYTES = 1 << 20
"""Bytes that are hashed at a time."""
COARSE_NS = 2_000_000_000
"""A change this soon after another may keep its time, where a file system has whole seconds."""
FINE_NS = 50_000_000
"""The same where times are finer: the kernel's clock ticks at least every 10 ms."""
_DIGEST = lazy_pattern(r"[0-9a-f]{64}")


class FileState:
    """A file as it was when this was made."""

    def __init__(self, path: Path, index: Path) -> None:
        self._path = path
        self._index = index
        self._stat = path.stat()
        self._seen_ns = time.time_ns()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._stat.st_size

    def known_digest(self) -> str | None:
        """The digest of the content, when an entry for it may exist."""
        digest = _recall(self._index / self._by_stat())
        with contextlib.suppress(OSError):
            if digest is None and _recall(self._index / self._by_samples()) is not None:
                return self.digest()
        return digest

    def digest(self) -> str | None:
        """The digest of the content; null when the file may have changed since."""
        content = blake2b(digest_size=32)
        try:
            with self._path.open("rb", buffering=0) as file:
                while block := file.read(BLOCK_BYTES):
                    content.update(block)
        except OSError:
            return None
        if not self.is_unchanged():
            return None
        digest = content.hexdigest()
        with contextlib.suppress(OSError):
            make_private(self._index)
            for name in (self._by_stat(), self._by_samples()):
                with new_file(self._index / name) as work:
                    work.write_text(digest, encoding="ascii")
        return digest

    def is_unchanged(self) -> bool:
        """Whether the file is certainly still the one that this was made for.

        A digest that was looked up says what the file held then. What was read from the file after
        that may be cached under the digest only if this is true after reading.
        """
        changed_ns = max(self._stat.st_mtime_ns, self._stat.st_ctime_ns)
        coarse = self._stat.st_ctime_ns % 1_000_000_000 == 0
        if self._seen_ns - changed_ns < (COARSE_NS if coarse else FINE_NS):
            return False
        try:
            return _identity(self._path.stat()) == _identity(self._stat)
        except OSError:
            return False

    def _by_stat(self) -> str:
        return _name("stat", repr(_identity(self._stat)).encode())

    def _by_samples(self) -> str:
        size = self._stat.st_size
        parts = [str(size).encode()]
        with self._path.open("rb", buffering=0) as file:
            for start in (0, size // 2, max(0, size - SAMPLE_BYTES)):
                file.seek(start)
                parts.append(file.read(SAMPLE_BYTES))
        return _name("samples", b"".join(parts))


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _name(kind: str, about: bytes) -> str:
    return f"{kind}-{blake2b(about, digest_size=16).hexdigest()}"


def _recall(place: Path) -> str | None:
    try:
        text = place.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return text if _DIGEST.fullmatch(text) else None
