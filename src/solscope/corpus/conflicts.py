"""Does the installed `deltalake` notice a lost race?

Delta Lake lets one of two writers win, and the other must be told that it lost. deltalake 1.6.6
does not tell it when both compact a table: both commit, and every row is there twice from then on.
A list of bad versions would miss the next one, so each version has to prove itself once before
anything is written with it: on a small table, pairs of commits start from one version, and the
second of each pair must be refused. That takes a tenth of a second; the answer is cached.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from solscope.cache.settings import settings
from solscope.errors import MissingToolError

WANTED = "deltalake>=1.3,!=1.6.6,<2"
"""The same as in `pyproject.toml`."""
RULES = 2
"""Changes with the checks below, so that an older answer does not count for new ones."""
_PASSED = b"ok\n"


def check_conflicts(delta: Any) -> None:
    """`MissingToolError` when two writers could both commit what only one of them may."""
    version = str(delta.__version__)
    if not _notices_conflicts(version):
        raise MissingToolError(
            f"deltalake {version} can double rows when two processes write to a store, so nothing "
            f"was written: pip install '{WANTED}'"
        )


@lru_cache(maxsize=4)
def _notices_conflicts(version: str) -> bool:
    """Whether every check passes; a version that passed before on this machine is trusted."""
    answer = _answer_file(version)
    if answer is not None:
        with suppress(OSError):
            if answer.read_bytes() == _PASSED:
                return True
    passed = all(_second_is_refused(change) for change in (_compact, _claim, _delete))
    if passed and answer is not None:
        with suppress(OSError):
            answer.parent.mkdir(parents=True, exist_ok=True)
            answer.write_bytes(_PASSED)
    return passed


def _answer_file(version: str) -> Path | None:
    cache = settings()
    name = f"deltalake-{version}-rules-{RULES}"
    return None if cache is None else cache.folder / "conflicts" / name


def _second_is_refused(change: Callable[[Any], object]) -> bool:
    """Make the same change to one version of a table twice; true when only one succeeds."""
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError

    with tempfile.TemporaryDirectory(prefix="solscope-") as folder:
        for value in (1, 2):
            write_deltalake(folder, pl.DataFrame({"value": [value]}), mode="append")
        first, second = DeltaTable(folder), DeltaTable(folder)
        change(first)
        try:
            change(second)
        except CommitFailedError:
            return True
    return False


def _compact(table: Any) -> None:
    """Replace files, as `corpus compact` does."""
    table.optimize.compact()


def _claim(table: Any) -> None:
    """Append under a number that only one commit may have, as `corpus add` does."""
    from deltalake import CommitProperties, Transaction, write_deltalake

    number = CommitProperties(app_transactions=[Transaction("solscope.check", 1)])
    write_deltalake(table, pl.DataFrame({"value": [3]}), mode="append", commit_properties=number)


def _delete(table: Any) -> None:
    """Remove rows, as `corpus remove` does."""
    table.delete("value = 1")
