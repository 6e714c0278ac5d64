"""Attention."""

from __future__ import annotations

from solscope.operators.recorded.call import Found, Recorded, Rule, unclear
from solscope.operators.recorded.products import matrix_dtype
from solscope.operators.tensors import UnclearError


def _attention(causal_at: int, mask_at: int | None = None, heads_at: int = 1) -> Rule:
    """Dense q, k, v with the heads in dimension `heads_at`, the other one being the sequence."""

    def rule(call: Recorded) -> Found:
        q, k, v = (call.tensor(at) for at in range(3))
        if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
            raise UnclearError("packed sequences: their lengths are not recorded")
        rows_at = 3 - heads_at
        queries, keys = q.shape[rows_at], k.shape[rows_at]
        masked = mask_at is not None and call.has(mask_at)
        # A mask may be causal too; one query sees every key either way.
        causal = queries > 1 and (masked or call.scalar(causal_at) not in ("False", "0"))
        axes = {
            "batch": q.shape[0],
            "queries": queries,
            "keys": keys,
            "q_heads": q.shape[heads_at],
            "kv_heads": k.shape[heads_at],
            "head_dim": q.shape[3],
            "v_dim": v.shape[3],
            "causal": causal,
            "dtype": matrix_dtype(q, ""),
        }
        if masked and mask_at is not None:
            axes["mask_bytes"] = call.tensor(mask_at).bytes
        return "dot_product_attention", axes

    return rule


RULES: dict[str, Rule] = {
    "aten::_flash_attention_forward": _attention(8, heads_at=2),
    "aten::_efficient_attention_forward": _attention(9, 3, heads_at=2),
    "aten::_cudnn_attention_forward": _attention(10, 3),
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_efficient_attention": _attention(6, 3),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6, 3),
    "aten::scaled_dot_product_attention": _attention(5, 3),
    **dict.fromkeys(
        (
            *("vllm::unified_attention_with_output", "vllm::unified_mla_attention_with_output"),
            *("_C::paged_attention_v1", "_C::paged_attention_v2", "aiter::mha_batch_prefill"),
            *("_C::sm100_cutlass_mla_decode", "sgl_kernel::cutlass_mla_decode"),
        ),
        unclear("lengths of the sequences are not recorded"),
    ),
}
