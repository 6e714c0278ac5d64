#!/usr/bin/env python3
"""Record decode steps of the same models on 1, 2 and 4 ranks, to score `solscope whatif --tp`.

    PYTHONPATH=src python3 scripts/record_whatif_tp.py OUT [--seconds 150] [--device cpu --tiny]

One GPU is shared by four processes through CUDA MPS, a quarter of its multiprocessors for each, and
is used alike in all three cases: four copies on one rank each, two pairs, one group of four. Ranks
add up with the one-shot all-reduce of torch's symmetric memory, or with NCCL over sockets where
that does not work (`collective` in the table of true times says which).

    MODEL-tpN-bB-cC.eager.json      rank 0 of the first group: eager steps, with shapes
    MODEL-tpN-bB-cC.graph.json      the same step captured as a CUDA graph and replayed
    solo-MODEL-tpN-...              one rank's part alone on the whole GPU, without collectives
    truth.jsonl                     step times of rank 0, without and with the profiler
    calibration.jsonl               what a quarter reaches while all four work, and all-reduces

All of it is packed into `part-NNN.tar` in OUT (`solscope.lab.archive.unpack` turns them back). A
point that fails is reported by one line; nothing starts after its time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
from record_whatif import TINY, Linear, Model, captured, state
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from solscope.lab.archive import pack
from solscope.lab.ranks import mps
from solscope.lab.ranks.faults import cores_of
from solscope.lab.ranks.forks import Fork, run_all

START = time.monotonic() - time.process_time()
"""Imports are counted in."""
PROCESSES = 4
POINTS = ((16, 512), (64, 4096), (1, 4096), (256, 512), (16, 4096), (64, 512), (1, 512))
STEPS, TIMED = 6, 30
MORE = 0.3
"""Share of steps that the other groups run longer, so that they work as long as the first one."""
PACK_S, LEAST_S, WAIT_S = 12.0, 12.0, 25.0
SIZES = {
    "dense": {
        "hidden": 4096,
        "layers": 8,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "inner": 14336,
        "vocab": 32000,
    },
    "narrow": {
        "hidden": 2048,
        "layers": 8,
        "heads": 16,
        "kv_heads": 4,
        "head_dim": 128,
        "inner": 6144,
        "vocab": 32000,
    },
}
ROWS = 256


def say(line: str) -> None:
    """A line of progress."""
    print(f"{time.monotonic() - START:6.1f} s  {line}", flush=True)


class Group:
    """The ranks that share a model: what they add up and gather."""

    def __init__(self, ranks: int, rank: int, collective: str, device: str) -> None:
        self.ranks, self.rank, self.device = ranks, rank, device
        self.collective = "none" if ranks == 1 else collective
        self.buffers: dict[str, Any] = {}

    def _shared(self, key: str, elements: int) -> tuple[Any, Any]:
        """A buffer that all ranks can read, and its handle."""
        if key not in self.buffers:
            buffer = symmetric.empty(elements, dtype=torch.bfloat16, device=self.device)
            self.buffers[key] = buffer, symmetric.rendezvous(buffer, dist.group.WORLD)
        return self.buffers[key]

    def add_up(self, x: Any, weight: Any) -> Any:
        """The product of this rank's part, added up over ranks."""
        shape = (*x.shape[:-1], weight.shape[0])
        x = x.reshape(-1, x.shape[-1])
        if self.collective != "one_shot":
            y = torch.mm(x, weight.t())
            if self.collective == "nccl":
                dist.all_reduce(y)
            return y.view(shape)
        rows, width = x.shape[0], weight.shape[0]
        buffer, _ = self._shared(f"sum{width}", ROWS * width)
        y = buffer[: rows * width].view(rows, width)
        torch.mm(x, weight.t(), out=y)
        name = dist.group.WORLD.group_name
        return torch.ops.symm_mem.one_shot_all_reduce(y, "sum", name).view(shape)

    def gather(self, x: Any, weight: Any) -> Any:
        """Outputs of all ranks beside each other."""
        shape = (*x.shape[:-1], weight.shape[0] * self.ranks)
        x = x.reshape(-1, x.shape[-1])
        rows, width = x.shape[0], weight.shape[0]
        if self.collective == "none":
            return torch.mm(x, weight.t()).view(*shape[:-1], width)
        if self.collective == "nccl":
            parts = torch.empty(self.ranks * rows, width, device=x.device, dtype=x.dtype)
            dist.all_gather_into_tensor(parts, torch.mm(x, weight.t()))
            return parts.view(self.ranks, rows, width).permute(1, 0, 2).reshape(shape)
        # The all-reduces of a step keep its writes behind the reads of the step before.
        buffer, handle = self._shared(f"all{width}", ROWS * width)
        torch.mm(x, weight.t(), out=buffer[: rows * width].view(rows, width))
        handle.barrier(channel=0)
        parts = [handle.get_buffer(r, (rows, width), torch.bfloat16) for r in range(self.ranks)]
        return torch.cat(parts, -1).view(shape)


class Summed(nn.Module):
    """A product whose inputs are split over ranks."""

    def __init__(self, own: Linear, group: Group) -> None:
        super().__init__()
        self.own, self.group = own, group

    def forward(self, x: Any) -> Any:
        return self.group.add_up(x, self.own.weight)


class Gathered(nn.Module):
    """A product whose outputs are split over ranks, and gathered."""

    def __init__(self, own: Linear, group: Group) -> None:
        super().__init__()
        self.own, self.group = own, group

    def forward(self, x: Any) -> Any:
        return self.group.gather(x, self.own.weight)


def part_of(c: dict[str, int], ranks: int) -> dict[str, int]:
    """Sizes of one rank's part."""
    return {**c, **{name: c[name] // ranks for name in ("heads", "kv_heads", "inner")}}


def build(c: dict[str, int], group: Group) -> Any:
    """One rank's part of a model."""
    with torch.device(group.device):
        model = Model(part_of(c, group.ranks)).eval()
        for layer in model.layers:
            layer.attention.out = Summed(layer.attention.out, group)
            layer.mlp.down = Summed(layer.mlp.down, group)
        model.head = Gathered(Linear(c["hidden"], c["vocab"] // group.ranks), group)
    return model


class Phase:
    """What one process does for one number of ranks; all processes go through it together."""

    def __init__(
        self, given: dict[str, Any], index: int, barrier: Any, stopped: Any, out: Path
    ) -> None:
        self.given, self.index, self.barrier, self.stopped, self.out = (
            given,
            index,
            barrier,
            stopped,
            out,
        )
        self.first = index < given["ranks"]
        self.device = given["device"]

    def meet(self) -> None:
        if self.barrier is not None:
            self.barrier.wait(WAIT_S)

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def out_of_time(self) -> bool:
        """The first process decides for all."""
        if self.index == 0 and time.monotonic() > self.given["end"]:
            self.stopped.value = 1
        self.meet()
        return bool(self.stopped.value)

    def write(self, file: str, row: dict[str, Any]) -> None:
        if self.index == 0:
            with (self.out / file).open("a") as table:
                table.write(json.dumps(row) + "\n")

    def run(self) -> int:
        """Record all points; returns how many there are."""
        os.sched_setaffinity(0, cores_of(self.index))
        torch.set_num_threads(1)
        ranks, own = self.given["ranks"], 0 if self.given["solo"] else self.index
        port = self.given["port"] + own // ranks
        if not self.given["solo"]:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if self.device == "cuda" else "gloo",
                init_method=f"tcp://127.0.0.1:{port}",
                rank=own % ranks,
                world_size=ranks,
            )
        collective = "none" if self.given["solo"] else self.given["collective"]
        group = Group(ranks, own % ranks, collective, self.device)
        torch.manual_seed(0)
        points = 0
        with torch.no_grad():
            if self.device == "cuda" and not self.given["solo"]:
                self.calibrate(group)
            for kind, c in self.given["sizes"].items():
                if self.out_of_time():
                    break
                model = build(c, group)
                for batch, context in self.given["points"]:
                    if self.out_of_time():
                        break
                    points += self.both(kind, c, model, group, batch, context)
                del model
        return points

    def calibrate(self, group: Group) -> None:
        """Rates of a quarter of the GPU while all quarters work, and the time of all-reduces."""
        x = torch.randn(1 << 28, device="cuda", dtype=torch.bfloat16)
        y = torch.empty_like(x)
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        rates = {
            "copy_gbs": 2 * x.numel() * 2 / 1e9 / self.seconds_of(lambda: y.copy_(x), 12),
            "bf16_tflops": 2 * 4096**3 / 1e12 / self.seconds_of(lambda: a @ a, 60),
        }
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        row: dict[str, Any] = {"ranks": group.ranks, "sms": sms, **rates}
        if group.ranks > 1 and group.collective == "one_shot":
            for width in sorted({c["hidden"] for c in self.given["sizes"].values()}):
                buffer, _ = group._shared(f"sum{width}", ROWS * width)
                name = dist.group.WORLD.group_name
                for rows in sorted({batch for batch, _ in self.given["points"]}):
                    part = buffer[: rows * width].view(rows, width)

                    def once(part: Any = part, name: str = name) -> Any:
                        return torch.ops.symm_mem.one_shot_all_reduce(part, "sum", name)

                    once()
                    key = f"reduce_us_{rows}x{width}"
                    row[key] = 1e6 * self.seconds_of(once, 100)
        self.write("calibration.jsonl", row)
        if self.index == 0:
            say(f"calibration: {json.dumps({k: round(v, 2) for k, v in row.items()})}")

    def seconds_of(self, body: Callable[[], object], count: int) -> float:
        """Time of one call, as the GPU sees it; all processes at once."""
        for _ in range(3):
            body()
        self.sync()
        self.meet()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            body()
        last.record()
        self.sync()
        seconds = first.elapsed_time(last) / 1e3 / count
        self.meet()
        return seconds

    def both(
        self, kind: str, c: dict[str, int], model: Any, group: Group, batch: int, context: int
    ) -> int:
        """One point, launched eagerly and from a graph."""
        token, cache, position = state(
            part_of(c, group.ranks) | {"vocab": c["vocab"]}, batch, context, self.device
        )

        def step() -> Any:
            return model(token, cache, position)

        label = f"{'solo-' if self.given['solo'] else ''}{kind}-tp{group.ranks}-b{batch}-c{context}"
        facts = {"model": kind, "layers": c["layers"], "ranks": group.ranks}
        facts |= {"batch": batch, "context": context, "collective": group.collective}
        facts |= {"solo": self.given["solo"]}
        self.point(f"{label}.eager", step, facts | {"graph": False})
        if self.device == "cuda":
            replay, graph = captured(step)
            self.point(f"{label}.graph", replay, facts | {"graph": True})
            del replay, graph
            token = cache = None
            torch.cuda.empty_cache()
        return 1

    def point(self, name: str, step: Callable[[], Any], facts: dict[str, Any]) -> None:
        """Time the step without a profiler, then record it."""
        batch = facts["batch"]
        label = f"execute_context_0(0)_generation_{batch}({batch})"

        def run(count: int) -> list[float]:
            marks = [time.perf_counter()]
            for _ in range(count if self.first else int(count * (1 + MORE)) + 1):
                with record_function(label):
                    step().cpu()
                marks.append(time.perf_counter())
            return [b - a for a, b in pairwise(marks)]

        run(3)
        self.meet()
        times = run(TIMED)
        self.sync()
        kinds = [ProfilerActivity.CPU]
        kinds += [ProfilerActivity.CUDA] if self.device == "cuda" else []
        recorder = profile(activities=kinds, record_shapes=True)
        recorder.start()
        self.meet()
        traced = run(STEPS)
        self.sync()
        recorder.stop()
        if self.index == 0:
            recorder.export_chrome_trace(str(self.out / f"{name}.json"))
            row = {"name": name, **facts}
            row |= {"step_ms": 1e3 * statistics.median(times)}
            row |= {"step_ms_mean": 1e3 * statistics.fmean(times)}
            row |= {"traced_ms": 1e3 * statistics.median(traced)}
            self.write("truth.jsonl", row)
            say(f"{name}: {row['step_ms']:.3f} ms, {row['traced_ms']:.3f} ms with the profiler")
        self.meet()


def record_phase(given: dict[str, Any], index: int, barrier: Any, stopped: Any, out: Path) -> int:
    """One process of a phase."""
    return Phase(given, index, barrier, stopped, out).run()


def environment(index: int, shared: bool) -> dict[str, str]:
    """Variables of a process."""
    return {
        "NCCL_HOSTID": f"host{index}",
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        **(mps.share(mps.SHARE) if shared else {}),
    }


def try_symmetric(rank: int, port: int) -> dict[str, float]:
    """Whether processes on one GPU can add up through symmetric memory, eagerly and in a graph."""
    dist.init_process_group(
        "cpu:gloo,cuda:nccl",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=PROCESSES,
    )
    buffer = symmetric.empty(64 * 4096, dtype=torch.bfloat16, device="cuda")
    handle = symmetric.rendezvous(buffer, dist.group.WORLD)
    name = dist.group.WORLD.group_name
    buffer.fill_(rank + 1)

    def once() -> Any:
        return torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", name)

    right = bool((once() == sum(range(1, PROCESSES + 1))).all())
    replay, graph = captured(once)
    right &= bool((replay() == sum(range(1, PROCESSES + 1))).all())
    handle.barrier(channel=0)
    peer = handle.get_buffer((rank + 1) % PROCESSES, (64, 4096), torch.bfloat16)
    right &= float(peer[0, 0]) == (rank + 1) % PROCESSES + 1
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        once()
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) / 200 * 1e6
    del graph
    return {"right": float(right), "us": round(took, 1)}


def symmetric_works(work: Path) -> bool:
    """Try it in processes of their own, which may hang."""
    each = [((rank, 29480), environment(rank, True)) for rank in range(PROCESSES)]
    answers = run_all(try_symmetric, each, work, WAIT_S)
    works = all(answer is not None and answer["right"] for answer, _ in answers)
    say(f"symmetric memory {'works' if works else 'FAILS'}: {[answer for answer, _ in answers]}")
    if not works:
        say(
            "falling back to NCCL over sockets: "
            + next((e[-900:] for a, e in answers if not a), "")
        )
    return works


def run_phase(given: dict[str, Any], work: Path, until: float) -> None:
    """All processes of a phase; they are killed at `until`."""
    context = get_context("fork")
    count = 1 if given["solo"] else PROCESSES
    barrier = context.Barrier(count) if count > 1 else None
    stopped = context.Value("i", 0)
    label = f"{'solo ' if given['solo'] else ''}tp {given['ranks']}"
    say(f"{label}: starts, {until - time.monotonic():.0f} s")
    forks = [
        Fork(
            record_phase,
            (given, index, barrier, stopped, work),
            environment(index, shared=not given["solo"]),
            work / f"phase-{index}.err",
        )
        for index in range(count)
    ]
    results: dict[int, Any] = {}
    while len(results) < count and time.monotonic() < until:
        time.sleep(0.05)
        for index, fork in enumerate(forks):
            if index not in results and not fork.alive:
                results[index] = fork.wait(time.monotonic())
                if results[index] is None:
                    # The others would wait for it.
                    until = min(until, time.monotonic() + 2)
    for index, fork in enumerate(forks):
        errors = fork.end()
        if results.get(index) is None:
            say(f"{label}: process {index} FAILED or was killed: {errors[-700:]}")
    for trace in work.glob("*.json"):
        if not trace.read_bytes()[-64:].rstrip().endswith(b"}"):
            trace.unlink()
    say(f"{label}: {results.get(0)} points")


def main() -> int:
    """Record everything that fits into the time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="try the script on a CPU")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    end = START + args.seconds - PACK_S
    given: dict[str, Any] = {"device": args.device, "sizes": SIZES, "points": POINTS}
    given |= {"collective": "nccl", "solo": False}
    if args.tiny:
        given |= {"sizes": {"dense": {**TINY, "inner": 128, "kv_heads": 4}}}
        given |= {"points": ((1, 16), (4, 16))}
    say("torch is here")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with mps.serving(say) if args.device == "cuda" else nullcontext(False) as there:
            works = args.device != "cuda"
            if there:
                found = mps.probe(say, work)
                works = found["overlap"] and found["traces"]
            if works:
                if args.device == "cuda" and symmetric_works(work):
                    given["collective"] = "one_shot"
                for number, ranks in enumerate((1, 4, 2)):
                    slot = (end - LEAST_S - time.monotonic()) / (3 - number)
                    if slot < LEAST_S:
                        say(f"tp {ranks}: not started, out of time")
                        continue
                    # Asked to stop somewhat before they are killed.
                    until = time.monotonic() + slot
                    own = {"ranks": ranks, "port": 29500 + 8 * number, "end": until - 4}
                    run_phase({**given, **own}, work, until)
            else:
                say("MPS does not work here: only single ranks without collectives are recorded")
        alone = {"solo": True, "sizes": {"dense": given["sizes"]["dense"]}, "port": 0}
        for number, ranks in enumerate((1, 4, 2)):
            slot = (end - time.monotonic()) / (3 - number)
            if slot < 8:
                say(f"solo tp {ranks}: not started, out of time")
                continue
            until = time.monotonic() + slot
            run_phase({**given, **alone, "ranks": ranks, "end": until - 3}, work, until)
        files = [p for p in work.iterdir() if p.suffix in (".json", ".jsonl")]
        parts = pack(files, args.out) if files else []
    for part in parts:
        say(f"{part.name}: {part.stat().st_size / 2**20:.1f} MiB")
    say(f"done: {len(files)} files")
    return 0 if files else 3


if __name__ == "__main__":
    sys.exit(main())
