"""Products: projections, experts, the vocabulary."""

from __future__ import annotations

import re
from typing import Any

from solscope.operators.calls.call import OperatorAxes
from solscope.operators.from_config.use import RoleRule, Use
from solscope.operators.tensors import UnclearError

NARROW = re.compile(r"e4m3|e5m2|fp8|f8f8|_F8", re.IGNORECASE)
_WIDE = re.compile(r"bf16|f16|bfloat16|half|BBS|HHS", re.IGNORECASE)
_KINDS = {"self_attn": ("qkv", "q_a_kv_a", "q_b", "kv_b", "o_proj"), "mlp": ("up_gate", "down")}


def _weight_bits(use: Use) -> float | None:
    """Bits per weight where the config says that this product is quantized."""
    quant = use.config.quantization_config
    if not quant or use.call.role in ("lm_head", "router"):
        return None
    left_out = " ".join(map(str, quant.get("modules_to_not_convert") or ()))
    if any(use.call.role in roles and word in left_out for word, roles in _KINDS.items()):
        return None
    method = quant.get("quant_method")
    if method == "mxfp4":
        return 4.25
    if method == "fp8":
        return 8.0
    bits = quant.get("bits")
    if method in ("gptq", "awq") and isinstance(bits, int) and 1 < bits <= 8:
        return float(bits)
    raise UnclearError(f"weights quantized by {str(method)[:40]!r} are not known")


def _product_dtype(use: Use, bits: float | None) -> str:
    """The type in which a product is computed: by the kernel's name where weights are narrow."""
    if bits is None:
        return use.dtype
    if NARROW.search(use.call.kernels):
        return "fp8"
    return use.dtype if _WIDE.search(use.call.kernels) else "fp4"


def _dense(use: Use, m: int, n: int, k: int) -> OperatorAxes:
    axes: dict[str, Any] = {"m": m, "n": n, "k": k}
    bits = _weight_bits(use)
    axes["dtype"] = _product_dtype(use, bits)
    return "dense_gemm", axes if bits is None else {**axes, "weight_bits": bits}


def _qkv(use: Use) -> OperatorAxes:
    if use.mla:
        raise UnclearError("which projection of MLA this is, is not known")
    if use.linear:
        keys, values, heads = linear_widths(use)
        # Queries, keys, values, output gate; two gates per head.
        return _dense(use, use.tokens, 2 * (keys + values + heads), use.hidden)
    return _dense(use, use.tokens, use.config.head * (use.heads + 2 * use.kv_heads), use.hidden)


def linear_widths(use: Use) -> tuple[int, int, int]:
    """Widths of all keys and of all values of linear attention, and its value heads."""
    heads = use.shared(use.config.need("linear_num_value_heads"))
    keys = use.shared(use.config.need("linear_num_key_heads"))
    widths = (use.config.need("linear_key_head_dim"), use.config.need("linear_value_head_dim"))
    return keys * widths[0], heads * widths[1], heads


def _mla_down(use: Use) -> OperatorAxes:
    latent = use.config.need("kv_lora_rank") + use.config.need("qk_rope_head_dim")
    return _dense(use, use.tokens, latent + (use.config.q_lora_rank or 0), use.hidden)


def _mla_query(use: Use) -> OperatorAxes:
    width = use.config.need("qk_nope_head_dim") + use.config.need("qk_rope_head_dim")
    return _dense(use, use.tokens, use.heads * width, use.config.need("q_lora_rank"))


def _latent_up(use: Use) -> OperatorAxes:
    """One product to keys and values, or two that are absorbed: of the same weights and FLOP.

    A single kernel may be either half.
    """
    halves = use.config.need("qk_nope_head_dim"), use.config.need("v_head_dim")
    width = sum(halves) if use.call.products > 1 else min(halves)
    return _dense(use, use.tokens, use.heads * width, use.config.need("kv_lora_rank"))


def _o_proj(use: Use) -> OperatorAxes:
    if use.linear:
        return _dense(use, use.tokens, use.hidden, linear_widths(use)[1])
    width = use.config.need("v_head_dim") if use.mla else use.config.head
    return _dense(use, use.tokens, use.hidden, use.heads * width)


def _up_gate(use: Use) -> OperatorAxes:
    if not use.moe:
        return _dense(use, use.tokens, 2 * use.inner, use.hidden)
    # The activation may be part of the product, which then writes half as much.
    return _experts(use, 2 * use.inner, use.hidden, use.tokens * use.hidden, use.rows * use.inner)


def _down(use: Use) -> OperatorAxes:
    if not use.moe:
        return _dense(use, use.tokens, use.hidden, use.inner)
    # The weighted sum may be part of the product, which then writes one row per token.
    return _experts(use, use.hidden, use.inner, use.rows * use.inner, use.tokens * use.hidden)


def _experts(use: Use, n: int, k: int, read: int, written: int) -> OperatorAxes:
    bits = _weight_bits(use)
    axes = {"tokens": use.rows, "experts": use.experts, "n": n, "k": k}
    axes |= {"top_k": use.config.need("num_experts_per_tok"), "in_size": read, "out_size": written}
    kind: dict[str, Any] = {"dtype": _product_dtype(use, bits)}
    return "grouped_gemm", {**axes, **kind, **({} if bits is None else {"weight_bits": bits})}


def _shared_expert(use: Use) -> OperatorAxes:
    """All of it: up, gate and down projection; results between them may stay on the chip."""
    if use.config.shared_expert_intermediate_size is not None:
        inner = use.config.need("shared_expert_intermediate_size")
    else:
        inner = use.config.need("n_shared_experts") * use.config.need("moe_intermediate_size")
    bits, row = _weight_bits(use), use.tokens * use.hidden
    axes = {"tokens": use.tokens, "experts": 1, "n": 3 * use.shared(inner), "k": use.hidden}
    axes |= {"top_k": 1, "in_size": row, "out_size": row}
    kind: dict[str, Any] = {"dtype": _product_dtype(use, bits)}
    return "grouped_gemm", {**axes, **kind, **({} if bits is None else {"weight_bits": bits})}


def _router(use: Use) -> OperatorAxes:
    return _dense(use, use.tokens, use.experts, use.hidden)


def _lm_head(use: Use) -> OperatorAxes:
    return _dense(use, use.last_tokens, use.shared(use.config.need("vocab_size")), use.hidden)


RULES: dict[str, RoleRule] = {
    "qkv": _qkv,
    "q_a_kv_a": _mla_down,
    "q_b": _mla_query,
    "kv_b": _latent_up,
    "o_proj": _o_proj,
    "up_gate": _up_gate,
    "down": _down,
    "shared_expert": _shared_expert,
    "router": _router,
    "lm_head": _lm_head,
}
