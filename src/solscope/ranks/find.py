"""Which files are the ranks of a run, and which rank each one is.

torch records the rank in the header of a trace. Where it does not, names tell: `rank3`, `rank-3`,
`TP-3` of SGLang, `dp0_pp0_tp3_dcp0_ep3_rank3` of vLLM, folders `rank3/`. Where names have several
numbers and none is the rank (`TP-1-DP-0`), and where they have only processes and times
(`host_4711.1700000000.pt.trace.json`), ranks are counted in the order of the names, and that is
said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from solscope.errors import InputError, UnknownFormatError
from solscope.profile import is_saved_profile
from solscope.readers import choose, find_profiles
from solscope.readers.find import Skipped
from solscope.readers.source import read_head

MAX_DEPTH = 4
"""Folders below the one that is named that are looked into."""
_PARALLELISM = re.compile(r"(?:^|[-_./\\])(PP|DP|TP|CP|EP)[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_RANK = re.compile(r"(?:^|[-_./\\])rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_HOST = re.compile(r"^(?P<host>[\w.-]+?)_\d+\.\d{10,}\.pt\.trace\.")
_TIME = re.compile(r"\d{10,}(?:\.\d+)?")


def run_files(
    inputs: Iterable[str | os.PathLike[str]], skipped: Skipped | None = None
) -> list[str]:
    """The profiles behind files, folders and globs; folders are searched to some depth."""
    files: dict[str, None] = {}
    for given in inputs:
        item = os.fspath(given)
        path = Path(item)
        if path.is_dir() and not is_saved_profile(path):
            unknown: dict[str, str] = {}
            inside = list(_below(path, MAX_DEPTH, skipped, unknown))
            if not inside:
                raise InputError(f"{path}: no profile in this folder or below it")
            files |= dict.fromkeys(inside)
            if skipped is not None:
                _name_lost_ranks(inside, unknown, skipped)
        else:
            files |= dict.fromkeys(find_profiles([item], skipped))
    return list(files)


def _name_lost_ranks(profiles: list[str], unknown: dict[str, str], skipped: Skipped) -> None:
    """Name files that no reader knows, but that are ranks by their names and the others' suffix."""
    suffixes = {Path(path).suffix for path in profiles}
    for path, reason in unknown.items():
        if Path(path).suffix in suffixes and rank_in_name(path) is not None:
            skipped(path, reason)


def _below(
    folder: Path, depth: int, skipped: Skipped | None, unknown: dict[str, str]
) -> Iterable[str]:
    for path in sorted(folder.iterdir(), key=lambda entry: natural(entry.name)):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if is_saved_profile(path):
                yield str(path)
            elif depth:
                yield from _below(path, depth - 1, skipped, unknown)
        elif path.is_file() and not path.name.endswith((".metrics.csv", ".metrics.parquet")):
            try:
                choose(read_head(path))
            except UnknownFormatError as error:
                unknown[str(path)] = str(error)
                continue
            except InputError as error:
                if skipped is not None:
                    skipped(str(path), str(error))
                continue
            yield str(path)


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name, or its folder's, states."""
    for name in (Path(path).name, Path(path).parent.name):
        numbers = _RANK.findall(name)
        if numbers:
            return int(numbers[-1])
    labels = dict(_labels(path))
    return labels["tp"] if list(labels) == ["tp"] else None


def name_without_rank(path: str) -> str:
    """The name of a file without what tells the ranks of a run apart."""
    name = _TIME.sub("#", _HOST.sub("#.pt.trace.", Path(path).name))
    return _PARALLELISM.sub("#", _RANK.sub("#", name))


_IN_HEADER = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})')


def stated_rank(path: str) -> int | None:
    """The rank in a file's header, else in its name."""
    header = _IN_HEADER.search(read_head(Path(path)).data) if Path(path).is_file() else None
    return int(header[1]) if header else rank_in_name(path)


def _labels(path: str) -> list[tuple[str, int]]:
    return [(kind.lower(), int(n)) for kind, n in _PARALLELISM.findall(Path(path).name)]


def host_in_name(path: str) -> str | None:
    """The host that torch's TensorBoard handler writes into the name of a trace."""
    match = _HOST.match(Path(path).name)
    return match["host"] if match else None


def number_ranks(paths: Sequence[str], stated: Sequence[int | None]) -> tuple[list[int], bool]:
    """The rank of each file, and whether they had to be counted by their names."""
    in_names = [
        rank if rank is not None else rank_in_name(path)
        for path, rank in zip(paths, stated, strict=True)
    ]
    numbers = [rank for rank in in_names if rank is not None]
    if len(numbers) == len(paths):
        return numbers, False
    order = sorted(
        range(len(paths)), key=lambda index: (_place(paths[index]), natural(paths[index]))
    )
    counted = {index: number for number, index in enumerate(order)}
    return [counted[index] for index in range(len(paths))], True


def _place(path: str) -> tuple[int, ...]:
    """Numbers of a name in the order in which engines count ranks: pipeline first."""
    labels = dict(_labels(path))
    return tuple(labels.get(kind, 0) for kind in ("pp", "dp", "cp", "ep", "tp"))


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts names by the numbers in them: `rank2` before `rank10`."""
    parts = re.split(r"(\d+)", name)
    return [(int(piece[:18]), "") if piece.isdecimal() else (-1, piece) for piece in parts]


def run_name(paths: Sequence[str]) -> str:
    """What the files have in common: their folder, or the name without what tells ranks apart."""
    folders = {str(Path(path).parent) for path in paths}
    if len(paths) == 1:
        return paths[0]
    common = os.path.commonpath([str(Path(folder).absolute()) for folder in folders])
    return Path(common).name or common
