"""Memory of the device on the evaluator's side: waiting for it, and giving it back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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

    @contextmanager
    def of(self, size: float) -> Iterator[None]:
        """Wait until a shape that moves `size` bytes has room for copies and references."""
        need = min(MEMORY_PER_MOVED_BYTE * size, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= need)
            self._left -= need
        try:
            yield
        finally:
            with self._changed:
                self._left += need
                self._changed.notify_all()
