#!/usr/bin/env python3
"""Record small models of many Hugging Face architectures, for scoring layers and roles.

    python3 scripts/record_architectures.py OUT [--only NAME,...] [--held-out] [--seconds N]

`architectures.py` lists them; --held-out takes those that are kept for a final score. Random
weights, 4 or 6 layers; needs `transformers` and, for replays, a GPU. Per architecture:

    NAME.stack.json.gz  one prefill (4 x 256 tokens) and two decode steps, eager, with Python stacks
    NAME.twin.json.gz   one eager decode step with a static cache, batch 8, with Python stacks
    NAME.graph.json.gz  the same step captured as a CUDA graph and replayed four times, no stacks

Encoders are recorded as NAME.stack.json.gz only: two forward passes annotated `forward`. Module
names in the stacks are the truth that `evaluate_layers` scores against. An architecture that
cannot be built, run or captured is reported and skipped.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from architectures import (
    DECODERS,
    DIFFUSION,
    ENCODERS,
    HELD_OUT_DECODERS,
    HELD_OUT_DIFFUSION,
    HELD_OUT_ENCODERS,
    SIZES,
)

AT_ONCE = 4
LAST_S = 15
"""How long an architecture that was started may go on after the time is up."""


def config_of(model_type: str, layers: int, changes: dict[str, Any]) -> Any:
    """The default config of a model type at the sizes above."""
    from transformers import AutoConfig

    probe = AutoConfig.for_model(model_type)
    fields = set(probe.to_dict())
    values = {key: value for key, value in SIZES.items() if key in fields}
    for name in (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "encoder_layers",
        "decoder_layers",
        "num_decoder_layers",
    ):
        if name in fields:
            values[name] = layers
    if "layer_types" in fields and "layer_types" not in changes and probe.to_dict()["layer_types"]:
        values["layer_types"] = probe.to_dict()["layer_types"][:layers]
    values.update(changes)
    if model_type in ("bloom", "gpt_bigcode", "mpt", "falcon"):
        values.pop("num_key_value_heads", None)
    if model_type == "dbrx":
        values["attn_config"] = {"kv_n_heads": 4, "rope_theta": 10000.0, "clip_qkv": 8}
        values["ffn_config"] = {
            "ffn_hidden_size": 768,
            "moe_num_experts": 16,
            "moe_top_k": 4,
            "hidden_size": 1024,
        }
    return AutoConfig.for_model(model_type, **values)


def build(config: Any, cls: str, device: str) -> Any:
    """A model with random weights in bf16."""
    import torch
    import transformers

    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(transformers, cls).from_config(config, dtype=torch.bfloat16)
    return model.to(device=device, dtype=torch.bfloat16).eval()


class Recorder:
    """Writes one trace per call; stacks and module names where asked."""

    def __init__(self, out: Path, device: str) -> None:
        self.out = out
        self.device = device

    def record(self, name: str, body: Callable[[], None], stacks: bool) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.device == "cuda" else [])
        with profile(
            activities=kinds, record_shapes=True, with_stack=stacks, with_modules=stacks
        ) as run:
            body()
            if self.device == "cuda":
                torch.cuda.synchronize()
        path = self.out / f"{name}.json"
        run.export_chrome_trace(str(path))
        with gzip.open(f"{path}.gz", "wb", compresslevel=9) as packed:
            packed.write(path.read_bytes())
        path.unlink()


def record_decoder(recorder: Recorder, name: str, model: Any, batch: int, prompt: int) -> None:
    """One prefill and two decode steps, eager, annotated."""
    import torch
    from torch.profiler import record_function

    def run() -> None:
        ids = torch.randint(3, 1000, (batch, prompt), device=recorder.device)
        with record_function("prefill"):
            out = model(input_ids=ids, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        for step in range(2):
            with record_function("decode_step"):
                cache = getattr(out, "past_key_values", None)
                if cache is None:
                    cache = getattr(out, "cache_params", None)
                    extra = {
                        "cache_params": cache,
                        "cache_position": torch.tensor([prompt + step], device=recorder.device),
                    }
                else:
                    extra = {"past_key_values": cache}
                out = model(input_ids=token, use_cache=True, **extra)
                token = out.logits[:, -1:].argmax(-1)

    run()
    recorder.record(f"{name}.stack", run, stacks=True)


def record_replay(recorder: Recorder, name: str, model: Any, batch: int, context: int) -> None:
    """An eager decode step with a static cache, and its replay from a CUDA graph."""
    import torch
    from transformers import StaticCache

    device = recorder.device
    cache = StaticCache(config=model.config, max_cache_len=512)
    ids = torch.randint(3, 1000, (batch, context), device=device)
    positions = torch.arange(context, device=device)
    model(input_ids=ids, past_key_values=cache, cache_position=positions, use_cache=True)
    token = torch.randint(3, 1000, (batch, 1), device=device)
    position = torch.tensor([context], device=device)
    ids_at = position[None].expand(batch, 1).contiguous()

    def step() -> Any:
        return (
            model(
                input_ids=token,
                past_key_values=cache,
                cache_position=position,
                position_ids=ids_at,
                use_cache=True,
            )
            .logits[:, -1:]
            .argmax(-1)
        )

    record_graph(recorder, name, step)


def record_graph(recorder: Recorder, name: str, step: Callable[[], Any]) -> None:
    """A step as it is, and captured as a CUDA graph and replayed."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()

    def replay() -> None:
        for _ in range(4):
            graph.replay()

    recorder.record(f"{name}.twin", lambda: (step(), None)[1], stacks=True)
    recorder.record(f"{name}.graph", replay, stacks=False)


def record_encoder(recorder: Recorder, name: str, model_type: str, model: Any, batch: int) -> None:
    """Two forward passes of an encoder, a pair of towers or an encoder-decoder, annotated."""
    import torch
    from torch.profiler import record_function

    device, config = recorder.device, model.config
    ids = torch.randint(3, 1000, (batch, 64), device=device)
    dtype = torch.bfloat16
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    pixels = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
    kwargs: dict[str, Any]
    if model_type in ("vit", "dinov2", "siglip_vision_model", "dinov3_vit", "beit", "deit"):
        kwargs = {"pixel_values": pixels}
    elif model_type == "wav2vec2":
        kwargs = {"input_values": torch.randn(batch, 80000, device=device, dtype=dtype)}
    elif model_type == "siglip":
        kwargs = {"input_ids": ids, "pixel_values": pixels}
    elif model_type in ("clip", "owlv2", "owlvit", "chinese_clip"):
        kwargs = {
            "input_ids": ids[:, :16],
            "pixel_values": pixels,
            "attention_mask": torch.ones_like(ids[:, :16]),
        }
    elif model_type == "whisper":
        frames = torch.randn(batch, config.num_mel_bins, 3000, device=device, dtype=dtype)
        kwargs = {"input_features": frames, "decoder_input_ids": ids}
    elif model_type in ("t5", "mt5", "umt5", "bart", "pegasus"):
        kwargs = {"input_ids": ids, "decoder_input_ids": ids}
    else:
        kwargs = {"input_ids": ids.repeat(1, 4)}

    def run() -> None:
        for _ in range(2):
            with record_function("forward"):
                model(**kwargs)

    run()
    recorder.record(f"{name}.stack", run, stacks=True)


def record_diffusion(recorder: Recorder, name: str, blocks: int, batch: int) -> None:
    """Two denoising steps of a diffusion transformer, annotated, and their replay."""
    import torch
    from diffusion_models import build as build_diffusion
    from diffusion_models import inputs
    from torch.profiler import record_function

    torch.manual_seed(0)
    model = build_diffusion(name, blocks).to(recorder.device, torch.bfloat16).eval()
    given = inputs(batch, recorder.device)
    label = f"{name}-{blocks}l"

    def run() -> None:
        for _ in range(2):
            with record_function("forward"):
                model(*given)

    run()
    recorder.record(f"{label}.stack", run, stacks=True)
    print(f"{label}: stack", flush=True)
    if recorder.device == "cuda":
        record_graph(recorder, label, lambda: model(*given))
        print(f"{label}: twin, graph", flush=True)


def record(recorder: Recorder, name: str, batch: int, prompt: int) -> None:
    """Record one architecture; a graph that cannot be captured is reported."""
    import torch

    diffusion = {**DIFFUSION, **HELD_OUT_DIFFUSION}
    if name in diffusion:
        record_diffusion(recorder, name, diffusion[name], batch)
        return
    encoders = {**ENCODERS, **HELD_OUT_ENCODERS}
    model_type, layers, changes = {**DECODERS, **HELD_OUT_DECODERS, **encoders}[name]
    label = f"{name}-{layers}l"
    config = config_of(model_type, layers, changes)
    if name in encoders:
        model = build(config, "AutoModel", recorder.device)
        record_encoder(recorder, label, model_type, model, batch)
        print(f"{label}: stack", flush=True)
        return
    model = build(config, "AutoModelForCausalLM", recorder.device)
    record_decoder(recorder, label, model, batch, prompt)
    print(f"{label}: stack", flush=True)
    if recorder.device == "cuda":
        torch.cuda.synchronize()
        try:
            record_replay(recorder, label, model, 8, 128)
            print(f"{label}: twin, graph", flush=True)
        except Exception as error:  # noqa: BLE001 - many models cannot be captured; any error may say so
            print(f"{label}: no graph: {type(error).__name__}: {str(error)[:120]}", flush=True)


def record_alone(name: str, arguments: argparse.Namespace) -> None:
    """Record one architecture while no other process uses the GPU; exit 1 where that fails."""
    import torch
    import transformers  # noqa: F401 - imported before the lock is taken: it takes seconds

    with (arguments.out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with torch.no_grad():
                recorder = Recorder(arguments.out, arguments.device)
                record(recorder, name, arguments.batch, arguments.prompt)
        except Exception as error:  # noqa: BLE001 - reported; the other architectures go on
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
            sys.exit(1)


def one_process_each(names: list[str], arguments: argparse.Namespace) -> int:
    """Record every architecture in a process of its own: a failed capture leaves CUDA unusable.

    Imports take longest. They are made once; processes are forked from this one, which never uses
    the GPU. Four run at a time, and a lock lets one of them use it.
    """
    import torch
    import transformers  # noqa: F401 - for the processes

    torch.set_num_threads(1)
    end = time.monotonic() + arguments.seconds
    fork = multiprocessing.get_context("fork")
    running: list[Any] = []
    for name in names:
        while sum(process.is_alive() for process in running) >= AT_ONCE:
            time.sleep(0.1)
        if time.monotonic() > end:
            print(f"{name}: not started, out of time", flush=True)
            continue
        # Kineto wants to be set up on the thread that imported torch: this one.
        process = fork.Process(target=record_alone, args=(name, arguments), name=name)
        process.start()
        running.append(process)
    for process in running:
        process.join(max(end - time.monotonic(), 0) + LAST_S)
        if process.is_alive():
            process.kill()
            print(f"{process.name}: stopped, out of time", flush=True)
    return sum(process.exitcode == 0 for process in running)


def alternating(*groups: Iterable[str]) -> list[str]:
    """One name of each group in turn, so that time runs out for all groups alike."""
    turns = zip_longest(*groups)
    return [name for turn in turns for name in turn if name is not None]


def main() -> int:
    """Record what is asked for; exit 1 when nothing could be recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600, help="start nothing after that")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    listed = [*DECODERS, *ENCODERS, *DIFFUSION]
    if arguments.held_out:
        listed = alternating(HELD_OUT_DECODERS, HELD_OUT_ENCODERS, HELD_OUT_DIFFUSION)
    names = [name for name in arguments.only.split(",") if name] or listed
    if len(names) > 1:
        return 0 if one_process_each(names, arguments) else 1
    record_alone(names[0], arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
