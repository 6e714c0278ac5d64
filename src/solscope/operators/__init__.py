"""The catalog: one operator per file, each with its axes and what one call costs at least.

    from solscope.operators import operator

    cost = operator("rms_norm").cost({"tokens": 4096, "hidden": 5120})
    print(cost.bytes, cost.flops)

Nothing here imports torch. To add an operator, write its file and add its name below.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from solscope.operators.base import Operator
from solscope.registry import Registry

OPERATOR_MODULES = {
    "unified_attention": "solscope.operators.unified_attention",
    "attention_forward": "solscope.operators.attention_forward",
    "paged_attention_decode": "solscope.operators.paged_attention_decode",
    "mla_decode_attention": "solscope.operators.mla_decode_attention",
    "gated_delta_rule_update": "solscope.operators.gated_delta_rule_update",
    "chunk_gated_delta_rule_state": "solscope.operators.chunk_gated_delta_rule_state",
    "chunk_delta_rule_output": "solscope.operators.chunk_delta_rule_output",
    "causal_conv1d": "solscope.operators.causal_conv1d",
    "block_scaled_mm": "solscope.operators.block_scaled_mm",
    "fused_moe": "solscope.operators.fused_moe",
    "fp8_blockscale_fused_moe": "solscope.operators.fp8_blockscale_fused_moe",
    "linear_sigmoid_mul": "solscope.operators.linear_sigmoid_mul",
    "moe_sum_reduce": "solscope.operators.moe_sum_reduce",
    "rms_norm": "solscope.operators.rms_norm",
    "fused_add_rms_norm": "solscope.operators.fused_add_rms_norm",
    "gated_rms_norm": "solscope.operators.gated_rms_norm",
    "l2_norm": "solscope.operators.l2_norm",
    "layer_norm": "solscope.operators.layer_norm",
    "fused_qk_rmsnorm": "solscope.operators.fused_qk_rmsnorm",
    "fp8_dynamic_per_token_quant": "solscope.operators.fp8_dynamic_per_token_quant",
    "per_token_group_quant_fp8": "solscope.operators.per_token_group_quant_fp8",
    "fused_rmsnorm_quant": "solscope.operators.fused_rmsnorm_quant",
    "fused_qkv_rope": "solscope.operators.fused_qkv_rope",
    "mrope": "solscope.operators.mrope",
    "reshape_and_cache": "solscope.operators.reshape_and_cache",
    "moe_topk_gating_softmax": "solscope.operators.moe_topk_gating_softmax",
    "moe_align_block_size": "solscope.operators.moe_align_block_size",
    "moe_count_and_sort": "solscope.operators.moe_count_and_sort",
    "topk_filter": "solscope.operators.topk_filter",
    "silu_and_mul": "solscope.operators.silu_and_mul",
    "dense_gemm": "solscope.operators.dense_gemm",
    "batched_gemm": "solscope.operators.batched_gemm",
    "grouped_gemm": "solscope.operators.grouped_gemm",
    "dot_product_attention": "solscope.operators.dot_product_attention",
    "elementwise": "solscope.operators.elementwise",
    "copy": "solscope.operators.copy",
    "fill": "solscope.operators.fill",
    "gather": "solscope.operators.gather",
    "scatter": "solscope.operators.scatter",
    "reduce": "solscope.operators.reduce",
    "softmax": "solscope.operators.softmax",
    "sort": "solscope.operators.sort",
    "triangular_solve": "solscope.operators.triangular_solve",
    "depthwise_conv": "solscope.operators.depthwise_conv",
    "embedding": "solscope.operators.embedding",
    "sampling": "solscope.operators.sampling",
    "mla_prefill_attention": "solscope.operators.mla_prefill_attention",
    "all_reduce": "solscope.operators.all_reduce",
    "all_gather": "solscope.operators.all_gather",
    "reduce_scatter": "solscope.operators.reduce_scatter",
    "all_to_all": "solscope.operators.all_to_all",
    "expert_dispatch": "solscope.operators.expert_dispatch",
    "expert_combine": "solscope.operators.expert_combine",
}
"""One line per operator: its name and the module whose `OPERATOR` is the object."""


def operators() -> Registry[Operator]:
    """All operators, imported."""
    registry: Registry[Operator] = Registry("operator")
    for name in OPERATOR_MODULES:
        registry.register(name, _load(name))
    return registry


def operator(name: str) -> Operator:
    """The operator called `name`, without importing the others."""
    return _load(name) if name in OPERATOR_MODULES else operators().get(name)


def _load(name: str) -> Operator:
    return cast("Operator", import_module(OPERATOR_MODULES[name]).OPERATOR)
