"""Results files: one JSON line per shape and solution, only ever appended to.

A run that is killed may leave half a line. Readers pass over it, and the next run that appends
takes it out: in the middle of a file it would make all of it unreadable.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path

import msgspec

from solscope.bench.base import ShapeResult
from solscope.errors import InputError, UsageError

_DECODER = msgspec.json.Decoder(ShapeResult)
_START = b'{"operator"'
"""How every line begins; nothing else counts as half a line."""


def is_results(path: str) -> bool:
    """Whether a path names a results file, judging by its suffix."""
    return path.endswith(".jsonl")


def results_in(folder: Path) -> list[str]:
    """Files of results in a folder; other JSON lines files are skipped."""
    return [str(path) for path in sorted(folder.glob("*.jsonl")) if _begins_as_ours(path)]


def _begins_as_ours(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(_START)) == _START
    return False


def read_results(paths: Iterable[Path | str]) -> list[ShapeResult]:
    """All lines of several files; the last line of a file may have been cut off by a crash."""
    results = [result for path in paths for _, _, result in raw_lines(path)]
    if not results:
        raise InputError(f"{', '.join(map(str, paths))}: no results")
    return results


def raw_lines(path: Path | str) -> Iterator[tuple[int, bytes, ShapeResult]]:
    """Number, text and content of each line of a file."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, line, _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if number == len(lines) and _is_half(line):
                continue
            raise InputError(f"{path}: line {number} is not a result: {error}") from None


def is_cut_off(path: Path) -> bool:
    """Whether the file ends in half a line, which `read_results` passes over."""
    with path.open("rb", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        return _is_half(_unended(file))


def latest(results: Sequence[ShapeResult]) -> list[ShapeResult]:
    """Of several lines for the same shape by the same solution on the same device, the last.

    Of a solution whose files changed, the lines of its last version alone: the shapes of one
    operator by two versions are no result of either.
    """
    newest = {(r.operator, r.solution, r.suite, r.device): r.solution_hash for r in results}
    last = {
        (r.operator, r.shape, r.solution, r.scale, r.suite, r.device): r
        for r in results
        if r.solution_hash == newest[r.operator, r.solution, r.suite, r.device]
    }
    return list(last.values())


def require_appendable(path: Path) -> None:
    """Raise if no line can be appended, before a run rather than after it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: folder {path.parent} does not exist; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: may not be written; name another file")
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(4096).lstrip()
        if start and not start.startswith(b"{"):
            raise UsageError(f"{path} holds something else than results: name another file")


def append_result(path: Path, result: ShapeResult) -> None:
    """Write one line so that it survives whatever comes next; whole, or not at all."""
    line = msgspec.json.encode(result) + b"\n"
    try:
        with path.open("ab+", buffering=0) as file:
            rest = _unended(file)
            if _is_half(rest):
                file.truncate(file.seek(-len(rest), os.SEEK_END))
            elif rest:
                line = b"\n" + line
            _write_whole(file, line)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}: a result could not be written; mend that and run "
            "again with --resume"
        ) from None


def _write_whole(file: FileIO, line: bytes) -> None:
    end = file.seek(0, os.SEEK_END) if file.seekable() else None
    try:
        left = memoryview(line)
        while left:
            left = left[file.write(left) or 0 :]
        with contextlib.suppress(OSError) if end is None else contextlib.nullcontext():
            os.fsync(file.fileno())
    except OSError:
        if end is not None:
            with contextlib.suppress(OSError):
                file.truncate(end)
        raise


def _unended(file: FileIO) -> bytes:
    """The text after the last line break; reads the whole file only if there is any."""
    if not file.seekable() or not file.tell():
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False
