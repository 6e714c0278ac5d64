"""Garbage collections as ranges of a torch profile, which otherwise shows only a gap."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAME = "gc"


@contextmanager
def mark_collections() -> Iterator[None]:
    """Record each garbage collection of this process as a range called `gc`."""
    from torch.profiler import record_function

    running: list[Any] = []

    def mark(phase: str, _info: dict[str, int]) -> None:
        # Collections do not nest: one starts only when the last has stopped.
        if phase == "start":
            range_ = record_function(NAME)
            range_.__enter__()  # type: ignore[no-untyped-call]
            running.append(range_)
        elif running:
            running.pop().__exit__(None, None, None)

    gc.callbacks.append(mark)
    try:
        yield
    finally:
        gc.callbacks.remove(mark)
