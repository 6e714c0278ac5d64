"""Run every evil sample through the evaluator and print what caught it; honest ones must pass.

    python benchmarks/guards.py [--device cuda] [--scale 1.0]

Exits with 1 when a sample got through, or was caught as something else than it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.evil import called, expected, run_results  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--scale", type=float, default=None)
    arguments = parser.parse_args()
    scale = arguments.scale or (0.02 if arguments.device == "cpu" else 1.0)
    start, failed = time.monotonic(), 0
    wanted = {
        name: one
        for name, one in expected().items()
        if one.get("device", arguments.device) == arguments.device
    }
    for stage in ("check", "time"):
        names = [name for name, one in wanted.items() if one.get("stage", "check") == stage]
        check_only = stage == "check"
        found = run_results(names, arguments.device, check_only=check_only, scale=scale)
        for name in names:
            seen = sorted({called(result, wanted[name]) for result in found[name]})
            caught = bool(seen) and set(seen) <= set(wanted[name]["status"])
            failed += not caught
            why = next((r.reason for r in found[name] if r.reason), "") or ""
            mark = "MISSED" if not caught else "passed" if seen == ["passed"] else "caught"
            print(f"{mark}  {name:26} {','.join(seen):16} {' '.join(why.split())[:90]}")
    took = time.monotonic() - start
    print(
        f"{len(wanted) - failed} of {len(wanted)} as expected on {arguments.device} in {took:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
