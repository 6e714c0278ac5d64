"""Norms, rotary embedding, cache writes, routing: bytes in and out once."""

from __future__ import annotations

import re
from typing import Any

from solscope.operators.calls.call import OperatorAxes
from solscope.operators.from_config.use import RoleRule, Use
from solscope.operators.tensors import UnclearError


def _norm(use: Use) -> OperatorAxes:
    """The residual may have been added before; a result for a quantized product may be narrow."""
    if _result_size(use) == use.size:
        return "rms_norm", {"tokens": use.tokens, "hidden": use.hidden, "dtype": use.dtype}
    count = use.tokens * use.hidden
    return _moved(count, use.size * count, _result_size(use) * count, 3)


def _final_norm(use: Use) -> OperatorAxes:
    return "rms_norm", {"tokens": use.last_tokens, "hidden": use.hidden, "dtype": use.dtype}


def _result_size(use: Use) -> float:
    """Bytes per element that the input of a product has at least."""
    return use.size if use.config.quantization_config is None else 0.5


def _heads_of(use: Use) -> int:
    """Elements of queries and keys."""
    if use.mla:
        raise UnclearError("the latents of MLA are not computed from a config")
    if use.linear:
        raise UnclearError("linear attention has no rotary embedding and no norm of queries")
    return use.tokens * use.config.head * (use.heads + use.kv_heads)


def _moved(elements: int, read: float, written: float, flop: int) -> OperatorAxes:
    return "elementwise", {
        "elements": elements,
        "flop": flop,
        "read_bytes": int(read),
        "write_bytes": int(written),
    }


def _qk_norm(use: Use) -> OperatorAxes:
    count = _heads_of(use)
    return _moved(count, use.size * count, use.size * count, 3)


def _rope(use: Use) -> OperatorAxes:
    """Queries and keys, or the part of them that is rotated."""
    count = int(_heads_of(use) * min(1.0, use.config.partial_rotary_factor or 1.0))
    return _moved(count, use.size * count, use.size * count, 3)


def _kv_write(use: Use) -> OperatorAxes:
    if use.mla:
        # The latent and the rotary part of the key, one row per token.
        width = use.config.need("kv_lora_rank") + use.config.need("qk_rope_head_dim")
        count = use.tokens * width
        return "scatter", {"value_bytes": int(use.size * count), "write_bytes": count}
    count = 2 * use.tokens * use.config.head * use.kv_heads
    # The cache may be narrower than the activations.
    return "scatter", {"value_bytes": int(use.size * count), "write_bytes": count}


def _activation(use: Use) -> OperatorAxes:
    rows = use.rows if use.moe else use.tokens
    if _result_size(use) == use.size:
        return "silu_and_mul", {"tokens": rows, "intermediate": use.inner, "dtype": use.dtype}
    count = rows * use.inner
    return _moved(count, 2 * use.size * count, _result_size(use) * count, 5)


def _residual(use: Use) -> OperatorAxes:
    count = use.tokens * use.hidden
    return _moved(count, 2 * use.size * count, use.size * count, 1)


def _embedding(use: Use) -> OperatorAxes:
    """All tokens may be the same; a shared vocabulary leaves rows to other ranks."""
    row = int(use.size * use.hidden)
    if use.call.ranks > 1:
        axes = {"index_bytes": 4 * use.tokens, "row_bytes": 0}
        return "gather", {**axes, "write_bytes": row * use.tokens}
    axes = {"tokens": use.tokens, "hidden": use.hidden, "index_bytes": 4}
    return "embedding", {**axes, "dtype": use.dtype}


def _topk(use: Use) -> OperatorAxes:
    """Scores may be as small as two bytes, ids as one."""
    read = int(use.size * use.tokens * use.experts)
    return "sort", {"read_bytes": read, "value_bytes": 2 * use.rows, "index_bytes": use.rows}


def _combine(use: Use) -> OperatorAxes:
    if use.call.comm:
        return "expert_combine", {**_sent(use), "element_bytes": int(use.size)}
    rows, tokens = use.rows * use.hidden, use.tokens * use.hidden
    return _moved(tokens, use.size * rows, use.size * tokens, 1)


def _dispatch(use: Use) -> OperatorAxes:
    """At least the ids of the experts are read, and a place for each row written."""
    if use.call.comm:
        return "expert_dispatch", {**_sent(use), "element_bytes": 1}
    return _moved(use.rows, use.rows, use.rows, 0)


def _sent(use: Use) -> dict[str, int]:
    """Rows between the ranks that hold the experts; dispatched ones may be of one byte a value."""
    axes = {"tokens": use.tokens, "hidden": use.hidden, "experts": use.experts}
    if use.call.ranks < 2 or use.experts % use.call.ranks:
        raise UnclearError("how many ranks hold the experts is not known")
    return {**axes, "top_k": use.config.need("num_experts_per_tok"), "ranks": use.call.ranks}


_KERNEL_SUMS = re.compile(r"all_?reduce|cross_device_reduce|multimem|lamport", re.IGNORECASE)
_NARROW_SUMS = re.compile(r"Codec|[Qq]uant|fp8")
_IN_SWITCH = re.compile(r"multimem|NVLS")


def _all_reduce(use: Use) -> OperatorAxes:
    """Partial sums of the hidden state, over the ranks that share a layer."""
    names = use.call.kernels
    if not _KERNEL_SUMS.search(names) or _NARROW_SUMS.search(names):
        raise UnclearError("the kernel does not say that it adds whole hidden states")
    axes: dict[str, Any] = {"bytes": int(use.size * use.tokens * use.hidden)}
    if use.call.ranks > 1:
        axes["ranks"] = use.call.ranks
    return "all_reduce", {**axes, **({"in_network": True} if _IN_SWITCH.search(names) else {})}


def _sampler(use: Use) -> OperatorAxes:
    """One look at the logits of each request; they may be as small as the activations."""
    axes = {"rows": use.last_tokens, "vocabulary": use.config.need("vocab_size")}
    if use.call.ranks > 1:
        axes["vocabulary"] = use.shared(axes["vocabulary"])
    return "sampling", {**axes, "dtype": use.dtype}


RULES: dict[str, RoleRule] = {
    "input_norm": _norm,
    "post_norm": _norm,
    "final_norm": _final_norm,
    "qk_norm": _qk_norm,
    "rope": _rope,
    "kv_write": _kv_write,
    "activation": _activation,
    "residual": _residual,
    "embedding": _embedding,
    "topk": _topk,
    "dispatch": _dispatch,
    "combine": _combine,
    "all_reduce": _all_reduce,
    "sampler": _sampler,
}
