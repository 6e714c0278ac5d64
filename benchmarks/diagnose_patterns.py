"""What is said of recorded faults that come and go: single recordings, and pairs with a normal one.

    python benchmarks/diagnose_patterns.py [--half work|check] [results/lab-patterns]

The folder is one that `solscope lab pack` wrote, whose pairs name the pattern of their fault. A
pattern is what was injected, not what happened: docs/explain/diagnosis.md says where they differ.
Recordings are split in two by a hash of their names: rules are worked on with one half, `work`, and
scored on the other, `check`.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from pathlib import Path

import msgspec

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.single import SingleDiagnosis, diagnose_run
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.diagnose.verdict.ranking import NamedCause
from solscope.lab.pairs import PAIRS, RECORDINGS
from solscope.readers.packed import Observations, load

ROOT = Path(__file__).resolve().parents[1]
VERDICTS = {
    "normal": "steady",
    "always": "steady",
    "late": "change_point",
    "every8": "periodic",
    "two": "bursty",
    "drift": "drift",
    "square": "periodic",
}
HALVES = ("work", "check")
NO_CAUSE = ("unknown", "none")


class Line(msgspec.Struct):
    """One pair of the list."""

    normal: str
    abnormal: str
    expected: list[str]
    pattern: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "results/lab-patterns")
    parser.add_argument("--half", choices=HALVES, help="score one half only")
    options = parser.parse_args()
    for half in HALVES:
        if options.half in (None, half):
            score(options.folder, half)


def half_of(name: str) -> str:
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]


def score(folder: Path, half: str) -> None:
    lines = [
        msgspec.json.decode(line, type=Line) for line in (folder / PAIRS).read_bytes().splitlines()
    ]
    print(f"half {half}")
    counts: Counter[str] = Counter()
    done: set[str] = set()
    for line in lines:
        normal, abnormal = (recording(folder, name) for name in (line.normal, line.abnormal))
        if line.normal not in done and half_of(line.normal) == half:
            done.add(line.normal)
            count_single(counts, line.normal, "normal", [], diagnose_run(normal))
        if half_of(line.abnormal) != half:
            continue
        count_single(counts, line.abnormal, line.pattern, line.expected, diagnose_run(abnormal))
        pair = diagnose_runs(normal, abnormal)
        counts["pairs"] += 1
        counts[f"pairs: {pair.verdict}"] += 1
        counts["pairs: first cause right"] += pair.causes[0].id in line.expected
        counts["pairs: confidently wrong"] += wrong(pair.causes, line.expected)
        if pair.verdict != "regression" or pair.causes[0].id not in line.expected:
            print(f"{line.abnormal}, as a pair: {pair.sentence}")
    print("\n".join(f"  {name}: {n}" for name, n in counts.items()))


def count_single(
    counts: Counter[str], name: str, pattern: str, expected: list[str], said: SingleDiagnosis
) -> None:
    counts["single"] += 1
    counts["single: verdict as injected"] += said.verdict == VERDICTS[pattern]
    counts["single: cannot tell"] += said.verdict == "cannot_tell"
    counts["single: confidently wrong"] += wrong(said.causes, expected)
    if said.verdict != VERDICTS[pattern] or wrong(said.causes, expected):
        print(f"{name}, {pattern}: {said.sentence}")


def wrong(causes: list[NamedCause], expected: list[str]) -> bool:
    """Whether a cause that was not injected is named without reservation."""
    if not causes or causes[0].id in (*NO_CAUSE, *expected):
        return False
    return causes[0].confidence >= THRESHOLDS.sure


def recording(folder: Path, name: str) -> Observations:
    return load(folder / RECORDINGS / f"{name}.json.zst")


if __name__ == "__main__":
    main()
