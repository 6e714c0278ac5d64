"""Four ranks on one GPU through CUDA MPS: its kernels run at once, a share of the GPU for each.

The service is a process of ours (`nvidia-cuda-mps-control`), which changes no setting of the card
and ends with the recording. `probe` says what works on a machine before anything is recorded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from solscope.lab.ranks.forks import run_all
from solscope.lab.ranks.hold import Hold

CONTROL = "nvidia-cuda-mps-control"
PLACES = (
    "/usr/bin",
    "/usr/local/nvidia/bin",
    "/usr/local/cuda/bin",
    "/usr/sbin",
    "/opt/nvidia/bin",
)
SHARE = 25
"""Percent of the GPU's multiprocessors that a rank may use."""
SLOW_SHARE = {1: 10, 2: 4}
"""Percent for a rank that has fewer, by strength."""
HELD_SMS = (26, 20, 14, 8)
"""Multiprocessors that another kernel may hold, of the 33 that a rank has of an H200."""
SLOWER = 1.3
"""How much slower that must make the work of a rank."""
PROBE_S = 40.0
"""Seconds that the probe may take."""
SLEEP_CYCLES = 600_000_000
"""Of a kernel that only waits: 0.3 s at the clock of an H200."""


@contextmanager
def serving(say: Callable[[str], None]) -> Iterator[bool]:
    """Run the service; yields whether it is there. Processes started meanwhile use it."""
    binary = shutil.which(CONTROL) or next(
        (f"{place}/{CONTROL}" for place in PLACES if Path(place, CONTROL).exists()), None
    )
    if binary is None:
        say(f"MPS: {CONTROL} not found on the PATH or in {', '.join(PLACES)}")
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = f"{folder}/pipe"
        os.environ["CUDA_MPS_LOG_DIRECTORY"] = f"{folder}/log"
        for name in ("pipe", "log"):
            Path(folder, name).mkdir()
        # In the foreground it is a child of this process, which can end it.
        service = subprocess.Popen(
            [binary, "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(0.5)
            there = service.poll() is None
            say(f"MPS: {binary} -f {'runs' if there else f'ended with {service.returncode}'}")
            if not there:
                there = subprocess.run([binary, "-d"], check=False, timeout=10).returncode == 0
                say(f"MPS: {binary} -d {'started' if there else 'failed'}")
            yield there
        finally:
            _end(binary, service)
            log = Path(folder, "log", "control.log")
            if log.exists():
                say("MPS log: " + " | ".join(log.read_text().splitlines()[-4:])[-600:])
            for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
                os.environ.pop(name, None)


def _end(binary: str, service: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired, OSError):
        subprocess.run([binary], input=b"quit -t 2\n", capture_output=True, timeout=8, check=False)
    with suppress(subprocess.TimeoutExpired):
        service.wait(4)
    if service.poll() is None:
        service.kill()
        service.wait()


def share(percent: int) -> dict[str, str]:
    """Variables of a process that may use a share of the GPU."""
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}


def probe(say: Callable[[str], None], folder: Path) -> dict[str, Any]:
    """What works: kernels of two processes at once, traces of kernels, and held multiprocessors."""
    barrier = get_context("fork").Barrier(2)
    each = [((number, barrier, folder), share(SHARE)) for number in range(2)]
    answers = run_all(_probe, each, folder, PROBE_S)
    for number, (answer, errors) in enumerate(answers):
        if answer is None:
            say(f"probe: process {number} failed: {errors[-700:]}")
    found = [answer for answer, _ in answers if answer is not None]
    works = {
        "overlap": len(found) == 2 and all(a["both_s"] < 1.5 * a["alone_s"] for a in found),
        "traces": bool(found) and found[0].get("kernels", 0) > 0,
        "held": found[0].get("held", []) if found else [],
    }
    for number, answer in enumerate(found):
        say(f"probe: process {number}: {json.dumps(answer)}")
    say(f"probe: {json.dumps(works)}")
    return works


def _probe(number: int, barrier: Any, folder: Path) -> dict[str, Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    properties = torch.cuda.get_device_properties(0)
    answer: dict[str, Any] = {"name": properties.name, "sms": properties.multi_processor_count}

    def sleep() -> float:
        start = time.perf_counter()
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        return time.perf_counter() - start

    torch.cuda._sleep(1000)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    barrier.wait(PROBE_S)
    if number == 0:
        answer["alone_s"] = round(sleep(), 3)
    barrier.wait(PROBE_S)
    if number == 1:
        answer["alone_s"] = round(sleep(), 3)
    barrier.wait(PROBE_S)
    answer["both_s"] = round(sleep(), 3)
    barrier.wait(PROBE_S)
    if number == 1:
        return answer
    answer["held"] = []
    body = _work()
    body()

    def seconds() -> float:
        start = time.perf_counter()
        body()
        torch.cuda.current_stream().synchronize()
        return time.perf_counter() - start

    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds) as recorder:
        seconds()
    answer["kernels"] = len(_kernels(recorder, folder))
    answer["work_ms"] = round(1e3 * min(seconds() for _ in range(3)), 2)
    try:
        for count in HELD_SMS:
            hold = Hold(count, limit_ms=1500)
            recorder = profile(activities=kinds)
            hold.start()
            recorder.start()
            held_ms = round(1e3 * seconds(), 2)
            still = hold.stop()
            torch.cuda.synchronize()
            recorder.stop()
            unseen = not any("hold" in name for name in _kernels(recorder, folder))
            answer[f"held_{count}"] = {"work_ms": held_ms, "still": still, "unseen": unseen}
            if still and unseen and held_ms > SLOWER * answer["work_ms"]:
                answer["held"].append(count)
    except Exception as error:  # noqa: BLE001 - what a machine cannot do, the plan does without
        answer["held_error"] = f"{type(error).__name__}: {error}"[:300]
    return answer


def _work() -> Callable[[], None]:
    """Products and attention of a rank's part, some milliseconds in all."""
    import torch

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    sizes = ((2048, 768), (512, 2048), (2048, 3072), (1536, 2048), (2048, 8000))
    products = [(random(64, inner), random(inner, outer)) for inner, outer in sizes]
    q, k, v = random(64, 4, 1, 128), random(64, 1, 8256, 128), random(64, 1, 8256, 128)
    mask = torch.ones(64, 1, 1, 8256, device="cuda", dtype=torch.bool)

    def work() -> None:
        for _ in range(4):
            for x, weight in products:
                x @ weight
            torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, enable_gqa=True
            )

    return work


def _kernels(recorder: Any, folder: Path) -> list[str]:
    """Names of the kernels in a recording."""
    trace = folder / "probe.trace"
    recorder.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    return [event["name"] for event in events if event.get("cat") == "kernel"]
