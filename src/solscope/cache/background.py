"""Work for the cache on a thread of its own, while the answer is computed and printed."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable

CHECK_EVERY_S = 0.2
"""How often a waiting thread looks for an interrupt, on systems where waiting blocks signals."""


class Worker:
    """One thread that runs work in order: work finds what it depends on done.

    The thread ends when there is no more work. It is a daemon thread, so an interrupt while Python
    waits for it ends the program; an entry that is half written is not used.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._work.append(work)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="solscope-cache", daemon=True
                )
                self._thread.start()

    def wait(self) -> None:
        thread = self._thread
        while thread is not None and thread.is_alive():
            thread.join(CHECK_EVERY_S)

    def abandon(self) -> None:
        with self._lock:
            self._work.clear()
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._work:
                    if self._thread is threading.current_thread():
                        self._thread = None
                    return
                work = self._work.popleft()
            _run_one(work)


_worker = Worker()


def submit(work: Callable[[], None]) -> None:
    """Run `work` soon. When it cannot write to the cache, the answer is not affected."""
    _worker.submit(work)


def wait() -> None:
    """Return when all work is done."""
    _worker.wait()


def abandon() -> None:
    """Wait for nothing from here on; what has not begun is not done."""
    _worker.abandon()


@atexit.register
def _wait_at_exit() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        wait()


def _run_one(work: Callable[[], None]) -> None:
    try:
        work()
    except (OSError, MemoryError):
        # The disk is full, a file is gone, or a table is too large to write: it is not cached.
        if os.environ.get("SOLSCOPE_DEBUG"):
            traceback.print_exc()
