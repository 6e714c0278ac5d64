#!/usr/bin/env python3
"""Record decode steps of two models over batch and context, to score `solscope whatif`.

    python3 scripts/record_whatif.py OUT [--seconds 200] [--device cuda] [--tiny]

A dense and a mixture-of-experts decoder in plain torch, random weights, bf16. Per point of batch
and context, with a static cache of that length:

    MODEL-bB-cC.eager.json.gz   eager steps, one host synchronization each, with shapes
    MODEL-bB-cC.graph.json.gz   the same step captured as a CUDA graph and replayed
    dense8-bB-cC.*.json.gz      the dense model with fp8 products (a few points)
    compiled-MODEL-...          the same step through torch.compile (last, if time is left)
    products-{bf16,fp8}.json.gz products of the dense model's sizes over a range of rows

`truth.jsonl` has the step time of every point without a profiler. A point that fails is reported
by one line and skipped; nothing starts after --seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

BATCHES, CONTEXTS = (1, 4, 16, 64, 256), (512, 2048, 8192)
MOST_CACHE = 64 * 8192  # tokens
STEPS, TIMED = 6, 30


class Linear(nn.Module):
    """A product with weights, in bf16 or fp8."""

    def __init__(self, inner: int, outer: int, fp8: bool = False) -> None:
        super().__init__()
        self.fp8 = fp8
        weight = torch.randn(outer, inner, dtype=torch.bfloat16) * inner**-0.5
        if fp8:
            weight = weight.to(torch.float8_e4m3fn)
        self.register_buffer("weight", weight)
        self.register_buffer("one", torch.ones((), dtype=torch.float32))

    def forward(self, x: Any) -> Any:
        if not self.fp8:
            return functional.linear(x, self.weight)
        shape = x.shape
        x8 = x.reshape(-1, shape[-1]).to(torch.float8_e4m3fn)
        y = torch._scaled_mm(
            x8, self.weight.t(), scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16
        )
        return y.reshape(*shape[:-1], -1)


class Attention(nn.Module):
    """Grouped-query attention over a cache of fixed length."""

    def __init__(self, c: dict[str, int], fp8: bool) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = c["heads"], c["kv_heads"], c["head_dim"]
        self.qkv = Linear(c["hidden"], (self.heads + 2 * self.kv) * self.dim, fp8)
        self.out = Linear(self.heads * self.dim, c["hidden"], fp8)

    def forward(self, x: Any, cos: Any, sin: Any, cache: Any, position: Any) -> Any:
        b = x.shape[0]
        qkv = self.qkv(x).view(b, 1, self.heads + 2 * self.kv, self.dim)
        q, k, v = qkv.split([self.heads, self.kv, self.kv], dim=2)
        q, k = (self.rotate(t, cos, sin).transpose(1, 2) for t in (q, k))
        keys, values = cache
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v.transpose(1, 2))
        y = functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, 1, -1))

    def rotate(self, t: Any, cos: Any, sin: Any) -> Any:
        half = t.shape[-1] // 2
        turned = torch.cat((-t[..., half:], t[..., :half]), -1)
        return t * cos + turned * sin


class Mlp(nn.Module):
    """A gated feed-forward part."""

    def __init__(self, c: dict[str, int], fp8: bool) -> None:
        super().__init__()
        self.up = Linear(c["hidden"], 2 * c["inner"], fp8)
        self.down = Linear(c["inner"], c["hidden"], fp8)

    def forward(self, x: Any) -> Any:
        gate, up = self.up(x).chunk(2, -1)
        return self.down(functional.silu(gate) * up)


class Moe(nn.Module):
    """Routed experts as grouped products."""

    def __init__(self, c: dict[str, int]) -> None:
        super().__init__()
        self.experts, self.top = c["experts"], c["top"]
        self.router = Linear(c["hidden"], self.experts)
        for name, shape in (
            ("up", (self.experts, c["hidden"], 2 * c["expert_inner"])),
            ("down", (self.experts, c["expert_inner"], c["hidden"])),
        ):
            # Weights are stored as [E, out, in] and passed transposed, as grouped_mm wants them.
            weight = torch.randn(shape[0], shape[2], shape[1], dtype=torch.bfloat16) * 0.02
            self.register_buffer(name, weight)

    def forward(self, x: Any) -> Any:
        tokens = x.view(-1, x.shape[-1])
        weights, chosen = self.router(tokens).float().softmax(-1).topk(self.top)
        weights = weights / weights.sum(-1, keepdim=True)
        flat = chosen.view(-1)
        order = flat.argsort()
        ends = torch.histc(flat.float(), bins=self.experts, min=0, max=self.experts - 1)
        ends = ends.cumsum(0).to(torch.int32)
        rows = tokens[order // self.top]
        gate, up = torch._grouped_mm(rows, self.up.transpose(1, 2), offs=ends).chunk(2, -1)
        y = torch._grouped_mm(functional.silu(gate) * up, self.down.transpose(1, 2), offs=ends)
        y = y * weights.view(-1)[order].unsqueeze(-1).to(y.dtype)
        back = torch.empty_like(y)
        back[order] = y
        return back.view(-1, self.top, y.shape[-1]).sum(1).view_as(x)


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, c: dict[str, int], fp8: bool) -> None:
        super().__init__()
        self.attention = Attention(c, fp8)
        self.mlp = Moe(c) if c.get("experts") else Mlp(c, fp8)
        for name in ("first", "second"):
            self.register_buffer(name, torch.ones(c["hidden"], dtype=torch.bfloat16))

    def forward(self, x: Any, cos: Any, sin: Any, cache: Any, position: Any) -> Any:
        h = functional.rms_norm(x, x.shape[-1:], self.first)
        x = x + self.attention(h, cos, sin, cache, position)
        return x + self.mlp(functional.rms_norm(x, x.shape[-1:], self.second))


class Model(nn.Module):
    """Embedding, layers, head, greedy choice."""

    def __init__(self, c: dict[str, int], fp8: bool = False) -> None:
        super().__init__()
        self.c = c
        self.layers = nn.ModuleList(Layer(c, fp8) for _ in range(c["layers"]))
        self.register_buffer("embed", torch.randn(c["vocab"], c["hidden"], dtype=torch.bfloat16))
        self.register_buffer("last", torch.ones(c["hidden"], dtype=torch.bfloat16))
        self.head = Linear(c["hidden"], c["vocab"])
        dim = c["head_dim"]
        self.register_buffer("freq", 1e4 ** (-torch.arange(0, dim, 2).float() / dim))

    def forward(self, token: Any, cache: Any, position: Any) -> Any:
        x = functional.embedding(token, self.embed)
        angle = (position.float()[:, None] * self.freq).repeat(1, 2)[:, None]
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        for layer, own in zip(self.layers, cache, strict=True):
            x = layer(x, cos, sin, own, position)
        return self.head(functional.rms_norm(x, x.shape[-1:], self.last)).argmax(-1)


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
    "moe": {
        "hidden": 2048,
        "layers": 6,
        "heads": 32,
        "kv_heads": 4,
        "head_dim": 128,
        "experts": 128,
        "top": 8,
        "expert_inner": 768,
        "vocab": 32000,
    },
}
TINY = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 128}


class Recorder:
    """Writes traces and the table of true times."""

    def __init__(self, out: Path, device: str, end: float) -> None:
        self.out, self.device, self.end = out, device, end
        self.truth = (out / "truth.jsonl").open("a")

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def trace(self, name: str, body: Callable[[], object]) -> None:
        kinds = [ProfilerActivity.CPU]
        if self.device == "cuda":
            kinds.append(ProfilerActivity.CUDA)
        with profile(activities=kinds, record_shapes=True) as run:
            body()
            self.sync()
        path = self.out / f"{name}.json"
        run.export_chrome_trace(str(path))
        with gzip.open(f"{path}.gz", "wb", compresslevel=6) as packed:
            packed.write(path.read_bytes())
        path.unlink()

    def point(
        self, name: str, batch: int, context: int, step: Callable[[], Any], facts: dict[str, Any]
    ) -> None:
        """Time the step without a profiler, then record it."""
        label = f"execute_context_0(0)_generation_{batch}({batch})"

        def run(count: int) -> list[float]:
            marks = [time.perf_counter()]
            for _ in range(count):
                with record_function(label):
                    step().cpu()
                marks.append(time.perf_counter())
            return [b - a for a, b in pairwise(marks)]

        run(3)
        times = run(TIMED)
        self.trace(name, lambda: run(STEPS))
        row = {
            "name": name,
            "batch": batch,
            "context": context,
            **facts,
            "step_ms": 1e3 * statistics.median(times),
            "step_ms_mean": 1e3 * statistics.fmean(times),
        }
        self.truth.write(json.dumps(row) + "\n")
        self.truth.flush()
        print(f"{time.monotonic() - START:6.1f} s  {name}: {row['step_ms']:.3f} ms", flush=True)


def state(c: dict[str, int], batch: int, context: int, device: str) -> tuple[Any, Any, Any]:
    """Random token, cache and position of one step."""
    shape = (batch, c["kv_heads"], context, c["head_dim"])
    make = lambda: torch.randn(shape, device=device, dtype=torch.bfloat16)  # noqa: E731
    cache = [(make(), make()) for _ in range(c["layers"])]
    token = torch.randint(0, c["vocab"], (batch, 1), device=device)
    return token, cache, torch.tensor([context - 1], device=device)


def captured(step: Callable[[], Any]) -> Any:
    """The step as a CUDA graph: a function that replays it, and the graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = step()

    def replay() -> Any:
        graph.replay()
        return result

    return replay, graph


def record_point(recorder: Recorder, kind: str, model: Any, batch: int, context: int) -> None:
    """One point of batch and context, launched eagerly and from a graph."""
    if time.monotonic() > recorder.end:
        print(f"{kind} b{batch} c{context}: not started, out of time", flush=True)
        return
    name = f"{kind}-b{batch}-c{context}"
    facts = {"model": kind, "layers": model.c["layers"] if hasattr(model, "c") else None}
    try:
        token, cache, position = state(
            SIZES_NOW[kind.split("8")[0]], batch, context, recorder.device
        )

        def step() -> Any:
            return model(token, cache, position)

        recorder.point(f"{name}.eager", batch, context, step, {**facts, "graph": False})
        if recorder.device == "cuda":
            replay, graph = captured(step)
            recorder.point(f"{name}.graph", batch, context, replay, {**facts, "graph": True})
            del replay, graph
    except Exception as error:  # noqa: BLE001 - reported; the other points go on
        print(f"{name}: FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
    finally:
        token = cache = position = step = None
        if recorder.device == "cuda":
            torch.cuda.empty_cache()


def record_products(recorder: Recorder, c: dict[str, int], tiny: bool) -> None:
    """Products of the dense model's sizes in bf16 and fp8; weights rotate past the caches."""
    outs = {
        "qkv": (c["hidden"], (c["heads"] + 2 * c["kv_heads"]) * c["head_dim"]),
        "o": (c["heads"] * c["head_dim"], c["hidden"]),
        "up": (c["hidden"], 2 * c["inner"]),
        "down": (c["inner"], c["hidden"]),
    }
    rows = (16,) if tiny else (1, 4, 16, 64, 256, 1024, 4096)
    one = torch.ones((), device=recorder.device)
    for dtype in ("bf16", "fp8"):
        calls = []
        for inner, outer in outs.values():
            copies = 1 if tiny else max(1, min(8, int(400e6 / (inner * outer * 2)) + 1))
            weights = [
                torch.randn(outer, inner, device=recorder.device, dtype=torch.bfloat16)
                for _ in range(copies)
            ]
            if dtype == "fp8":
                weights = [w.to(torch.float8_e4m3fn) for w in weights]
            for m in rows:
                x = torch.randn(m, inner, device=recorder.device, dtype=torch.bfloat16)
                calls.append((x if dtype == "bf16" else x.to(torch.float8_e4m3fn), weights))

        def run(dtype: str = dtype, calls: Any = calls) -> None:
            for x, weights in calls:
                for at in range(8):
                    w = weights[at % len(weights)].t()
                    if dtype == "bf16":
                        torch.mm(x, w)
                    else:
                        torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

        run()
        recorder.sync()
        recorder.trace(f"products-{dtype}", run)
        print(f"products-{dtype}", flush=True)


def main() -> int:
    """Record everything that fits into the time."""
    global SIZES_NOW, START
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="try the script on a CPU")
    args = parser.parse_args()
    START = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(args.out, args.device, START + args.seconds)
    SIZES_NOW = SIZES
    batches, contexts = BATCHES, CONTEXTS
    if args.tiny:
        batches, contexts = (1, 4), (16,)
        SIZES_NOW = {
            "dense": {**TINY, "inner": 128},
            "moe": {**TINY, "experts": 8, "top": 2, "expert_inner": 32},
        }
    torch.manual_seed(0)

    def build(kind: str) -> Any:
        with torch.device(args.device):
            return Model(SIZES_NOW[kind.removesuffix("8")], kind.endswith("8")).eval()

    models = {kind: build(kind) for kind in ("dense", "moe")}
    with torch.no_grad():
        points = [(b, c) for c in contexts for b in batches if b * c <= MOST_CACHE]
        for batch, context in points:
            for kind, model in models.items():
                record_point(recorder, kind, model, batch, context)
        try:
            record_products(recorder, SIZES_NOW["dense"], args.tiny)
            models["dense8"] = build("dense8")
            for batch, context in [p for p in points if p[0] in (1, 16, 64, 256) and p[1] < 8192]:
                record_point(recorder, "dense8", models["dense8"], batch, context)
        except Exception as error:  # noqa: BLE001
            print(f"fp8: FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
        for kind in ("dense", "moe"):
            if args.tiny or time.monotonic() > recorder.end - 30:
                break
            model, (batch, context) = models[kind], (16, 2048)
            token, cache, position = state(SIZES_NOW[kind], batch, context, args.device)
            compiled = partial(torch.compile(model, dynamic=False), token, cache, position)
            try:
                recorder.point(
                    f"compiled-{kind}-b{batch}-c{context}.eager",
                    batch,
                    context,
                    compiled,
                    {"model": kind, "graph": False, "compiled": True},
                )
            except Exception as error:  # noqa: BLE001
                print(f"compiled {kind}: FAILED {type(error).__name__}: {str(error)[:200]}")
    print(f"done in {time.monotonic() - START:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
