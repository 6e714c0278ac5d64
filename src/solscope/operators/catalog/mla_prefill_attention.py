"""Prefill attention of MLA with keys and values written out: heads share the rotary part of a key.

Row r of a sequence with q queries and s keys sees keys 0 ... s-q+r. A query and a key have n values
of their own and R rotary ones, a value has v: out = softmax(scale (q_n k_n + q_R k_R)) v.

    pairs  P = Σ q s - q (q-1)/2           query-key pairs that the mask leaves
    tensor   2 Hq (n + R + v) P            scores over n + R, outputs over v
    sfu      Hq P                          one exponential per pair and head
    bytes    q; k_n and v per head, k_R once for all heads; out

The keys of the form that decode uses (`mla_decode_attention`) are fewer bytes and more FLOP; a
kernel that computes k_n and v from the latent itself does the work of `kv_b` too.
"""

# Also: roles in operators/from_config/attention.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.cost import Axes, Cost, element, tensor_pipe


@cost_model("sequences q_heads nope_dim rope_dim v_dim", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Only the pairs that the mask leaves."""
    groups, heads, size = axes["sequences"], axes["q_heads"], element(axes)
    nope, rope, value = axes["nope_dim"], axes["rope_dim"], axes["v_dim"]
    pairs = sum((q * kv - q * (q - 1) // 2) * count for q, kv, count in groups)
    queries = sum(q * count for q, _, count in groups)
    keys = sum(kv * count for _, kv, count in groups)
    return Cost(
        flops={tensor_pipe(axes): 2 * heads * (nope + rope + value) * pairs, "sfu": heads * pairs},
        read_bytes={
            "activations": size * queries * heads * (nope + rope),
            "cache": size * keys * (heads * (nope + value) + rope),
        },
        write_bytes={"activations": size * queries * heads * value},
    )


TITLE = "Causal prefill attention of MLA"
OPERATOR = Operator("mla_prefill_attention", TITLE, "attention", cost)
