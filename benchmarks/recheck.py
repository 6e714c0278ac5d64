"""Check all solutions that ship with the evaluator as it is now, without timing them.

    python benchmarks/recheck.py [--device cuda] [--seconds 300] [--out FILE] [--operators OP,...]

The most important operators and their heaviest shapes come first; what there was no time for is
counted. Exits with 1 when a solution that ships failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from solscope.bench.base import FAILURES  # noqa: E402
from solscope.bench.catalog import built_in  # noqa: E402
from solscope.bench.run.agenda import Options  # noqa: E402
from solscope.bench.run.evaluate import evaluate  # noqa: E402
from solscope.bench.workloads import workloads  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--extra", type=int, default=2)
    parser.add_argument("--operators", default="")
    parser.add_argument("--solutions", default=",".join(built_in().names()))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    solutions = [built_in().get(name) for name in given.solutions.split(",")]
    operators = [name for name in given.operators.split(",") if name]
    start = time.monotonic()
    results = evaluate(
        Options(
            operators=operators,
            solutions=solutions,
            device=given.device,
            check_only=True,
            rounds=1,
            extra=given.extra,
            jobs=given.jobs,
            scale=0.0 if given.small else 1.0,
            time_budget_s=given.seconds,
            allow_busy=True,
            out=given.out,
        )
    )
    for result in results:
        if result.status != "passed":
            why = " ".join((result.reason or "").split())[:160]
            what = f"{result.operator:30} {result.shape:>3} {result.solution:16}"
            print(f"{result.status:14} {what} {why}")
    reached = {(result.operator, result.shape, result.solution) for result in results}
    listed = [
        (name, shape.shape, one.name)
        for name, shapes in workloads().items()
        for one in solutions
        if one.file(name) is not None and name in (operators or workloads())
        for shape in shapes
    ]
    for name, count in Counter(line[0] for line in listed if line not in reached).items():
        print(f"{'not reached':14} {name:30} {count} lines: no time was left for them")
    by_status = Counter(result.status for result in results)
    print(dict(by_status), f"{len(results)} of {len(listed)} in {time.monotonic() - start:.0f} s")
    return 1 if any(result.status in FAILURES for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
