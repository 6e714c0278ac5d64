"""One call of a solution where a profiler sees it: `python -m solscope.bench.one_call ASKED`.

Nothing is timed or judged here, so the solution shares the process with what draws its inputs.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from solscope.bench.catalog import load_module
from solscope.operators import operator
from solscope.operators.task import Draw, Inputs, Task

WARM_CALLS = 3
"""Calls before the one that is profiled: kernels are compiled and chosen."""


def main(text: str) -> None:
    """Call the solution a few times, the last time under the profiler."""
    import torch

    asked = json.loads(text)
    call = bound_call(asked, "cuda")
    for _ in range(WARM_CALLS):
        call()
    torch.cuda.synchronize()
    if asked["kineto"]:
        sys.stdout.write(json.dumps(_kineto(call)) + "\n")
        return
    cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    cudart.cudaProfilerStart()
    call()
    torch.cuda.synchronize()
    cudart.cudaProfilerStop()


def bound_call(asked: dict[str, Any], device: str) -> Callable[[], Any]:
    """The solution's function with drawn inputs, and what `prepare` and `setup` return."""
    import torch

    task = operator(asked["operator"]).required_task
    inputs = dict(task.inputs(asked["axes"], Draw(seed=secrets.randbits(40), device=device)))
    path = Path(asked["file"])
    os.environ["SOLSCOPE_BUILD_FOLDER"] = asked["build"]
    sys.path.insert(0, str(path.parent))
    module = load_module(path)
    given = arguments(module, task, inputs)
    run = torch.compile(module.run) if asked["compile"] else module.run
    return lambda: run(**given)


def arguments(module: ModuleType, task: Task, inputs: Inputs) -> dict[str, Any]:
    """What `run` of a solution takes: the inputs, and what `prepare` and `setup` return."""
    import torch

    from solscope.bench.worker.worker import shown_to_setup

    given = dict(inputs)
    if hasattr(module, "prepare"):
        weights = {name: inputs[name] for name in task.weights if name in inputs}
        given["prepared"] = module.prepare(**weights)
    if hasattr(module, "setup"):
        shown = {
            name: shown_to_setup(torch, value, planned=name not in task.unplanned)
            if isinstance(value, torch.Tensor)
            else value
            for name, value in inputs.items()
        }
        given["plan"] = module.setup(**shown)
    return given


def _kineto(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Kernels of a call, as Kineto saw them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return kernels_of(json.loads(file.read_text(encoding="utf-8")))


def kernels_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Launches of a Chrome trace, as `Launch` takes them."""
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    return [
        {
            "kernel": event["name"],
            "time_us": float(event["dur"]),
            "occupancy_pct": event.get("args", {}).get("est. achieved occupancy %"),
        }
        for event in sorted(kernels, key=lambda event: float(event["ts"]))
    ]


if __name__ == "__main__":
    main(sys.argv[1])
