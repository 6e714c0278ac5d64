"""Sizes from a model's config, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.attribution.role_names import ROLES
from solscope.errors import InputError
from solscope.operators import operator
from solscope.operators.calls.lengths import Sums
from solscope.operators.from_config import (
    ROLE_RULES,
    Config,
    Model,
    RoleCall,
    axes_of,
    load_model,
    parse_model,
)

LLAMA = Config(
    model_type="llama",
    hidden_size=64,
    num_attention_heads=8,
    num_key_value_heads=2,
    intermediate_size=96,
    vocab_size=1000,
    torch_dtype="bfloat16",
)
MOE = msgspec.structs.replace(
    LLAMA,
    model_type="gpt_oss",
    num_local_experts=16,
    num_experts_per_tok=4,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"],
    quantization_config={
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["self_attn", "router", "embed_tokens", "lm_head"],
    },
)
DECODE = RoleCall("qkv", "decode", 0, "attention+dense", "kernel", 4, 4, None)


def axes(role: str, config: Config = LLAMA, context: int | None = None, **more: Any) -> Any:
    model = Model(config, "config.json", batch=3, context=context)
    return axes_of(replace(DECODE, role=role, **more), model)


def test_every_rule_is_for_a_role() -> None:
    assert set(ROLE_RULES) <= set(ROLES)


@pytest.mark.parametrize(
    ("role", "n", "k"),
    [
        ("qkv", 8 * (8 + 2 * 2), 64),
        ("o_proj", 64, 8 * 8),
        ("up_gate", 2 * 96, 64),
        ("down", 64, 96),
        ("lm_head", 1000, 64),
    ],
)
def test_products(role: str, n: int, k: int) -> None:
    assert axes(role) == ("dense_gemm", {"m": 4, "n": n, "k": k, "dtype": "bf16"})


def test_ranks_share_heads_and_widths() -> None:
    assert axes("qkv", ranks=4)[1]["n"] == 8 * (2 + 2 * 1)
    assert axes("down", ranks=4)[1]["k"] == 24
    assert axes("lm_head", ranks=4)[1]["n"] == 250


def test_tokens_of_the_step_before_those_given() -> None:
    assert axes("qkv", tokens=None)[1]["m"] == 3
    assert axes("qkv", tokens=None, phase="prefill") == "the tokens of the step are not known"
    assert axes("lm_head", phase="prefill", tokens=100, requests=2)[1]["m"] == 2


def test_experts_count_the_fewest_and_expect_uniform_routing() -> None:
    more: dict[str, Any] = {"layer_kind": "attention+moe", "kernels": "matmul_bf16xbf16xmxfp4"}
    name, found = axes("up_gate", MOE, **more)
    assert name == "grouped_gemm"
    least, likely = operator(name).cost(found), operator(name).expected
    weights = 64 * 192 * 4.25 / 8
    assert least.flops == {"tensor.bf16": 2 * 16 * 64 * 192}
    assert least.read_bytes["weights"] == 4 * weights
    assert least.read_bytes["activations"] == 2 * 4 * 64
    assert least.write_bytes["activations"] == 2 * 16 * 96
    assert likely is not None
    uniform = 16 * (1 - (1 - 4 / 16) ** 4)
    assert likely(found).read_bytes["weights"] == pytest.approx(uniform * weights)
    assert axes("up_gate", MOE, **{**more, "kernels": "?"})[1]["dtype"] == "fp4"
    assert "weight_bits" not in axes("qkv", MOE, **more)[1]


def test_keys_of_decode_attention() -> None:
    assert axes("attention") == "the context is not known: give --context"
    assert axes("attention", context=1024)[1]["keys"] == 1024
    assert axes("attention", keys=4003)[1]["keys"] == 1000
    assert axes("attention", MOE, context=1024)[1]["keys"] == 128
    assert axes("attention", MOE, context=1024, layer=1)[1]["keys"] == 1024
    # 4003 keys of four requests: 1 + 1 + 1 + 4000, of which the window leaves 1 + 1 + 1 + 128.
    assert axes("attention", MOE, keys=4003)[1]["keys"] == 131 // 4


def test_prefill_attention_counts_new_tokens() -> None:
    found = axes("attention", phase="prefill", tokens=100, requests=2)[1]
    assert (found["batch"], found["queries"], found["keys"], found["causal"]) == (2, 50, 50, True)
    assert isinstance(axes("attention", phase="mixed", tokens=100), str)


VLLM_MIXED: dict[str, Any] = {
    # Two prompts of 10 and 6 tokens, the first after 4 cached ones; 3 decodes with 90 keys in all
    "phase": "mixed",
    "tokens": 19,
    "requests": 5,
    "prefilling": Sums(2, 16, 20, 136, 176),
    "decoding": Sums(3, 3, 90, 3, 90),
}


def test_attention_of_a_mixed_step_has_the_pairs_of_its_sums() -> None:
    name, found = axes("attention", **VLLM_MIXED)
    assert (name, found["sequences"]) == ("unified_attention", [[8, 10, 2], [1, 30, 3]])
    # 10 x 14 - 45 and 6 x 6 - 15, and 90: 206 pairs of 8 heads of 8 values
    assert found["pairs"] == 95 + 21 + 90
    assert operator(name).cost(found).flops["tensor.bf16"] == 4 * 8 * 8 * 206


def test_a_window_leaves_the_fewest_pairs_of_a_mixed_step() -> None:
    narrow = msgspec.structs.replace(MOE, sliding_window=4)
    _, found = axes("attention", narrow, **VLLM_MIXED)
    # Two prompts of 8: 1 + 2 + 3 + 4 x 5 pairs each. 90 keys of 3: 1 + 1 + 88, of which 1 + 1 + 4
    assert found["pairs"] == 2 * 26 + 3 * 2
    assert found["sequences"] == [[8, 8, 2], [1, 2, 3]]


MLA = msgspec.structs.replace(
    LLAMA,
    model_type="deepseek_v3",
    q_lora_rank=24,
    kv_lora_rank=16,
    qk_nope_head_dim=6,
    qk_rope_head_dim=2,
    v_head_dim=5,
    n_routed_experts=8,
    n_shared_experts=2,
    moe_intermediate_size=12,
    num_experts_per_tok=2,
)


def test_products_of_latents() -> None:
    _, found = axes("kv_b", MLA, products=2)
    assert (found["m"], found["n"], found["k"]) == (4, 8 * (6 + 5), 16)
    # One kernel may be either half of the absorbed form.
    assert axes("kv_b", MLA)[1]["n"] == 8 * 5
    assert axes("kv_write", MLA) == ("scatter", {"value_bytes": 2 * 4 * 18, "write_bytes": 4 * 18})


def test_attention_on_latents() -> None:
    name, found = axes("attention", MLA, context=100)
    assert (name, found["contexts"]) == ("mla_decode_attention", [[100, 4]])
    assert (found["q_heads"], found["latent_dim"], found["rope_dim"]) == (8, 16, 2)
    name, found = axes("attention", MLA, phase="prefill", tokens=20, requests=2)
    assert (name, found["sequences"]) == ("mla_prefill_attention", [[10, 10, 2]])
    assert (found["nope_dim"], found["rope_dim"], found["v_dim"]) == (6, 2, 5)


def test_shared_experts_are_one_gated_mlp() -> None:
    name, found = axes("shared_expert", MLA, layer_kind="attention+moe", ranks=2)
    cost = operator(name).cost(found)
    # 4 tokens, hidden 64, half of 2 x 12 inner values on each of 2 ranks; three matrices
    assert cost.flops == {"tensor.bf16": 2 * 4 * 3 * 64 * 12}
    assert cost.read_bytes["weights"] == 2 * 3 * 64 * 12
    assert cost.write_bytes == {"activations": 2 * 4 * 64}
    other = msgspec.structs.replace(MLA, shared_expert_intermediate_size=40)
    assert axes("shared_expert", other)[1]["n"] == 3 * 40


LINEAR = msgspec.structs.replace(
    LLAMA,
    model_type="qwen3_next",
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=16,
    linear_conv_kernel_dim=4,
)


def test_linear_attention() -> None:
    def of(role: str, **more: Any) -> Any:
        return axes(role, LINEAR, layer_kind="linear_attention+moe", **more)

    # q and k of 2 x 8, v and gate of 4 x 16, two gates for 4 heads
    assert of("qkv")[1]["n"] == 2 * 16 + 2 * 64 + 2 * 4
    assert of("o_proj")[1]["k"] == 64
    assert of("conv")[1] == {"tokens": 4, "dim": 2 * 16 + 64, "width": 4, "dtype": "bf16"}
    name, found = of("delta_rule")
    cost = operator(name).cost(found)
    assert name == "gated_delta_rule_update"
    # 4 sequences of one token, 4 heads with a state of 8 x 16 values of at least 2 bytes
    assert cost.flops["vector.fp32"] == 7 * 4 * 4 * 128
    assert cost.read_bytes["state"] == 2 * 4 * 4 * 128
    prefill = of("delta_rule", phase="prefill", tokens=100, requests=2)[1]
    assert (prefill["sequences"], prefill["tokens"]) == (2, 50)
    assert "lengths" in of("delta_rule", phase="prefill", tokens=100, requests=None)


def test_communication_between_ranks() -> None:
    more: dict[str, Any] = {"comm": True, "ranks": 4, "kernels": "multimem_all_reduce_kernel"}
    found = axes("all_reduce", **more)
    assert found == ("all_reduce", {"bytes": 2 * 4 * 64, "ranks": 4, "in_network": True})
    assert "whole hidden states" in axes("all_reduce", **{**more, "kernels": "AllGather"})
    assert "whole" in axes("all_reduce", **{**more, "kernels": "quickreduce::CodecQ4 all_reduce"})
    name, found = axes("dispatch", MLA, comm=True, ranks=4)
    assert (name, found["experts"], found["ranks"]) == ("expert_dispatch", 8, 4)
    assert axes("combine", MLA, comm=True, ranks=4)[0] == "expert_combine"
    assert "how many ranks" in axes("dispatch", MLA, comm=True, ranks=3)


def test_the_sampler_looks_at_all_logits_of_the_last_tokens() -> None:
    assert axes("sampler") == ("sampling", {"rows": 4, "vocabulary": 1000, "dtype": "bf16"})
    found = axes("sampler", phase="prefill", tokens=100, requests=2)[1]
    assert found["rows"] == 2


def test_bytes_of_small_roles() -> None:
    def size(role: str, **more: Any) -> float:
        name, found = axes(role, **more)
        return operator(name).cost(found).bytes

    assert size("input_norm") == 2 * 64 * (4 + 4 + 1)
    assert size("rope") == 2 * 2 * 4 * 8 * 10
    assert size("kv_write") == (2 + 1) * 2 * 4 * 8 * 2
    assert size("activation") == 2 * 3 * 4 * 96
    assert size("residual") == 2 * 3 * 4 * 64
    assert size("embedding") == 4 * 4 + 2 * 64 + 2 * 4 * 64


def test_reasons() -> None:
    other = msgspec.structs.replace(LLAMA, model_type="mamba")
    assert axes("qkv", other) == "the layers of model_type 'mamba' are not known"
    linear = "linear_attention+dense"
    assert "linear_num_value_heads" in axes("qkv", layer_kind=linear)
    assert "linear attention" in axes("attention", layer_kind=linear)
    assert "linear attention" in axes("delta_rule")
    assert axes("router") == (
        "the config has no num_local_experts or num_experts or n_routed_experts"
    )
    odd = msgspec.structs.replace(LLAMA, quantization_config={"quant_method": "odd"})
    assert axes("down", odd) == "weights quantized by 'odd' are not known"
    assert isinstance(axes("attention", tokens=0, requests=0, keys=5), str)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("null", None),
        ("{}", {}),
        (
            '{"quant_method": "gptq", "bits": 4, "scales": [1, 2]}',
            {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": None},
        ),
        # Quantized, though it does not say how: not the same as no quantization.
        ('{"odd": 1}', {"quant_method": None, "bits": None, "modules_to_not_convert": None}),
    ],
)
def test_of_the_quantization_only_what_costs_need_is_read(
    text: str, used: dict[str, object] | None
) -> None:
    data = f'{{"hidden_size": 1, "quantization_config": {text}}}'.encode()
    assert parse_model(data, "c.json").config.quantization_config == used


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": "x"}', "\xff"])
def test_what_is_no_config_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="config"):
        load_model(file)
    with pytest.raises(InputError):
        load_model(tmp_path / "missing.json")
