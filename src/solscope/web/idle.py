"""When nobody asks: the time for work that can wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

IDLE_AFTER_S = 0.25
"""Time without a request after which work may begin."""


class IdleMonitor:
    """Tracks the time of the last request."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._open = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """For the time of one request."""
        with self._lock:
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                self._last = time.monotonic()

    def wait(self, quiet_s: float = IDLE_AFTER_S) -> None:
        """Until no request has come for so long."""
        while True:
            with self._lock:
                left = quiet_s if self._open else self._last + quiet_s - time.monotonic()
            if left <= 0:
                return
            time.sleep(left)
