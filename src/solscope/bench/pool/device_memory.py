"""Memory of the device on the evaluator's side: waiting for it, and giving it back."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

CACHED_BYTES = 24 << 30
"""Memory that the evaluator may hold for later tensors."""
MEMORY_PER_MOVED_BYTE = 7.0
"""Memory that a shape takes, in bytes that the operator must move."""


def release(device: str, keep: int = CACHED_BYTES) -> None:
    """Give device memory back that no tensor uses, when it is much: that stops everything."""
    import torch

    if device != "cpu" and torch.cuda.memory_reserved() > keep:
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def is_short(device: str, size: float) -> bool:
    """Whether a shape that moves `size` bytes may run out of memory now."""
    import torch

    return device != "cpu" and torch.cuda.mem_get_info()[0] < MEMORY_PER_MOVED_BYTE * size


class MemoryBudget:
    """Memory of the device, handed out to operators that are checked at the same time."""

    def __init__(self, total: float) -> None:
        self.is_shared = math.isfinite(total)
        """Whether one who runs out of memory may have lacked what others had."""
        self._total = math.floor(total) if self.is_shared else total
        self._taken = 0
        self._claims = 0
        """Who waits for all of it, or has it."""
        self._changed = threading.Condition()

    def of(self, size: float) -> AbstractContextManager[None]:
        """Wait until a shape that moves `size` bytes has room for copies and references."""
        need = math.ceil(min(MEMORY_PER_MOVED_BYTE * size, self._total))
        return self._take(need, lambda: not self._claims and self._taken + need <= self._total)

    @contextmanager
    def all(self) -> Iterator[None]:
        """Wait until nobody else has any; who comes later waits."""
        self._claim(1)
        try:
            with self._take(1, lambda: not self._taken):
                yield
        finally:
            self._claim(-1)

    def _claim(self, more: int) -> None:
        with self._changed:
            self._claims += more
            self._changed.notify_all()

    @contextmanager
    def _take(self, need: int, may: Callable[[], bool]) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(may)
            self._taken += need
        try:
            yield
        finally:
            with self._changed:
                self._taken -= need
                self._changed.notify_all()
