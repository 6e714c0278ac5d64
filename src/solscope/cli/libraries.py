"""Importing NumPy and Polars without what no command needs of them.

Half the time of a command on a small profile is the import of these two. Whoever imports them first
through this module starts sooner; nothing else changes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from solscope.late import functions_on_first_use, import_again, import_on_first_use

LATE = ("importlib.metadata", "json", "subprocess")
"""Modules of the standard library that Polars imports for cloud storage and Iceberg tables, and
uses only when it is asked for these. Together they take an eighth of its import."""
CONNECTORS = (
    "polars.catalog.unity",
    *("polars.io.clipboard", "polars.io.database", "polars.io.delta"),
    *("polars.io.external_reader.api", "polars.io.iceberg", "polars.io.lance"),
    "polars.io.spreadsheet",
)
"""Modules of Polars for catalogs, databases, spreadsheets and table formats, of which no command
uses one. Together they take a sixth of its import."""
DOCSTRINGS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
"""Modules of NumPy that only attach docstrings to what is written in C, which no command shows.
They take a tenth of its import."""
ALGEBRA = "numpy.linalg"
"""Linear algebra, a tenth of NumPy's import, which asks for four functions."""
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
            with functions_on_first_use((ALGEBRA,)):
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
        import_on_first_use(LATE)
        limit = "POLARS_MAX_THREADS"
        if not small or limit in os.environ:
            _import_polars()
            return
        os.environ[limit] = "1"
        try:
            _import_polars().thread_pool_size()  # which starts the threads
        finally:
            del os.environ[limit]


def _import_polars() -> ModuleType:
    try:
        with functions_on_first_use(CONNECTORS):
            return import_module("polars")
    except Exception:  # noqa: BLE001 - another release may ask them for more than functions
        return import_again("polars")
