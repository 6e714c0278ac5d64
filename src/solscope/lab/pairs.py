"""The list of pairs: a normal and an abnormal recording, and what was wrong with the second.

`pairs.jsonl` has one line per pair. Next to it are the recordings, raw (`NAME.trace.json.gz` with
`NAME.metrics.csv`) or packed (`recordings/NAME.json.zst`), and `machine.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from solscope.errors import DamagedFileError, InputError

PAIRS = "pairs.jsonl"
MACHINE = "machine.json"
RECORDINGS = "recordings"
NO_FAULT = "none"
NORMAL_PAIR = "~"
"""Between the names of two normal recordings that are made a pair without a fault."""


class Pair(msgspec.Struct, frozen=True):
    """Two recordings; other facts of the line are kept in the file and not used here."""

    id: str
    half: str
    """`tune`: thresholds may have been chosen with it; `test`: they may not."""
    fault: str
    """What was injected; `none` for a pair without a fault."""
    expected: list[str]
    """Causes that a diagnosis may name and be right."""
    mode: str
    """How the loop launches its work: `eager` or `graph`."""
    strength: int
    """1 to 3; 0 without a fault."""
    normal: str
    abnormal: str
    family: str = ""
    step_ms_normal: float | None = None
    """Mean step time without the profiler."""
    step_ms_abnormal: float | None = None
    base: dict[str, Any] = {}
    """How the loop differs from the plain one on both sides, e.g. larger copies."""

    @property
    def is_control(self) -> bool:
        """True when nothing was injected."""
        return self.fault == NO_FAULT or self.expected == [NO_FAULT]

    @property
    def timed_ratio(self) -> float | None:
        """How much slower the step was without the profiler."""
        if not self.step_ms_normal or not self.step_ms_abnormal:
            return None
        return self.step_ms_abnormal / self.step_ms_normal


def read_pairs(folder: Path) -> list[Pair]:
    """All pairs of a folder, in the order of recording."""
    return [_pair(folder / PAIRS, number, line) for number, line in pair_lines(folder)]


def normal_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """More pairs without a fault: each normal recording with the next one of the same loop."""
    normal: list[Pair] = []
    last: dict[tuple[str, str, str], str] = {}
    for pair in pairs:
        loop = (pair.half, pair.mode, str(sorted(pair.base.items())))
        before, last[loop] = last.get(loop), pair.normal
        if before is not None and before != pair.normal:
            normal.append(
                Pair(
                    id=f"{before}{NORMAL_PAIR}{pair.normal}",
                    half=pair.half,
                    fault=NO_FAULT,
                    expected=[NO_FAULT],
                    mode=pair.mode,
                    strength=0,
                    normal=before,
                    abnormal=pair.normal,
                    base=pair.base,
                )
            )
    return normal


def pair_lines(folder: Path) -> list[tuple[int, bytes]]:
    """The lines of the list, with their numbers."""
    file = folder / PAIRS
    if not file.is_file():
        raise InputError(f"{folder}: no {PAIRS} found; this is not a folder of lab recordings")
    lines = enumerate(file.read_bytes().splitlines(), start=1)
    numbered = [(number, line) for number, line in lines if line.strip()]
    if not numbered:
        raise DamagedFileError(f"{file}: it lists no pairs")
    return numbered


def _pair(file: Path, number: int, line: bytes) -> Pair:
    try:
        pair = msgspec.json.decode(line, type=Pair)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{file}, line {number}: {error}") from error
    for name in (pair.normal, pair.abnormal):
        if Path(name).name != name or not name:
            raise DamagedFileError(f"{file}, line {number}: {name!r} is not a valid recording name")
    return pair
