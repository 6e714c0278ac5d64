#!/usr/bin/env python3
"""Record CUDA graph captures as serving engines do, and the replays of those graphs.

    python3 record_captures.py OUT [--seconds 45]

A six-layer decoder with random weights (hidden 2048, GQA 16:4, static cache of 1024 tokens, bf16).
Per variant, a folder OUT/VARIANT with

    replay.json.gz                        each graph replayed 3 times, batch 8, 4, 2, 1, no stacks
    eager.json.gz                         the same steps launched eagerly: the truth
    capture_traces/bs_8_rank0.json.gz     one recording per captured batch size (SGLang's layout)
    capture_traces/graph_capture_rank_0.pt.trace.json.gz   all captures in one (vLLM's layout)

Variants: full (one graph per step), piecewise (attention launched eagerly between graphs), streams
(gate and up projections on two streams), compiled (torch.compile before capture).
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

HIDDEN, HEADS, KV_HEADS, DIM, FFN, LAYERS, CONTEXT = 2048, 16, 4, 128, 5632, 6, 1024
BATCHES = (8, 4, 2, 1)
Pieces = list[tuple[bool, Callable[[], object]]]
"""Parts of a step: whether each is captured, and what it does."""


class Layer(nn.Module):
    """One decoder layer, in the parts that piecewise graphs are made of."""

    def __init__(self, streams: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * DIM, bias=False)
        self.o = nn.Linear(HEADS * DIM, HIDDEN, bias=False)
        self.gate = nn.Linear(HIDDEN, FFN, bias=False)
        self.up = nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)
        self.norm1 = nn.Parameter(torch.ones(HIDDEN))
        self.norm2 = nn.Parameter(torch.ones(HIDDEN))
        self.side = torch.cuda.Stream() if streams else None
        shape = (max(BATCHES), KV_HEADS, CONTEXT, DIM)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def before(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        """Norm, projection and rotation of queries and keys."""
        h = functional.rms_norm(x, (HIDDEN,), self.norm1)
        q, k, v = self.qkv(h).split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
        b = x.shape[0]
        q, k = (t.view(b, -1, 1, DIM) for t in (q, k))
        q, k = (
            t * cos + torch.cat((-t[..., DIM // 2 :], t[..., : DIM // 2]), -1) * sin for t in (q, k)
        )
        return q, k, v.view(b, KV_HEADS, 1, DIM)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
        """Attention over the static cache."""
        b = q.shape[0]
        self.keys[:b].index_copy_(2, position, k)
        self.values[:b].index_copy_(2, position, v)
        return functional.scaled_dot_product_attention(
            q, self.keys[:b], self.values[:b], enable_gqa=True
        )

    def after(self, x: Tensor, a: Tensor) -> Tensor:
        """Output projection and feed-forward part."""
        x = x + self.o(a.reshape(x.shape[0], HEADS * DIM))
        h = functional.rms_norm(x, (HIDDEN,), self.norm2)
        if self.side is None:
            return x + self.down(functional.silu(self.gate(h)) * self.up(h))
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            up = self.up(h)
        gate = functional.silu(self.gate(h))
        here.wait_stream(self.side)
        return x + self.down(gate * up)


class Decoder(nn.Module):
    """A decoder with a static cache."""

    def __init__(self, streams: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32000, HIDDEN)
        self.layers = nn.ModuleList(Layer(streams) for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, 32000, bias=False)

    def forward(self, tokens: Tensor, position: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The next token of every request."""
        x = self.embedding(tokens)
        for layer in self.layers:
            q, k, v = layer.before(x, cos, sin)
            x = layer.after(x, layer.attend(q, k, v, position))
        return self.head(functional.rms_norm(x, (HIDDEN,))).argmax(-1)


def trace(path: Path, body: Callable[[], object], stacks: bool = False) -> None:
    """Record what `body` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds, record_shapes=True, with_stack=stacks) as run:
        body()
        torch.cuda.synchronize()
    plain = path.with_suffix("")
    run.export_chrome_trace(str(plain))
    with gzip.open(path, "wb", compresslevel=6) as packed:
        packed.write(plain.read_bytes())
    plain.unlink()


def pieces(model: Decoder, inputs: tuple[Tensor, ...]) -> Pieces:
    """The step as functions: captured ones, and attention, which runs eagerly between them."""
    tokens, position, cos, sin = inputs
    state: dict[str, Any] = {}

    def first() -> None:
        state["x"] = model.embedding(tokens)
        state["qkv"] = model.layers[0].before(state["x"], cos, sin)

    def attention(number: int) -> Callable[[], None]:
        def run() -> None:
            state["a"].copy_(model.layers[number].attend(*state["qkv"], position))

        return run

    def middle(number: int) -> Callable[[], None]:
        def run() -> None:
            layer = model.layers[number]
            state["x"] = layer.after(state["x"], state["a"])
            if number + 1 < LAYERS:
                state["qkv"] = model.layers[number + 1].before(state["x"], cos, sin)
            else:
                state["out"] = model.head(functional.rms_norm(state["x"], (HIDDEN,))).argmax(-1)

        return run

    state["a"] = torch.zeros(tokens.shape[0], HEADS, 1, DIM, device="cuda", dtype=torch.bfloat16)
    steps: Pieces = [(True, first)]
    for number in range(LAYERS):
        steps += [(False, attention(number)), (True, middle(number))]
    return steps


def captured(steps: Pieces, pool: Any) -> list[Callable[[], object]]:
    """Capture each piece that may be; what stays eager runs as it is, as vLLM's piecewise mode."""
    plan: list[Callable[[], object]] = []
    for graphed, function in steps:
        if not graphed:
            function()
            plan.append(function)
            continue
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            function()
        graph.replay()
        plan.append(graph.replay)
    return plan


def record(out: Path, name: str) -> None:
    """Record all files of a variant."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder(streams=name == "streams").to(torch.bfloat16).eval()
    call = torch.compile(model, dynamic=False) if name == "compiled" else model
    batches = BATCHES if name != "compiled" else BATCHES[:2]
    angles = torch.randn(1, 1, 1, DIM, device="cuda", dtype=torch.bfloat16)
    work: dict[int, Pieces] = {}
    plans: dict[int, list[Callable[[], object]]] = {}
    for batch in batches:
        tokens = torch.randint(0, 32000, (batch,), device="cuda")
        inputs = (tokens, torch.tensor([700], device="cuda"), angles.cos(), angles.sin())
        if name == "piecewise":
            work[batch] = pieces(model, inputs)
        else:
            work[batch] = [(True, lambda given=inputs: call(*given))]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for steps in work.values():
            for _ in range(2):
                for _, function in steps:
                    function()
    torch.cuda.synchronize()
    pool = torch.cuda.graph_pool_handle()
    folder, mode = out / name, "PIECEWISE" if name == "piecewise" else "FULL"

    def capture_one(batch: int) -> None:
        with record_function(f"capture_{batch}_{mode}"):
            plans[batch] = captured(work[batch], pool)

    trace(
        folder / "capture_traces/graph_capture_rank_0.pt.trace.json.gz",
        lambda: [capture_one(batch) for batch in batches],
        stacks=name == "full",
    )
    for batch in batches:
        trace(folder / f"capture_traces/bs_{batch}_rank0.json.gz", lambda b=batch: capture_one(b))

    def replay() -> None:
        for batch in batches:
            for _ in range(3):
                with record_function(f"execute_context_0(0)_generation_{batch}({batch})"):
                    for function in plans[batch]:
                        function()

    def eager() -> None:
        for batch in batches:
            with record_function(f"execute_context_0(0)_generation_{batch}({batch})"):
                for _, function in work[batch]:
                    function()

    replay()
    torch.cuda.synchronize()
    trace(folder / "replay.json.gz", replay)
    trace(folder / "eager.json.gz", eager)
    print(f"{name}: recorded", flush=True)


def main() -> int:
    """Record all variants; exit 1 when none could be recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=45, help="start no variant after that")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    done = 0
    for name in ("full", "piecewise", "streams", "compiled"):
        if time.monotonic() > end:
            print(f"{name}: not started, out of time", flush=True)
            continue
        try:
            with torch.no_grad():
                record(arguments.out, name)
            done += 1
        except Exception as error:  # noqa: BLE001 - reported; the other variants go on
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
