"""Evil samples through the evaluator: solutions that cheat or fail, and what each is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "data" / "evil"
PATIENCE_S = 300.0
"""What a slow machine may take for an answer; no sample but `never_returns` uses it up."""


def expected() -> dict[str, dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((SAMPLES / "expected.toml").read_text(encoding="utf-8"))


def run_results(
    names: list[str], device: str, *, check_only: bool, scale: float, patience_s: float = PATIENCE_S
) -> dict[str, list[Any]]:
    """Results of each sample, by name."""
    from solscope.bench.catalog import find_solution
    from solscope.bench.pool.process import Limits
    from solscope.bench.run.agenda import Options
    from solscope.bench.run.evaluate import evaluate

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
    names: list[str], device: str, *, check_only: bool, scale: float, patience_s: float = PATIENCE_S
) -> dict[str, list[str]]:
    """What each sample was found to be, by name."""
    found = run_results(names, device, check_only=check_only, scale=scale, patience_s=patience_s)
    return {name: sorted({one.status for one in results}) for name, results in found.items()}
