"""From a shape of the suite to the axes of our operator: one function per operator.

Two operators were published with the outcome of a random routing. Their stored figures give it
back: `drawn_pairs` of fused_moe from its FLOP, `padded_slots` of moe_align_block_size from its
bytes. The MoE operators also get the number of active experts behind the published bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from solscope.operators.base import Axes
from solscope.operators.routing import published_experts
from solscope.suite.atrex import SuiteOperator, SuiteShape, expand

Sizes = dict[str, Any]


def suite_axes(op: SuiteOperator, shape: SuiteShape) -> Axes:
    """The axes of one shape, in the words of our catalog."""
    return _AXES[op.name](shape)


def _rename(**names: str) -> Callable[[SuiteShape], Sizes]:
    """Axes that only have another name in the suite: ours = theirs."""

    def convert(shape: SuiteShape) -> Sizes:
        sizes = {**(shape.init or {}), **shape.input}
        return {ours: sizes[theirs] for ours, theirs in names.items()}

    return convert


def _fixed(convert: Callable[[SuiteShape], Sizes], **more: Any) -> Callable[[SuiteShape], Sizes]:
    return lambda shape: {**convert(shape), **more}


def _groups(shape: SuiteShape) -> list[list[int]]:
    """Sequences of equal length together; queries and keys are equally many in the suite."""
    lengths = Counter(expand(shape.input["seq_lens"]))
    return [[length, length, count] for length, count in lengths.items()]


def _unified_attention(shape: SuiteShape) -> Sizes:
    named = _rename(
        q_heads="num_query_heads",
        kv_heads="num_kv_heads",
        head_dim="head_size",
        block_size="block_size",
    )
    return {"sequences": _groups(shape), **named(shape)}


def _attention_forward(shape: SuiteShape) -> Sizes:
    named = _rename(heads="num_heads", head_dim="head_dim")
    return {"sequences": _groups(shape), **named(shape)}


def _paged_attention_decode(shape: SuiteShape) -> Sizes:
    named = _rename(
        q_heads="num_query_heads",
        kv_heads="num_kv_heads",
        head_dim="head_size",
        block_size="block_size",
        dtype="dtype",
    )
    return {"contexts": [[shape.input["ctx_len"], shape.input["num_seqs"]]], **named(shape)}


def _mla_decode_attention(shape: SuiteShape) -> Sizes:
    named = _rename(q_heads="nhead", latent_dim="kv_lora_rank", rope_dim="qk_rope_head_dim")
    return {"contexts": [[shape.input["ctx_len"], shape.input["batch_size"]]], **named(shape)}


_moe = _rename(
    tokens="token_count",
    hidden="hidden_size",
    intermediate="intermediate_size",
    experts="num_experts",
    top_k="top_k",
)


def _fp8_blockscale_fused_moe(shape: SuiteShape) -> Sizes:
    axes = _moe(shape)
    return {**axes, "active_experts": published_experts(axes)}


def _fused_moe(shape: SuiteShape) -> Sizes:
    axes = _moe(shape)
    active = published_experts(axes)
    masks = active * axes["tokens"] * (2 * axes["top_k"] - 1)
    inner, hidden = axes["intermediate"], axes["hidden"]
    pairs = (shape.W_flops["bf16"] - masks) // (6 * hidden * inner + 5 * inner + hidden)
    return {**axes, "active_experts": active, "drawn_pairs": pairs, "out_bytes": 4}


def _moe_align_block_size(shape: SuiteShape) -> Sizes:
    named = _rename(tokens="token_count", top_k="top_k", block_size="block_size")
    axes = named(shape)
    size = axes["block_size"]
    return {**axes, "padded_slots": (shape.Q_write // 4 - 1) * size // (size + 1)}


def _layer_norm(shape: SuiteShape) -> Sizes:
    *rows, hidden = shape.input["shape"]
    tokens = 1
    for length in rows:
        tokens *= length
    return {"tokens": tokens, "hidden": hidden}


def _reshape_and_cache(shape: SuiteShape) -> Sizes:
    tokens, heads, dim = shape.input["shape"]
    size = shape.input["block_size"]
    return {"tokens": tokens, "kv_heads": heads, "head_dim": dim, "block_size": size}


def _silu_and_mul(shape: SuiteShape) -> Sizes:
    tokens, width = shape.input["shape"]
    return {"tokens": tokens, "intermediate": width // 2}


_token_rows = _rename(tokens="token_count", hidden="hidden_size")
_delta_rule = {
    "sequences": "batch_size",
    "tokens": "token_count",
    "v_heads": "num_v_heads",
    "key_dim": "key_dim",
    "value_dim": "value_dim",
}

_AXES: dict[str, Callable[[SuiteShape], Sizes]] = {
    "unified_attention": _unified_attention,
    "attention_forward": _attention_forward,
    "paged_attention_decode": _paged_attention_decode,
    "mla_decode_attention": _mla_decode_attention,
    "gated_delta_rule_update": _rename(**_delta_rule, q_heads="num_q_heads", pool="state_count"),
    "chunk_gated_delta_rule_state": _rename(
        **_delta_rule, k_heads="num_k_heads", pool="state_count", chunk_size="chunk_size"
    ),
    "chunk_delta_rule_output": _rename(
        **_delta_rule, q_heads="num_q_heads", chunk_size="chunk_size"
    ),
    "causal_conv1d": _rename(tokens="token_count", dim="dim", width="width"),
    "block_scaled_mm": _fixed(_rename(m="m", n="n", k="k"), out_bytes=4),
    "fused_moe": _fused_moe,
    "fp8_blockscale_fused_moe": _fp8_blockscale_fused_moe,
    "linear_sigmoid_mul": _rename(tokens="token_count", hidden="hidden_size", out="out_features"),
    "moe_sum_reduce": _rename(tokens="token_count", top_k="top_k", hidden="hidden_size"),
    "rms_norm": _token_rows,
    "fused_add_rms_norm": _token_rows,
    "gated_rms_norm": _rename(rows="rows", hidden="hidden_size"),
    "l2_norm": _rename(tokens="num_tokens", hidden="hidden_size"),
    "layer_norm": _layer_norm,
    "fused_qk_rmsnorm": _rename(
        tokens="num_tokens",
        q_heads="head_num",
        kv_heads="kv_head_num",
        head_dim="size_per_head",
        dtype="dtype",
    ),
    "fp8_dynamic_per_token_quant": _token_rows,
    "per_token_group_quant_fp8": _rename(
        tokens="token_count", hidden="hidden_size", group_size="group_size"
    ),
    "fused_rmsnorm_quant": _token_rows,
    "fused_qkv_rope": _rename(
        tokens="total_tokens",
        q_heads="num_heads",
        kv_heads="num_kv_heads",
        head_dim="head_dim",
        rotary_dim="rope_dim",
        dtype="dtype",
    ),
    "mrope": _rename(
        tokens="token_count",
        q_heads="num_query_heads",
        kv_heads="num_kv_heads",
        head_dim="head_size",
        rotary_dim="rotary_dim",
    ),
    "reshape_and_cache": _reshape_and_cache,
    "moe_topk_gating_softmax": _rename(tokens="token_count", experts="num_experts", top_k="top_k"),
    "moe_align_block_size": _moe_align_block_size,
    "moe_count_and_sort": _rename(tokens="token_count", experts="num_experts", top_k="top_k"),
    "topk_filter": _rename(rows="seq_len", vocabulary="hidden_size"),
    "silu_and_mul": _silu_and_mul,
}
