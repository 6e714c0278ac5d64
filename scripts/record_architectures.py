#!/usr/bin/env python3
"""Record small models of many Hugging Face architectures, for scoring layers and roles.

    python3 scripts/record_architectures.py OUT [--only NAME,...] [--device cuda]

Random weights, 4 or 6 layers; needs `transformers` and, for replays, a GPU. Per architecture:

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
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 16384,
    "hidden_size": 1024,
    "n_embd": 1024,
    "d_model": 1024,
    "intermediate_size": 2816,
    "ffn_dim": 2816,
    "n_inner": 4096,
    "num_attention_heads": 16,
    "n_head": 16,
    "n_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 2048,
    "max_seq_len": 2048,
    "n_positions": 2048,
    "sliding_window": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""Sizes that a config takes where it has the field; overridden per architecture below."""

MOE = {
    "num_experts": 16,
    "num_local_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 768,
}

DECODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    # name: (model type, layers, what differs from SIZES)
    "apertus": ("apertus", 6, {}),
    "arcee": ("arcee", 6, {}),
    "biogpt": ("biogpt", 6, {"num_key_value_heads": 16}),
    "bloom": ("bloom", 6, {}),
    "codegen": ("codegen", 6, {"rotary_dim": 32, "n_ctx": 2048}),
    "cohere": ("cohere", 6, {}),
    "dbrx": ("dbrx", 4, {}),
    "deepseekv2": (
        "deepseek_v2",
        4,
        {
            "num_key_value_heads": 16,
            "q_lora_rank": 384,
            "kv_lora_rank": 256,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 32,
            "v_head_dim": 64,
            "head_dim": 32,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 768,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
            "n_shared_experts": 2,
        },
    ),
    "diffllama": ("diffllama", 6, {}),
    "dots1": (
        "dots1",
        4,
        {
            **MOE,
            "n_routed_experts": 16,
            "n_group": 1,
            "topk_group": 1,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
        },
    ),
    "ernie45": ("ernie4_5", 6, {}),
    "ernie45moe": (
        "ernie4_5_moe",
        4,
        {
            "moe_num_experts": 16,
            "moe_k": 4,
            "moe_intermediate_size": 768,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 3,
        },
    ),
    "exaone4": ("exaone4", 6, {}),
    "falcon": (
        "falcon",
        6,
        {"new_decoder_architecture": False, "multi_query": True, "parallel_attn": True},
    ),
    "gemma2": ("gemma2", 6, {"query_pre_attn_scalar": 64}),
    "glm4": ("glm4", 6, {}),
    "gptbigcode": ("gpt_bigcode", 6, {}),
    "gptj": ("gptj", 6, {"rotary_dim": 32}),
    "granite": ("granite", 6, {}),
    "granitemoe": ("granitemoe", 4, MOE),
    "granitemoehybrid": (
        "granitemoehybrid",
        4,
        {
            **MOE,
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
            "mamba_n_heads": 32,
            "mamba_d_head": 64,
            "mamba_d_state": 64,
            "mamba_n_groups": 1,
            "shared_intermediate_size": 1024,
        },
    ),
    "helium": ("helium", 6, {}),
    "hunyuan": ("hunyuan_v1_dense", 6, {}),
    "jamba": (
        "jamba",
        6,
        {
            **MOE,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "attn_layer_period": 3,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "use_mamba_kernels": False,
            "mamba_d_state": 16,
            "mamba_dt_rank": 64,
        },
    ),
    "jetmoe": ("jetmoe", 4, {"num_local_experts": 8, "num_experts_per_tok": 2, "kv_channels": 64}),
    "lfm2": (
        "lfm2",
        6,
        {"layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention"]},
    ),
    "mamba2": ("mamba2", 6, {"num_heads": 32, "head_dim": 64, "state_size": 64, "n_groups": 1}),
    "minimax": (
        "minimax",
        4,
        {
            **MOE,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "layer_types": ["linear_attention", "full_attention"] * 2,
            "block_size": 64,
        },
    ),
    "ministral": ("ministral", 6, {}),
    "mistral": ("mistral", 6, {}),
    "mpt": ("mpt", 6, {}),
    "nemotronh": (
        "nemotron_h",
        6,
        {
            "layers_block_type": [
                "linear_attention",
                "mlp",
                "linear_attention",
                "full_attention",
                "mlp",
                "linear_attention",
            ],
            "mamba_num_heads": 32,
            "mamba_head_dim": 64,
            "ssm_state_size": 64,
            "n_groups": 1,
        },
    ),
    "olmo": ("olmo", 6, {}),
    "olmo3": ("olmo3", 6, {}),
    "olmoe": ("olmoe", 4, {**MOE, "num_key_value_heads": 16, "intermediate_size": 768}),
    "persimmon": ("persimmon", 6, {"num_key_value_heads": 16}),
    "phi": ("phi", 6, {}),
    "phimoe": ("phimoe", 4, MOE),
    "qwen2": ("qwen2", 6, {}),
    "qwen2moe": (
        "qwen2_moe",
        4,
        {**MOE, "shared_expert_intermediate_size": 1024, "decoder_sparse_step": 1},
    ),
    "qwen3": ("qwen3", 6, {}),
    "recurrentgemma": ("recurrent_gemma", 6, {"lru_width": 1024, "attention_window_size": 128}),
    "seedoss": ("seed_oss", 6, {}),
    "smollm3": ("smollm3", 6, {}),
    "stablelm": ("stablelm", 6, {}),
    "xglm": ("xglm", 6, {"attention_heads": 16}),
    "zamba2": (
        "zamba2",
        6,
        {
            "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "mamba", "hybrid"],
            "hybrid_layer_ids": [2, 5],
            "num_mem_blocks": 1,
            "mamba_headdim": 64,
            "n_mamba_heads": 32,
            "mamba_d_state": 64,
            "mamba_ngroups": 1,
            "attention_hidden_size": 2048,
            "attention_head_dim": 128,
            "num_key_value_heads": 16,
            "kv_channels": 64,
            "adapter_rank": 64,
            "use_shared_attention_adapter": False,
        },
    ),
}

ENCODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "bert": ("bert", 6, {}),
    "modernbert": ("modernbert", 6, {}),
    "roberta": ("roberta", 6, {"max_position_embeddings": 2050}),
    "vit": ("vit", 6, {"image_size": 224}),
    "dinov2": ("dinov2", 6, {"image_size": 224}),
    "siglip": ("siglip_vision_model", 6, {"image_size": 224, "patch_size": 16}),
    "clip": ("clip", 6, {}),
    "owlv2": ("owlv2", 6, {}),
    "whisper": ("whisper", 4, {"encoder_attention_heads": 16, "decoder_attention_heads": 16}),
    "t5": ("t5", 4, {}),
}


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
    if model_type in ("vit", "dinov2", "siglip_vision_model"):
        kwargs = {"pixel_values": pixels}
    elif model_type in ("clip", "owlv2"):
        kwargs = {
            "input_ids": ids[:, :16],
            "pixel_values": pixels,
            "attention_mask": torch.ones_like(ids[:, :16]),
        }
    elif model_type == "whisper":
        frames = torch.randn(batch, config.num_mel_bins, 3000, device=device, dtype=dtype)
        kwargs = {"input_features": frames, "decoder_input_ids": ids}
    elif model_type == "t5":
        kwargs = {"input_ids": ids, "decoder_input_ids": ids}
    else:
        kwargs = {"input_ids": ids.repeat(1, 4)}

    def run() -> None:
        for _ in range(2):
            with record_function("forward"):
                model(**kwargs)

    run()
    recorder.record(f"{name}.stack", run, stacks=True)


def record(recorder: Recorder, name: str, batch: int, prompt: int) -> None:
    """Record one architecture; a graph that cannot be captured is reported."""
    import torch

    model_type, layers, changes = {**DECODERS, **ENCODERS}[name]
    label = f"{name}-{layers}l"
    config = config_of(model_type, layers, changes)
    if name in ENCODERS:
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


def one_process_each(names: list[str], arguments: argparse.Namespace) -> int:
    """Record every architecture in a process of its own: a failed capture leaves CUDA unusable.

    Four start at a time, because imports take longest; a lock lets one of them use the GPU.
    """

    def start(name: str) -> int:
        command = [sys.executable, __file__, str(arguments.out), "--only", name]
        command += ["--device", arguments.device, "--batch", str(arguments.batch)]
        command += ["--prompt", str(arguments.prompt)]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(4) as pool:
        return sum(code == 0 for code in pool.map(start, names))


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
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in arguments.only.split(",") if name] or [*DECODERS, *ENCODERS]
    if len(names) > 1:
        return 0 if one_process_each(names, arguments) else 1
    import torch
    import transformers  # noqa: F401 - imported before the lock is taken: it takes seconds

    with (arguments.out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with torch.no_grad():
                recorder = Recorder(arguments.out, arguments.device)
                record(recorder, names[0], arguments.batch, arguments.prompt)
        except Exception as error:  # noqa: BLE001 - reported; the other architectures go on
            print(f"{names[0]}: FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
