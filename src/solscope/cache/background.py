"""Work for the cache on a thread of its own, while the answer is computed and printed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


@cache
def _worker() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    # One thread: what depends on an earlier piece of work finds it done. Python waits for it.
    return ThreadPoolExecutor(1, thread_name_prefix="solscope-cache")


_pending: list[Future[None]] = []


def submit(work: Callable[[], None]) -> None:
    """Do `work` soon; that it fails is no concern of whoever asked for the answer."""
    _pending[:] = [one for one in _pending if not one.done()]
    _pending.append(_worker().submit(_quietly, work))


def wait() -> None:
    """Return when all work is done."""
    for one in _pending:
        one.result()


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        if os.environ.get("SOLSCOPE_DEBUG"):
            raise
