"""Axes of a call under a scenario: what grows with the batch, with the context, with fewer ranks.

By the meaning of an axis, which is the same in every operator of the catalog: rows (`m`, `tokens`,
`batch`, bytes and elements of activations) grow with the batch, keys with the context; sizes of
weights and heads stay, and are divided among ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROWS = frozenset(
    (
        *("m", "tokens", "rows", "batch", "elements", "bytes", "own_bytes", "valid_tokens"),
        *("read_bytes", "write_bytes", "value_bytes", "index_bytes", "host_bytes"),
        *("in_size", "out_size", "drawn_pairs", "mask_bytes", "pairs"),
    )
)
"""Axes that grow with the number of tokens in a step."""
KEYS = frozenset(("keys", "pairs", "mask_bytes"))
"""Axes that grow with the context of each request."""
PRODUCTS = frozenset(("dense_gemm", "grouped_gemm", "block_scaled_mm", "linear_sigmoid_mul"))
"""Operators that multiply with weights, in the dtype of a scenario."""
EXPERTS = frozenset(("fused_moe", "fp8_blockscale_fused_moe"))
_HEADS = ("q_heads", "kv_heads", "heads", "v_heads", "k_heads")
_SUMMED_ROLES = frozenset(("o_proj", "down"))
"""Roles whose inputs are divided, and whose outputs ranks add up."""
_SHARED_ROLES = frozenset(
    ("rope", "activation", "kv_write", "qk_norm", "attention", "conv", "linear_attention")
)
"""Roles between the two halves of a sharded product: each rank has its part of the elements."""


def rescale(operator: str, axes: Mapping[str, Any], batch: float, context: float) -> dict[str, Any]:
    """Axes for `batch` times as many requests with `context` times as many keys each."""
    if operator == "batched_gemm":
        # One product per head with a row per request, or one per request.
        own = "m" if axes["m"] > 1 else "batch"
        return {**axes, own: _times(axes[own], batch)}
    scaled = dict(axes)
    for name, value in axes.items():
        if name in ("sequences", "contexts") and isinstance(value, (list, tuple)):
            scaled[name] = [_group(item, batch, context) for item in value]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            factor = (batch if name in ROWS else 1.0) * (context if name in KEYS else 1.0)
            scaled[name] = _times(value, factor)
    if operator == "reduce" and "flop" in axes:
        scaled["flop"] = _times(axes["flop"], batch)
    return scaled


def in_dtype(operator: str, axes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Axes of a product with weights and activations of another dtype; its output stays."""
    if operator not in PRODUCTS or operator == "block_scaled_mm":
        return dict(axes)
    changed = {**axes, "dtype": dtype}
    changed.pop("weight_bits", None)
    if operator == "dense_gemm":
        changed.setdefault("out_dtype", axes.get("dtype", "bf16"))
    return changed


def share_out(
    operator: str, axes: Mapping[str, Any], role: str | None, ranks: float
) -> dict[str, Any]:
    """Axes of one of `ranks` times as many ranks: weights and heads are divided, rows are not."""
    divided = dict(axes)
    if operator in PRODUCTS and role in _SUMMED_ROLES and "k" in axes:
        divided["k"] = _over(axes["k"], ranks)
    elif operator in PRODUCTS and role != "router":
        divided["n"] = _over(axes["n"], ranks) if "n" in axes else axes.get("n")
        if "out" in axes:
            divided["out"] = _over(axes["out"], ranks)
    elif operator in EXPERTS or operator == "silu_and_mul":
        divided["intermediate"] = _over(axes["intermediate"], ranks)
    elif any(name in axes for name in _HEADS):
        divided |= {name: _over(axes[name], ranks) for name in _HEADS if name in axes}
    elif role in _SHARED_ROLES:
        divided |= {name: _over(axes[name], ranks) for name in ROWS if name in axes}
    return {name: value for name, value in divided.items() if value is not None}


def _group(item: Any, batch: float, context: float) -> Any:
    """One group of requests: a length, (keys, count) or (queries, keys, count)."""
    if isinstance(item, (int, float)):
        return _times(item, context)
    *lengths, count = item
    *queries, keys = lengths
    return (*queries, _times(keys, context), _times(count, batch))


def _times(value: float, factor: float) -> float:
    if factor == 1.0:
        return value
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _over(value: float, ranks: float) -> float:
    return max(1, round(value / ranks))
