"""Give lines of results files a digest, where they are provably of solutions that are at hand.

    python scripts/digest_results.py results/bench/h200.jsonl ...
    python scripts/digest_results.py r.jsonl --solution mine.py

For files that were written before lines had digests, and for files merged from several runs, whose
running digests do not fit any more. A line is left as it is unless the files of its solution have
the hash that it states, its numbers agree with each other and with the suite, and its digest, if it
has one, fits. Solutions that do not ship are those of --solution. Prints how many lines were given
one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from solscope.bench.audit import inconsistencies  # noqa: E402
from solscope.bench.base import ShapeResult  # noqa: E402
from solscope.bench.catalog import built_in, find_solution  # noqa: E402
from solscope.bench.results.digest import chained, digest_of  # noqa: E402
from solscope.bench.results.files import raw_lines  # noqa: E402
from solscope.files import new_file  # noqa: E402


@cache
def hash_now(solution: str, operator: str, others: tuple[str, ...]) -> str | None:
    """The hash of a solution that ships or that `others` has the path of; null if there is none."""
    found = {one.name: one for one in map(find_solution, others)}
    shipped = built_in()
    if solution not in found and solution in shipped.names():
        found[solution] = shipped.get(solution)
    return found[solution].hash(operator) if solution in found else None


def is_proven(result: ShapeResult, line: dict[str, Any], others: tuple[str, ...]) -> bool:
    """Whether a line is as the evaluator wrote it, as far as anyone can tell afterwards."""
    if result.digest and result.digest != digest_of(line):
        return False
    now = hash_now(result.solution, result.operator, others)
    return now == result.solution_hash and not any(inconsistencies(result))


def digested(path: Path, others: Sequence[str] = ()) -> tuple[list[str], int]:
    """The lines of a file, and how many of them were given a digest."""
    lines, given, running = [], 0, dict[str, str]()
    for _, raw, result in raw_lines(path):
        line = json.loads(raw)
        if is_proven(result, line, tuple(others)):
            run = str(result.run.get("id", ""))
            own = digest_of(line)
            running[run] = chained(running.get(run, ""), own)
            line |= {"digest": own, "run_digest": running[run]}
            given += 1
        lines.append(json.dumps(line))
    return lines, given


def main() -> int:
    """Rewrite the files given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--solution", action="append", default=[], metavar="FILE")
    asked = parser.parse_args()
    for path in asked.files:
        lines, given = digested(path, asked.solution)
        with new_file(path) as target:
            target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}: {given} of {len(lines)} lines given a digest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
