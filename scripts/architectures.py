"""Architectures to record: model types of `transformers` and what differs from the usual sizes.

`DECODERS`, `ENCODERS` and `DIFFUSION` have been looked at while the rules of `solscope.attribution`
were written. `HELD_OUT` is scored once, after the rules are final.
"""

from __future__ import annotations

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

MLA = {
    "num_key_value_heads": 16,
    "q_lora_rank": 384,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "head_dim": 32,
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
    "gpt2": ("gpt2", 6, {}),
    "glm4moelite": (
        "glm4_moe_lite",
        4,
        {
            **MLA,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 768,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        },
    ),
    "olmohybrid": (
        "olmo_hybrid",
        6,
        {
            "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
            "linear_num_key_heads": 8,
            "linear_num_value_heads": 8,
            "linear_key_head_dim": 64,
            "linear_value_head_dim": 128,
        },
    ),
    "minicpm3": ("minicpm3", 6, MLA),
    "lfm2moe": (
        "lfm2_moe",
        6,
        {
            **MOE,
            "num_dense_layers": 2,
            "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention"],
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
    "t5": ("t5", 4, {}),
    "distilbert": ("distilbert", 6, {"dim": 1024, "hidden_dim": 2816}),
    "siglip2towers": ("siglip", 6, {}),
    "bart": ("bart", 4, {"encoder_ffn_dim": 2816, "decoder_ffn_dim": 2816}),
    "debertav2": ("deberta-v2", 6, {}),
}

DIFFUSION = {"dit": 6, "sd3": 6, "flux": 6}
"""Written out in `diffusion_models.py`: name and number of blocks."""

HELD_OUT_DECODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "falconmamba": ("falcon_mamba", 6, {"intermediate_size": 2048, "time_step_rank": 64}),
    "hunyuanmoe": ("hunyuan_v1_moe", 4, {"num_experts": 8, "moe_topk": 2}),
    "gemma": ("gemma", 6, {}),
    "longcatflash": (
        "longcat_flash",
        4,
        {
            **MLA,
            "num_layers": 2,
            "ffn_hidden_size": 2816,
            "n_routed_experts": 16,
            "zero_expert_num": 4,
            "moe_topk": 4,
            "expert_ffn_hidden_size": 768,
        },
    ),
    "exaonemoe": (
        "exaone_moe",
        4,
        {
            **MOE,
            "sliding_window": 128,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        },
    ),
    "nanochat": ("nanochat", 6, {"num_key_value_heads": 16}),
    "bitnet": ("bitnet", 6, {}),
    "gptneo": (
        "gpt_neo",
        6,
        {"num_heads": 16, "attention_types": [[["global", "local"], 3]], "intermediate_size": 4096},
    ),
    "modernbertdecoder": ("modernbert-decoder", 6, {}),
    "afmoe": (
        "afmoe",
        4,
        {**MOE, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
    ),
    "kimilinear": (
        "kimi_linear",
        4,
        {
            **MLA,
            "q_lora_rank": None,
            "num_experts": 16,
            "num_experts_per_token": 4,
            "moe_intermediate_size": 768,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
            "linear_head_dim": 64,
            "linear_num_heads": 16,
        },
    ),
    "deepseekv3": (
        "deepseek_v3",
        4,
        {
            **MLA,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 768,
            "first_k_dense_replace": 1,
            "n_group": 4,
            "topk_group": 2,
            "n_shared_experts": 1,
        },
    ),
    "qwen3next": (
        "qwen3_next",
        4,
        {
            **MOE,
            "shared_expert_intermediate_size": 768,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
            "linear_num_key_heads": 8,
            "linear_num_value_heads": 16,
            "linear_key_head_dim": 64,
            "linear_value_head_dim": 64,
        },
    ),
    "qwen3moe": ("qwen3_moe", 4, {**MOE, "decoder_sparse_step": 1}),
    "mamba": ("mamba", 6, {"intermediate_size": 2048, "time_step_rank": 64}),
}

HELD_OUT_ENCODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "owlvit": ("owlvit", 6, {}),
    "whisper": ("whisper", 4, {"encoder_attention_heads": 16, "decoder_attention_heads": 16}),
    "dinov3": ("dinov3_vit", 6, {"image_size": 224}),
    "electra": ("electra", 6, {"embedding_size": 256}),
    "beit": ("beit", 6, {"image_size": 224}),
    "mt5": ("mt5", 4, {"d_ff": 2816, "num_heads": 16}),
}

HELD_OUT_DIFFUSION = {"pixart": 6}
