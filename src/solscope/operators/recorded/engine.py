"""Norms, activations and cache writes as serving engines record them."""

from __future__ import annotations

import math

from solscope.operators.recorded.call import Found, Recorded, Rule, unclear
from solscope.operators.tensors import UnclearError


def _norm(operator: str, x_at: int, weight_at: int | None) -> Rule:
    """A norm of the rows of input `x_at`, as wide as its weight."""

    def rule(call: Recorded) -> Found:
        x = call.tensor(x_at)
        if weight_at is None or not call.has(weight_at):
            raise UnclearError("a norm without weight has no entry in the catalog")
        hidden = call.tensor(weight_at).numel
        return operator, {"tokens": x.numel // max(1, hidden), "hidden": hidden, "dtype": x.dtype}

    return rule


def _silu_and_mul(call: Recorded) -> Found:
    out = call.tensor(0)
    rows, width = math.prod(out.shape[:-1]), out.shape[-1]
    return "silu_and_mul", {"tokens": rows, "intermediate": width, "dtype": out.dtype}


def _rotary(call: Recorded) -> Found:
    """Positions, q and k in, q and k out; which rows of the table are read is not recorded."""
    positions, q, k = (call.tensor(at) for at in range(3))
    moved = q.bytes + k.bytes
    axes = {"elements": q.numel + k.numel, "flop": 3, "read_bytes": moved + positions.bytes}
    return "elementwise", {**axes, "write_bytes": moved}


def _store_cache(call: Recorded) -> Found:
    """Keys and values into a paged cache, perhaps in another type."""
    key, value, cache, slots = (call.tensor(at) for at in (0, 1, 2, 4))
    read, written = key.bytes + value.bytes, cache.size * (key.numel + value.numel)
    return "scatter", {"value_bytes": read, "write_bytes": written, "index_bytes": slots.bytes}


def _quant(call: Recorded) -> Found:
    out, x = call.tensor(0), call.tensor(1)
    axes = {"elements": x.numel, "flop": 1, "read_bytes": x.bytes}
    return "elementwise", {**axes, "write_bytes": out.bytes}


def _router(call: Recorded) -> Found:
    """Weights and ids out, scores in; scores narrower than fp32 are a sort of as many bytes."""
    weights, scores = call.tensor(0), call.tensor(3)
    (tokens, experts), top_k = scores.shape, weights.shape[-1]
    if scores.dtype == "fp32":
        axes = {"tokens": tokens, "experts": experts, "top_k": top_k}
        return "moe_topk_gating_softmax", axes
    written = {"value_bytes": weights.bytes, "index_bytes": call.tensor(1).bytes}
    return "sort", {"read_bytes": scores.bytes, **written}


def _expert_sum(call: Recorded) -> Found:
    x = call.tensor(0)
    axes = dict(zip(("tokens", "top_k", "hidden"), x.shape, strict=True))
    return "moe_sum_reduce", {**axes, "dtype": x.dtype}


def _expert_blocks(call: Recorded) -> Found:
    ids, size = call.tensor(0), call.scalar(2)
    if not size.isdigit() or not 0 < int(size) < 1 << 20:
        raise UnclearError("the size of a block is not recorded")
    tokens = math.prod(ids.shape[:-1])
    axes = {"tokens": tokens, "top_k": ids.shape[-1], "block_size": int(size)}
    return "moe_align_block_size", axes


RULES: dict[str, Rule] = {
    "aten::_fused_rms_norm": _norm("rms_norm", 0, 2),
    "aten::native_layer_norm": _norm("layer_norm", 0, 2),
    "_C::rms_norm": _norm("rms_norm", 1, 2),
    "_C::fused_add_rms_norm": _norm("fused_add_rms_norm", 0, 2),
    "_C::silu_and_mul": _silu_and_mul,
    "_C::rotary_embedding": _rotary,
    "_C::static_scaled_fp8_quant": _quant,
    "_C::dynamic_scaled_fp8_quant": _quant,
    "_C::dynamic_per_token_scaled_fp8_quant": _quant,
    "_moe_C::topk_softmax": _router,
    "_moe_C::moe_sum": _expert_sum,
    "_moe_C::moe_align_block_size": _expert_blocks,
    "_C_cache_ops::reshape_and_cache_flash": _store_cache,
    "sgl_kernel::silu_and_mul": _silu_and_mul,
    "sgl_kernel::rotary_embedding": _rotary,
    "sglang::store_cache": _store_cache,
    "aiter::rmsnorm": _norm("rms_norm", 1, 2),
    "aiter::add_rmsnorm": _norm("fused_add_rms_norm", 1, 4),
    "vllm::moe_forward": unclear("the weights of the experts are not among the inputs"),
}
