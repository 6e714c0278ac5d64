"""Attention of dense tensors: out = softmax(q k / sqrt(D)) v, causal or not, prefill or decode.

    pairs  P = Sq Skv, or with a causal mask Σ min(r + 1, Skv) over the Sq rows
    tensor   2 B Hq (D + Dv) P             q k and p v
    sfu      B Hq P                        one exponential per pair and head
    bytes    q, k, v, mask and out once; with a causal mask only the first Sq keys

The causal mask is aligned at the start, which leaves the fewest pairs where Sq < Skv (kernels that
align it at the end do more). Without `causal` it is taken as causal, the smaller cost.
`v_dim` is the width of v (default: `head_dim`); `mask_bytes` the size of a mask (default 0).
"""

# Also: roles in operators/from_config/attention.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded, recorded_as
from solscope.operators.calls.matrices import matrix_dtype
from solscope.operators.cost import Axes, Cost, element, matrix_pipe
from solscope.operators.tensors import UnclearError


def pairs(queries: int, keys: int, causal: bool) -> int:
    """Query-key pairs of one head that the mask leaves."""
    if not causal:
        return queries * keys
    ramp = min(queries, keys)
    return ramp * (ramp + 1) // 2 + (queries - ramp) * keys


@cost_model(
    "batch queries keys q_heads kv_heads head_dim", optional="dtype causal v_dim mask_bytes"
)
def cost(axes: Axes) -> Cost:
    """Each of q, k, v and out once; no pair that the mask hides."""
    batch, queries, keys, dim = (axes[a] for a in ("batch", "queries", "keys", "head_dim"))
    heads, kv_heads, causal = axes["q_heads"], axes["kv_heads"], axes.get("causal", True)
    v_dim, size = axes.get("v_dim", dim), element(axes)
    work = batch * heads * pairs(queries, keys, causal)
    seen = min(queries, keys) if causal else keys
    return Cost(
        flops={matrix_pipe(axes): 2 * (dim + v_dim) * work, "sfu": work},
        read_bytes={
            "activations": size * batch * queries * heads * dim + axes.get("mask_bytes", 0),
            "cache": size * batch * seen * kv_heads * (dim + v_dim),
        },
        write_bytes={"activations": size * batch * queries * heads * v_dim},
    )


def _attention(causal_at: int, mask_at: int | None = None, heads_at: int = 1) -> CallRule:
    """Dense q, k, v with the heads in dimension `heads_at`, the other one being the sequence."""

    def rule(call: Recorded) -> OperatorAxes:
        q, k, v = (call.tensor(index) for index in range(3))
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


def _aiter(call: Recorded) -> OperatorAxes:
    """As aiter records it: windows to the left and right follow the causal flag."""
    if call.scalar(6) != "-1" or call.scalar(7) not in ("-1", "0"):
        raise UnclearError("attention with a window is not known")
    return _attention(5, heads_at=2)(call)


MOST_HEADS = 256
"""No model has more heads on one rank: an axis longer than this is the sequence."""


def attention_kernel(call: Recorded) -> OperatorAxes | None:
    """A kernel of attention that is recorded under its own name: q, k and v come first.

    Which of the middle axes has the heads is known where the other one is too long for them.
    """
    if call.category != "attention" or not call.names_kernel:
        return None
    q, k, v = call.tensors(len(call.types))[:3]
    if not (len(q.shape) == len(k.shape) == len(v.shape) == 4 and q.shape[3] == k.shape[3]):
        raise UnclearError("packed sequences: their lengths are not recorded")
    heads_at = [i for i in (1, 2) if max(q.shape[i], k.shape[i]) <= MOST_HEADS]
    if len(heads_at) != 1 or q.shape[heads_at[0]] % k.shape[heads_at[0]]:
        raise UnclearError("which axis of its inputs has the heads is not recorded")
    return _attention(len(call.concrete), heads_at=heads_at[0])(call)


RECORDED: dict[str, CallRule] = {
    **recorded_as("aiter::fmha_v3_fwd aiter::mha_fwd", _aiter),
    "aten::_flash_attention_forward": _attention(8, heads_at=2),
    "aten::_efficient_attention_forward": _attention(9, 3, heads_at=2),
    "aten::_cudnn_attention_forward": _attention(10, 3),
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_efficient_attention": _attention(6, 3),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6, 3),
    "aten::scaled_dot_product_attention": _attention(5, 3),
}

TITLE = "Attention of dense tensors, prefill or decode"
OPERATOR = Operator("dot_product_attention", TITLE, "attention", cost, recorded=RECORDED)
