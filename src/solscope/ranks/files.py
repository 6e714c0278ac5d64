"""Which files make up a run: one for each rank.

A copy of a rank, or another recording of it, must not keep a run from being read: it is left out,
and that is said. Of two recordings of a rank the one stays whose name is like those of other ranks.
Where neither is, or where several ranks have two recordings, they are not one run.
"""

from __future__ import annotations

import filecmp
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from solscope.errors import SolscopeError
from solscope.profile import is_saved_profile
from solscope.ranks.find import name_without_rank, natural, run_files, stated_rank
from solscope.readers import find_profiles


class LeftOut(NamedTuple):
    """A file that is not read, and why."""

    path: str
    reason: str
    instead: str | None
    """The file of the same rank that is read, with other content; null for a copy."""


class RunFiles(NamedTuple):
    """The files of a run, each rank once."""

    paths: list[str]
    left_out: list[LeftOut]


def is_run(item: str | os.PathLike[str]) -> bool:
    """Whether an argument stands for the ranks of one run: several files, each with its own rank.

    A folder or glob of profiles without ranks, or with several recordings of more than one rank, is
    just several profiles.
    """
    name = os.fspath(item)
    if Path(name).is_file() or is_saved_profile(Path(name)):
        return False
    try:
        paths = run_files([name]) if Path(name).is_dir() else find_profiles([name])
        numbers = [stated_rank(path) for path in paths]
    except SolscopeError:
        return False
    return len(numbers) > 1 and None not in numbers and one_per_rank(paths, numbers) is not None


def one_per_rank(paths: Sequence[str], ranks: Sequence[int | None]) -> RunFiles | None:
    """Choose one file for each rank; files without a rank stay.

    Null where that gives no run, or would be a guess.
    """
    names = Counter(name_without_rank(path) for path in paths)
    first: dict[int, str] = {}
    order = sorted(paths, key=lambda p: (-names[name_without_rank(p)], natural(Path(p).name), p))
    stated = dict(zip(paths, ranks, strict=True))
    again: list[tuple[str, int]] = []
    for path in order:
        rank = stated[path]
        if rank is not None and first.setdefault(rank, path) != path:
            again.append((path, rank))
    if not again:
        return RunFiles(list(paths), [])
    same = {path: _same_content(path, first[rank]) for path, rank in again}
    different = [(path, rank) for path, rank in again if not same[path]]
    guessed = [path for path, rank in different if not _more_alike(names, first[rank], path)]
    if guessed or len({rank for _, rank in different}) > 1 or len(first) < 2:
        return None
    dropped = {path for path, _ in again}
    left_out = [
        LeftOut(
            path,
            _reason(path, first[rank], rank, same[path]),
            None if same[path] else first[rank],
        )
        for path, rank in again
    ]
    return RunFiles([path for path in paths if path not in dropped], left_out)


def _same_content(path: str, other: str) -> bool:
    both_files = Path(path).is_file() and Path(other).is_file()
    return both_files and filecmp.cmp(path, other, shallow=False)


def _more_alike(names: Counter[str], path: str, other: str) -> bool:
    """Whether more files are named like `path` than like `other`."""
    return names[name_without_rank(path)] > names[name_without_rank(other)]


def _reason(path: str, chosen: str, rank: int, same: bool) -> str:
    name = Path(chosen).name if Path(chosen).name != Path(path).name else chosen
    if same:
        return f"rank {rank} twice: same content as {name}"
    return f"rank {rank} twice: {name} has other content, and a name like those of other ranks"
