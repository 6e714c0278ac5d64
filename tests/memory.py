"""A file system in memory, where there is one with room."""

from __future__ import annotations

import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Free memory in it from which on tests write there; a run leaves about 150 MB."""


def has_room() -> bool:
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
