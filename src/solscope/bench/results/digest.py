"""Digests of results: an edited, removed or added line shows.

The digest of a line is the SHA-256 of its other fields. The running digest of a run is the SHA-256
of the one before and of the line's own, so a missing line breaks it, unless it is the last. Neither
is a signature: who edits a line can compute both anew. They show what was changed by hand, by a
script that does not know them, or by a merge gone wrong.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from solscope.bench.base import ShapeResult
from solscope.bench.results.files import raw_lines
from solscope.errors import InputError

OWN = ("digest", "run_digest")
"""Fields that a digest leaves out."""
LENGTH = 32
"""Hexadecimal digits of a digest."""
FIRST_EVALUATOR = 2
"""Lines of this evaluator and later ones were never written without digests."""
MOST_NAMED = 5
"""Edited lines of a file that are listed by number."""


def digest_of(line: dict[str, Any]) -> str:
    """The digest of a decoded line; fields with their defaults count as they were written.

    Keys in order and Python's shortest floats: how the JSON was written does not matter.
    """
    rest = {name: value for name, value in line.items() if name not in OWN}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _sha(text)


def chained(before: str, digest: str) -> str:
    """The running digest of a run after a line with this digest."""
    return _sha(f"{before}\0{digest}")


def lacks_digest(result: ShapeResult, digested: Collection[str]) -> bool:
    """Whether the digest that its evaluator gave it was taken off.

    `digested` are the runs that have lines with digests: then all of theirs had one.
    """
    if result.digest:
        return False
    return result.evaluator >= FIRST_EVALUATOR or run_of(result) in digested


def run_of(result: ShapeResult) -> str:
    """The id of the run that a line is of."""
    return str(result.run.get("id", ""))


def lines_and_digested_runs(
    path: Path | str,
) -> tuple[list[tuple[int, bytes, ShapeResult]], set[str]]:
    """The lines of a file as `raw_lines` gives them, and the runs of which some have a digest."""
    lines = list(raw_lines(path))
    runs = {run for _, _, result in lines if result.digest and (run := run_of(result))}
    return lines, runs


def with_digests(result: ShapeResult, before: str) -> ShapeResult:
    """The line with its digest, and the running one after it."""
    own = digest_of(msgspec.json.decode(msgspec.json.encode(result)))
    return msgspec.structs.replace(result, digest=own, run_digest=chained(before, own))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def read_intact(paths: Sequence[Path | str]) -> tuple[list[ShapeResult], dict[str, list[int]]]:
    """Lines whose digest fits, or that never had one, and by file the numbers of the others."""
    results: list[ShapeResult] = []
    edited: dict[str, list[int]] = {}
    for path in paths:
        wrong = []
        lines, digested = lines_and_digested_runs(path)
        for number, raw, result in lines:
            own = digest_of(json.loads(raw)) if result.digest else ""
            if result.digest != own or lacks_digest(result, digested):
                wrong.append(number)
            else:
                results.append(result)
        if wrong:
            edited[str(path)] = wrong
    if not results:
        why = "every line was edited" if edited else "no results"
        raise InputError(f"{', '.join(map(str, paths))}: {why}")
    return results, edited


def describe_edited(edited: Mapping[str, Sequence[int]]) -> list[str]:
    """One sentence per file about lines that do not count, as `read_intact` found them."""
    sentences = []
    for name, lines in edited.items():
        numbers = ", ".join(map(str, lines[:MOST_NAMED]))
        if len(lines) > MOST_NAMED:
            numbers += f" and {len(lines) - MOST_NAMED:,} more"
        plural = "" if len(lines) == 1 else "s"
        verify = f"solscope bench verify {shlex.quote(name)}"
        sentences.append(f"{name}: ignored edited line{plural} {numbers}; see {verify}")
    return sentences
