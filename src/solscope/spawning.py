"""Starting processes from any program, guarded or not.

A spawned process imports the main module of the one that started it. In a script without
`if __name__ == "__main__"` that runs the script again, which starts processes in turn until Python
gives up. Our processes need nothing of that module: what they run is imported by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_main() -> Iterator[None]:
    """Processes that are started in this context do not import the main module."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
