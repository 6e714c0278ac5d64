"""Operators: one per file in `catalog/`, each with its axes and what one call costs at least.

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
    "unified_attention": "solscope.operators.catalog.unified_attention",
    "attention_forward": "solscope.operators.catalog.attention_forward",
    "paged_attention_decode": "solscope.operators.catalog.paged_attention_decode",
    "mla_decode_attention": "solscope.operators.catalog.mla_decode_attention",
    "gated_delta_rule_update": "solscope.operators.catalog.gated_delta_rule_update",
    "chunk_gated_delta_rule_state": "solscope.operators.catalog.chunk_gated_delta_rule_state",
    "chunk_delta_rule_output": "solscope.operators.catalog.chunk_delta_rule_output",
    "causal_conv1d": "solscope.operators.catalog.causal_conv1d",
    "block_scaled_mm": "solscope.operators.catalog.block_scaled_mm",
    "fused_moe": "solscope.operators.catalog.fused_moe",
    "fp8_blockscale_fused_moe": "solscope.operators.catalog.fp8_blockscale_fused_moe",
    "linear_sigmoid_mul": "solscope.operators.catalog.linear_sigmoid_mul",
    "moe_sum_reduce": "solscope.operators.catalog.moe_sum_reduce",
    "rms_norm": "solscope.operators.catalog.rms_norm",
    "fused_add_rms_norm": "solscope.operators.catalog.fused_add_rms_norm",
    "gated_rms_norm": "solscope.operators.catalog.gated_rms_norm",
    "l2_norm": "solscope.operators.catalog.l2_norm",
    "layer_norm": "solscope.operators.catalog.layer_norm",
    "fused_qk_rmsnorm": "solscope.operators.catalog.fused_qk_rmsnorm",
    "fp8_dynamic_per_token_quant": "solscope.operators.catalog.fp8_dynamic_per_token_quant",
    "per_token_group_quant_fp8": "solscope.operators.catalog.per_token_group_quant_fp8",
    "fused_rmsnorm_quant": "solscope.operators.catalog.fused_rmsnorm_quant",
    "fused_qkv_rope": "solscope.operators.catalog.fused_qkv_rope",
    "mrope": "solscope.operators.catalog.mrope",
    "reshape_and_cache": "solscope.operators.catalog.reshape_and_cache",
    "moe_topk_gating_softmax": "solscope.operators.catalog.moe_topk_gating_softmax",
    "moe_align_block_size": "solscope.operators.catalog.moe_align_block_size",
    "moe_count_and_sort": "solscope.operators.catalog.moe_count_and_sort",
    "topk_filter": "solscope.operators.catalog.topk_filter",
    "silu_and_mul": "solscope.operators.catalog.silu_and_mul",
    "dense_gemm": "solscope.operators.catalog.dense_gemm",
    "batched_gemm": "solscope.operators.catalog.batched_gemm",
    "grouped_gemm": "solscope.operators.catalog.grouped_gemm",
    "dot_product_attention": "solscope.operators.catalog.dot_product_attention",
    "elementwise": "solscope.operators.catalog.elementwise",
    "copy": "solscope.operators.catalog.copy",
    "fill": "solscope.operators.catalog.fill",
    "gather": "solscope.operators.catalog.gather",
    "scatter": "solscope.operators.catalog.scatter",
    "reduce": "solscope.operators.catalog.reduce",
    "softmax": "solscope.operators.catalog.softmax",
    "sort": "solscope.operators.catalog.sort",
    "triangular_solve": "solscope.operators.catalog.triangular_solve",
    "depthwise_conv": "solscope.operators.catalog.depthwise_conv",
    "embedding": "solscope.operators.catalog.embedding",
    "sampling": "solscope.operators.catalog.sampling",
    "mla_prefill_attention": "solscope.operators.catalog.mla_prefill_attention",
    "all_reduce": "solscope.operators.catalog.all_reduce",
    "all_gather": "solscope.operators.catalog.all_gather",
    "reduce_scatter": "solscope.operators.catalog.reduce_scatter",
    "all_to_all": "solscope.operators.catalog.all_to_all",
    "expert_dispatch": "solscope.operators.catalog.expert_dispatch",
    "expert_combine": "solscope.operators.catalog.expert_combine",
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
