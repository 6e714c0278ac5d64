"""Sizes from a model's config, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.attribution.roles import ROLES
from solscope.errors import InputError
from solscope.operators import operator
from solscope.operators.from_config import (
    ROLE_RULES,
    Config,
    Model,
    RoleCall,
    axes_of,
    load_model,
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
    assert "linear attention" in axes("qkv", layer_kind="linear_attention+dense")
    assert axes("router") == (
        "the config has no num_local_experts or num_experts or n_routed_experts"
    )
    odd = msgspec.structs.replace(LLAMA, quantization_config={"quant_method": "odd"})
    assert axes("down", odd) == "weights quantized by 'odd' are not known"
    assert isinstance(axes("attention", tokens=0, requests=0, keys=5), str)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": "x"}', "\xff"])
def test_what_is_no_config_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="config"):
        load_model(file)
    with pytest.raises(InputError):
        load_model(tmp_path / "missing.json")
