"""Results files: one JSON line per shape and solution, only ever appended to.

A run that is killed may leave half a line. Readers pass over it, and the next run that appends
takes it out: in the middle of a file it would make all of it unreadable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from solscope.bench.base import ShapeResult
from solscope.errors import InputError

_DECODER = msgspec.json.Decoder(ShapeResult)
_START = b'{"operator"'
"""How every line begins; nothing else is taken for half a line."""


def is_results(path: str) -> bool:
    """Whether a path names a results file, which is told by its ending."""
    return path.endswith(".jsonl")


def read_results(paths: Iterable[Path | str]) -> list[ShapeResult]:
    """All lines of several files; the last line of a file may have been cut off by a crash."""
    found = []
    for path in map(Path, paths):
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found.append(_DECODER.decode(line))
            except msgspec.MsgspecError as error:
                if number == len(lines) and _is_half(line):
                    continue
                raise InputError(f"{path}: line {number} is no result: {error}") from None
    if not found:
        raise InputError(f"{', '.join(map(str, paths))}: no results")
    return found


def latest(results: Sequence[ShapeResult]) -> list[ShapeResult]:
    """Of several lines for the same shape by the same solution on the same device, the last."""
    found = {(r.operator, r.shape, r.solution, r.scale, r.suite, r.device): r for r in results}
    return list(found.values())


def append_result(path: Path, result: ShapeResult) -> None:
    """Write one line so that it survives whatever comes next."""
    with path.open("ab+") as file:
        rest = _unended(file)
        if _is_half(rest):
            file.truncate(file.seek(-len(rest), os.SEEK_END))
        elif rest:
            file.write(b"\n")
        file.write(msgspec.json.encode(result) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _unended(file: BinaryIO) -> bytes:
    """What stands after the last end of a line; a whole file is read only where there is any."""
    if not file.tell():
        return b""
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return b""
    file.seek(0)
    return file.read().rpartition(b"\n")[2]


def _is_half(line: bytes) -> bool:
    """Whether this is the beginning of a line, and no whole one."""
    if not line or line[: len(_START)] != _START[: len(line)]:
        return False
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True
    return False
