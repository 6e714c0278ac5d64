"""Does the installed `deltalake` notice a lost race?

Delta Lake lets one of two writers win, and the other must be told that it lost. deltalake 1.6.6
does not tell it when both compact a table: both commit, and every row is there twice from then on.
A list of bad versions would miss the next one. So a version that is not among the measured ones has
to prove itself before a process writes: two compactions start from one version of a small table,
and the second must fail. That takes a tenth of a second; measured versions skip it.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from typing import Any

import polars as pl

from solscope.errors import MissingToolError

# fmt: off
MEASURED = frozenset({
    "1.3.0", "1.3.1", "1.3.2", "1.3.3", "1.4.0", "1.4.1", "1.4.2", "1.5.0", "1.5.1",
    "1.6.0", "1.6.1", "1.6.2", "1.6.3",
})
# fmt: on
"""Versions in which the second of two compactions fails, as it must; they need no check."""
WANTED = "deltalake>=1.3,!=1.6.6,<2"
"""The same as in `pyproject.toml`."""


def check_conflicts(delta: Any) -> None:
    """`MissingToolError` when two writers could both commit what only one of them may."""
    version = str(delta.__version__)
    if version not in MEASURED and not _notices_conflicts(version):
        raise MissingToolError(
            f"deltalake {version} can double rows when two processes write to a store, so nothing "
            f"was written: pip install '{WANTED}'"
        )


@lru_cache(maxsize=4)
def _notices_conflicts(version: str) -> bool:  # noqa: ARG001 - the key of the answer
    """Compact one version of a table twice; true when the second attempt is refused."""
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError

    with tempfile.TemporaryDirectory(prefix="solscope-") as folder:
        for value in (1, 2):
            write_deltalake(folder, pl.DataFrame({"value": [value]}), mode="append")
        first, second = DeltaTable(folder), DeltaTable(folder)
        first.optimize.compact()
        try:
            second.optimize.compact()
        except CommitFailedError:
            return True
    return False
