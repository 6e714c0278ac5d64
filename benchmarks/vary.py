"""Many profiles from few: real Kineto traces with other durations and other batch sizes.

Variant n comes from trace n modulo the number of traces, with two changes drawn from seed n:

* time is stretched by a factor between 0.5 and 2: every `ts` (from the first on) and every `dur`;
* the batch grows by 1, 2, 4 or 8: the leading dimension that occurs most often among the first
  inputs of operators, taken for the number of tokens, is multiplied wherever it stands in
  `Input Dims`.

Names, order, links and everything else stay as recorded, so a variant costs as much to read as the
trace it comes from. It is not a recording: its times and shapes do not belong together, and nothing
but the speed of the store should be read from it.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
from collections import Counter
from pathlib import Path

from zlib_ng import gzip_ng

BATCHES = (1, 2, 4, 8)
_TIME = re.compile(r'"(ts|dur)": ?([0-9.]+)')
_DIMS = re.compile(r'("Input Dims": ?)(\[(?:[^"{}]*?)\])(?=, ?"|\s*\})')
_LEADING = re.compile(r'"Input Dims": ?\[\[(\d+), ?\d+')


def stretch_of(number: int) -> float:
    """How much slower a variant is."""
    return float(2 ** random.Random(number).uniform(-1, 1))


def batch_of(number: int) -> int:
    """How many times the tokens of a variant are those of its trace."""
    return BATCHES[random.Random(-number).randrange(len(BATCHES))]


class Trace:
    """The text of a trace, taken apart at its times, so that many variants are cheap."""

    def __init__(self, text: str) -> None:
        self.parts = _TIME.split(text)
        names, values = self.parts[1::3], self.parts[2::3]
        self.values = [float(value) for value in values]
        self.zero = next((v for n, v in zip(names, self.values, strict=True) if n == "ts"), 0.0)
        self.starts = [name == "ts" for name in names]
        self.kept = self.parts[0::3]

    def stretched(self, factor: float) -> str:
        """The text with all times stretched."""
        shift = self.zero * (1 - factor)
        times = [
            f'"ts": {value * factor + shift:.3f}' if start else f'"dur": {value * factor:.3f}'
            for start, value in zip(self.starts, self.values, strict=True)
        ]
        joined = [piece for pair in zip(self.kept, times, strict=False) for piece in pair]
        return "".join([*joined, self.kept[-1]])


def _with_batch(text: str, factor: int) -> str:
    common = Counter(_LEADING.findall(text)).most_common(1)
    if factor == 1 or not common:
        return text
    tokens = common[0][0]
    one = re.compile(rf"(?<![\d.]){tokens}(?![\d.])")
    changed: dict[str, str] = {}

    def sized(match: re.Match[str]) -> str:
        dims = match.group(2)
        if dims not in changed:
            changed[dims] = one.sub(str(int(tokens) * factor), dims)
        return match.group(1) + changed[dims]

    return _DIMS.sub(sized, text)


def write_variants(traces: list[Path], target: Path, numbers: range) -> None:
    """Write the variants that are missing; `numbers` are theirs."""
    target.mkdir(parents=True, exist_ok=True)
    for at, trace in enumerate(traces):
        own = [n for n in numbers if n % len(traces) == at and not name(target, n).exists()]
        if not own:
            continue
        with gzip.open(trace, "rt", encoding="utf-8", errors="replace") as file:
            text = file.read()
        for factor in BATCHES:
            same = [number for number in own if batch_of(number) == factor]
            source = Trace(_with_batch(text, factor)) if same else None
            for number in same:
                assert source is not None
                varied = source.stretched(stretch_of(number)).encode()
                part = name(target, number).with_suffix(".part")
                part.write_bytes(gzip_ng.compress(varied, 1))  # type: ignore[no-untyped-call]
                part.rename(name(target, number))


def name(target: Path, number: int) -> Path:
    """The file of a variant."""
    return target / f"variant-{number:05d}.json.gz"


def real_traces(data: Path) -> list[Path]:
    """The Kineto traces among the real profiles, in order."""
    found = [*data.glob("traces/*.json.gz"), *data.glob("h200/**/*.trace.json.gz")]
    return sorted(path for path in found if not path.name.startswith("rocprof"))


if __name__ == "__main__":
    data, target, start, stop = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5])
    write_variants(real_traces(data), target, range(start, stop))
