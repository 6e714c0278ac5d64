"""Tokens sent to the ranks that hold their experts: T rows of H values, each to at most k ranks.

    link     nothing                       all experts of a token may be on its own rank
    bytes    x read; one row written per token, here or on another rank; ids (int32)

`expected` counts uniform routing: the experts E lie on N ranks, E / N on each, and a token takes k
different ones. A rank holds none of them with C(E - E/N, k) / C(E, k), so that a row goes to
(N - 1) (1 - that) other ranks on average. What was sent counts as what is received.
`element_bytes` is the size of a value (default 2; 1 for fp8).
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
        read_bytes={"activations": row, "index": 4 * axes["tokens"] * axes["top_k"]},
        write_bytes={"activations": copies * row},
        link_bytes=remote * row,
    )


cost, expected = exchange_costs(_cost)

TITLE = "Tokens to the ranks of their experts"
OPERATOR = Operator("expert_dispatch", TITLE, "comm", cost, expected=expected)
