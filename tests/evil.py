"""Evil samples through the evaluator: solutions that cheat or fail, and what each is called."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).parent / "data" / "evil"
PATIENCE_S = 300.0
"""What a slow machine may take for an answer; a sample that uses it up has its own `patience_s`."""


def expected() -> dict[str, dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((SAMPLES / "expected.toml").read_text(encoding="utf-8"))


def chosen(stage: str, device: str, *, of_operators: bool | None = None) -> list[str]:
    """Samples that a stage must judge on a device; those in folders, the others, or all."""
    return [
        name
        for name, one in expected().items()
        if one.get("stage", "check") == stage
        and one.get("device", device) == device
        and of_operators in (None, "operator" in one)
    ]


def run_results(
    names: list[str],
    device: str,
    *,
    check_only: bool,
    scale: float,
    patience_s: float | None = None,
    spawner: Any = None,
) -> dict[str, list[Any]]:
    """Results of each sample, by name; `spawner` starts the workers of several such runs."""
    wanted = expected()
    found: dict[str, list[Any]] = {name: [] for name in names}
    for effort in dict.fromkeys(map(_effort, names)):
        some = [name for name in names if _effort(name) == effort]
        folders = [name for name in some if "operator" in wanted.get(name, {})]
        files = [name for name in some if name not in folders]
        run = partial(
            _run,
            device=device,
            check_only=check_only,
            effort=effort._replace(patience_s=patience_s or effort.patience_s),
            spawner=spawner,
        )
        results = []
        if files:
            extra = 10 if check_only else 1  # what timing must catch is right on every extra case
            size = effort.scale or scale
            results += run([f"{name}.py" for name in files], ["rms_norm"], "0", size, extra)
        if folders:
            operators = {part for name in folders for part in wanted[name]["operator"].split(",")}
            small = 0.0 if device == "cpu" else scale
            results += run(folders, sorted(operators), "top1", small, 2)
        for result in results:
            found[result.solution.replace("-", "_")].append(result)
    return found


class Effort(NamedTuple):
    """How a sample is run."""

    patience_s: float
    """For an answer."""
    restarts: int
    seconds: float
    """For timing."""
    scale: float | None
    """Of the sizes, if not that of the others."""


def _effort(name: str) -> Effort:
    one = expected().get(name, {})
    patience, restarts, seconds = one.get("patience_s"), one.get("restarts"), one.get("seconds")
    return Effort(patience or PATIENCE_S, restarts or 1, seconds or 0.1, one.get("scale"))


def _run(
    samples: list[str],
    operators: list[str],
    shapes: str,
    scale: float,
    extra: int,
    *,
    device: str,
    check_only: bool,
    effort: Effort,
    spawner: Any,
) -> list[Any]:
    from solscope.bench.catalog import find_solution
    from solscope.bench.run.agenda import Options
    from solscope.bench.run.evaluate import Evaluation
    from solscope.operators.host_warnings import ignore_host_warnings

    options = Options(
        operators=operators,
        solutions=[find_solution(str(SAMPLES / name)) for name in samples],
        shapes=shapes,
        device=device,
        scale=scale,
        check_only=check_only,
        restarts=effort.restarts,
        extra=extra,
        seconds_per_shape=effort.seconds,
        allow_busy=True,
        limits=limits(device, effort.patience_s),
    )
    with ignore_host_warnings():
        return Evaluation(options, lambda _: None, spawner).run()


def limits(device: str, patience_s: float = PATIENCE_S) -> Any:
    """What the worker of a sample may use."""
    from solscope.bench.pool.process import Limits

    memory = 16 << 30 if device == "cpu" else None
    return Limits(timeout_s=patience_s, first_s=patience_s, memory_bytes=memory)


def run_samples(
    names: list[str],
    device: str,
    *,
    check_only: bool,
    scale: float,
    patience_s: float | None = None,
) -> dict[str, list[str]]:
    """What each sample was found to be, by name."""
    found = run_results(names, device, check_only=check_only, scale=scale, patience_s=patience_s)
    wanted = expected()
    return {
        name: sorted({called(one, wanted.get(name, {})) for one in results})
        for name, results in found.items()
    }


def called(result: Any, wanted: dict[str, Any]) -> str:
    """The status; a sample that declines cases must have them listed in its line.

    What only a namespace can prevent is as expected where the kernel refuses one.
    """
    if wanted.get("isolated") and result.run["isolation"].get("namespace") != "yes":
        return str(wanted["status"][0])
    if wanted.get("declines") and not result.declined:
        return f"{result.status}, and nothing says what it declines"
    return str(result.status)
