"""Run every evil sample through the evaluator and print what caught it.

    python benchmarks/guards.py [--device cuda] [--scale 1.0]

Exits with 1 when a sample got through, or was caught as something else than it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "data" / "evil"
sys.path[:0] = [str(ROOT / "src")]


def expected() -> dict[str, dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((SAMPLES / "expected.toml").read_text(encoding="utf-8"))


def run_results(
    names: list[str], device: str, *, check_only: bool, scale: float, patience_s: float = 20.0
) -> dict[str, list[Any]]:
    """Results of each sample, by name."""
    from solscope.bench.catalog import find_solution
    from solscope.bench.evaluate import Options, evaluate
    from solscope.bench.process import Limits

    memory = 16 << 30 if device == "cpu" else None
    options = Options(
        operators=["rms_norm"],
        solutions=[find_solution(str(SAMPLES / f"{name}.py")) for name in names],
        shapes="0",
        device=device,
        scale=scale,
        check_only=check_only,
        restarts=1,
        extra=10,
        seconds_per_shape=0.1,
        allow_busy=True,
        limits=Limits(timeout_s=patience_s, first_s=patience_s, memory_bytes=memory),
    )
    found: dict[str, list[Any]] = {name: [] for name in names}
    for result in evaluate(options):
        found[result.solution].append(result)
    return found


def run_samples(
    names: list[str], device: str, *, check_only: bool, scale: float, patience_s: float = 20.0
) -> dict[str, list[str]]:
    """What each sample was found to be, by name."""
    found = run_results(names, device, check_only=check_only, scale=scale, patience_s=patience_s)
    return {name: sorted({one.status for one in results}) for name, results in found.items()}


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
            seen = sorted({result.status for result in found[name]})
            caught = bool(seen) and set(seen) <= set(wanted[name]["status"])
            failed += not caught
            why = next((r.reason for r in found[name] if r.reason), "") or ""
            mark = "caught" if caught else "MISSED"
            print(f"{mark}  {name:26} {','.join(seen):16} {' '.join(why.split())[:90]}")
    took = time.monotonic() - start
    print(f"{len(wanted) - failed} of {len(wanted)} caught on {arguments.device} in {took:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
