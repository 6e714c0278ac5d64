"""How many cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use; all of them where the system cannot say (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
