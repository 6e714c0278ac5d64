"""One rank of a run: warms up, records `STEPS` steps, writes its trace."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from solscope.lab.ranks.faults import (
    LATE_STEPS,
    batch_of,
    cores_of,
    in_step,
)
from solscope.lab.ranks.hold import Hold
from solscope.lab.ranks.model import Model
from solscope.lab.ranks.plan import STEPS, WORLD, Scenario, scenarios


def serve(scenario: Scenario, rank: int, out: Path, go: Path, device: str = "cuda") -> None:
    """Run one rank; writes `NAME-rankN.trace.json` and, from rank 0, `NAME-steps.json`.

    On the device `cpu` it only shows that the ranks work together.
    """
    import torch
    import torch.distributed as dist
    from torch.profiler import profile

    own = cores_of(rank)
    os.sched_setaffinity(0, own)
    torch.set_num_threads(1)
    same = scenario.parallelism == "tp"
    torch.manual_seed(scenario.seed if same else scenario.seed * 10 + rank)
    on_gpu = device == "cuda"
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=WORLD)
    batch = batch_of(scenario, rank)
    with torch.no_grad():
        model = Model(scenario, rank, batch, device)
        for _ in range(4):
            model.step().cpu()
        replay = _graph(model) if scenario.graph and on_gpu else None
        holds = scenario.how == "held" and rank == scenario.rank and on_gpu
        hold = Hold(scenario.held) if holds else None
        if scenario.how is not None:
            # The profiler is made ready before anything is held; on all ranks, as they go together.
            with profile(activities=_activities(on_gpu)):
                model.step().cpu()
        _synchronize(on_gpu)
        if scenario.fault == "slow_host" and rank == scenario.rank:
            # Threads of NCCL keep all cores of the rank: its link is not disturbed.
            os.sched_setaffinity(threading.get_native_id(), {min(own)})
        dist.barrier()
        if rank == 0:
            go.touch()
        time.sleep(1.0)
        dist.barrier()
        if hold is not None:
            hold.start()
        trace, walls, held = _record(scenario, rank, model, replay, batch, hold)
    name = out / f"{scenario.name}-rank{rank}.trace.json"
    trace.export_chrome_trace(str(name))
    if hold is not None:
        (out / f"{scenario.name}-held.json").write_text(json.dumps(held))
    if rank == 0:
        (out / f"{scenario.name}-steps.json").write_text(json.dumps(walls))
    # The store that connects the ranks lives in rank 0, which leaves last.
    with suppress(RuntimeError):
        dist.barrier()
    time.sleep(0.5 if rank == 0 else 0.0)
    os._exit(0)


def _graph(model: Model) -> Any:
    """The step as a graph that also holds its collectives."""
    import torch

    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        model.step()
    return graph


def _activities(on_gpu: bool) -> list[Any]:
    from torch.profiler import ProfilerActivity

    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]


def _synchronize(on_gpu: bool) -> None:
    import torch

    if on_gpu:
        torch.cuda.synchronize()


def _record(
    scenario: Scenario, rank: int, model: Model, replay: Any, batch: int, hold: Hold | None
) -> tuple[Any, list[float], bool]:
    """The recorder, the time of each step, and whether multiprocessors were held throughout."""
    from torch.profiler import profile, record_function

    on_gpu = model.device.type == "cuda"
    late = LATE_STEPS if scenario.fault == "late_joiner" and rank == scenario.rank else 0
    recorder = profile(activities=_activities(on_gpu), record_shapes=True)
    heap: list[object] = []
    walls = []
    for step in range(-2, STEPS):
        if step == late:
            recorder.start()
        start = time.perf_counter()
        with record_function(f"execute_context_0(0)_generation_{batch}({batch})"):
            with record_function("schedule"):
                in_step(scenario, rank, step, heap)
                sorted((hash((step, number)), number) for number in range(500))
            if replay is None:
                tokens = model.step()
            else:
                replay.replay()
                tokens = model.tokens
            tokens.cpu()
        if step >= 0:
            walls.append(time.perf_counter() - start)
    held = hold is not None and hold.stop()
    _synchronize(on_gpu)
    recorder.stop()
    return recorder, walls, held


if __name__ == "__main__":
    half, wanted, number, folder, ready = sys.argv[1:]
    chosen = next(scenario for scenario in scenarios(half) if scenario.name == wanted)
    serve(chosen, int(number), Path(folder), Path(ready))
