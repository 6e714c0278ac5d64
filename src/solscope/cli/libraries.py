"""Importing NumPy and Polars without what no command needs of them.

Half the time of a command on a small profile is the import of these two. Whoever imports them first
through this module starts sooner; nothing else changes.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

LATE = ("importlib.metadata", "json", "subprocess")
"""Modules of the standard library that Polars imports for cloud storage and Iceberg tables, and
uses only when it is asked for these. Together they take an eighth of its import."""
DOCSTRINGS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
"""Modules of NumPy that only attach docstrings to what is written in C, which no command shows.
They take a tenth of its import."""

TYPES = "numpy._typing"
"""Names for type checkers, a sixth of NumPy's import, which asks for one of them."""


class _Types(ModuleType):
    """Stands for `TYPES` while NumPy is imported: each of its names can be subscripted."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return list


def import_numpy() -> None:
    """Import NumPy without docstrings, and without the threads of its linear algebra.

    It would start one per core, and nothing uses them. Processes that are started later get theirs.
    """
    limit = "OPENBLAS_NUM_THREADS"
    if "numpy" not in sys.modules and limit not in os.environ:
        os.environ[limit] = "1"
        empty = {name: ModuleType(name) for name in DOCSTRINGS if name not in sys.modules}
        if TYPES not in sys.modules:
            empty[TYPES] = _Types(TYPES)
        sys.modules.update(empty)
        try:
            import_module("numpy")
        finally:
            del os.environ[limit]
            for name in empty:
                sys.modules.pop(name, None)


def import_polars(*, small: bool = False) -> None:
    """Import Polars; modules of `LATE` that nobody has imported yet are imported on first use.

    With `small` it gets one thread instead of one per core: on small tables, to wake the others
    takes longer than what they do. Processes that are started later get theirs.
    """
    if "polars" not in sys.modules:
        for name in LATE:
            if name not in sys.modules:
                _import_on_first_use(name)
        limit = "POLARS_MAX_THREADS"
        if not small or limit in os.environ:
            import_module("polars")
            return
        os.environ[limit] = "1"
        try:
            import_module("polars").thread_pool_size()  # which starts the threads
        finally:
            del os.environ[limit]


class _Late(ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_load(self), name)


_lock = threading.RLock()


def _import_on_first_use(name: str) -> None:
    late = sys.modules[name] = _Late(name)
    package, _, child = name.rpartition(".")
    if package:
        # As an import would; whoever asks the package for the module must find it.
        setattr(import_module(package), child, late)


def _load(late: _Late) -> ModuleType:
    """The module itself, which takes the place of what stood for it."""
    with _lock:
        if sys.modules.get(late.__name__) is late:
            del sys.modules[late.__name__]
        return import_module(late.__name__)
