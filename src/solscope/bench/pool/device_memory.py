"""Memory of the device on the evaluator's side: waiting for it, and giving it back."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

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
        self._total = self._left = total
        self._changed = threading.Condition()

    @property
    def is_shared(self) -> bool:
        """Whether one who runs out of memory may have lacked what others had."""
        return math.isfinite(self._total)

    def of(self, size: float) -> AbstractContextManager[None]:
        """Wait until a shape that moves `size` bytes has room for copies and references."""
        return self._take(min(MEMORY_PER_MOVED_BYTE * size, self._total))

    def all(self) -> AbstractContextManager[None]:
        """Wait until nobody else has any; where there is enough for all, this is one of them."""
        return self._take(self._total) if self.is_shared else nullcontext()

    @contextmanager
    def _take(self, need: float) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._left >= need)
            self._left -= need
        try:
            yield
        finally:
            with self._changed:
                self._left += need
                self._changed.notify_all()
