"""One compaction at a time, among the processes that see one folder.

At an object store there is no such lock. There, and where a file system ignores locks, the second
of two compactions is refused when it commits (`commits`): the lock only saves work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solscope.corpus.location import is_url

NAME = "compact.lock"


@contextmanager
def compaction_lock(url: str) -> Iterator[None]:
    """Hold the lock, after waiting for it. It ends with the process, however that ends."""
    if is_url(url) or sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(Path(url) / NAME, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
