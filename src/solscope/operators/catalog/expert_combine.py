"""Results of the experts back to the ranks of their tokens, and their sum: the way of a dispatch.

    link     nothing                       all experts of a token may be on its own rank
    bytes    one row read per token, here or on another rank; routing weights (fp32); out

`expected` counts uniform routing as `expert_dispatch` does: each rank with an expert of a token
sends one row, the sum of its own experts. `element_bytes` is the size of a value (default 2).
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

from solscope.operators.base import Operator
from solscope.operators.cost import Axes, Cost
from solscope.operators.routing import Copies, exchange_costs


def _cost(axes: Axes, routed: Copies) -> Cost:
    remote, copies = routed
    row = axes["tokens"] * axes["hidden"] * axes.get("element_bytes", 2)
    return Cost(
        read_bytes={"activations": copies * row, "weights": 4 * axes["tokens"] * axes["top_k"]},
        write_bytes={"activations": row},
        link_bytes=remote * row,
    )


cost, expected = exchange_costs(_cost)

TITLE = "Results of experts to the ranks of their tokens"
OPERATOR = Operator("expert_combine", TITLE, "comm", cost, expected=expected)
