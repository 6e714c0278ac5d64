"""Ending a command from outside."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_as_by_hand() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that no worker is left behind."""
    here = threading.current_thread() is threading.main_thread()
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if here]
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
