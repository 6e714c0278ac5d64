"""Results of the experts back to the ranks of their tokens, and their sum: the way of a dispatch.

    link     nothing                       all experts of a token may be on its own rank
    bytes    one row read per token, here or on another rank; routing weights (fp32); out

`expected` counts uniform routing as `expert_dispatch` does: each rank with an expert of a token
sends one row, the sum of its own experts. `element_bytes` is the size of a value (default 2).
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.cost import Axes, Cost
from solscope.operators.routing import uniform_copies


@cost_model("tokens hidden experts top_k ranks", optional="element_bytes")
def cost(axes: Axes) -> Cost:
    """Everything may have stayed."""
    return _with_copies(axes, remote=0.0, copies=1.0)


def expected(axes: Axes) -> Cost:
    """Uniform routing."""
    return _with_copies(axes, *uniform_copies(axes))


def _with_copies(axes: Axes, remote: float, copies: float) -> Cost:
    row = axes["tokens"] * axes["hidden"] * axes.get("element_bytes", 2)
    return Cost(
        read_bytes={"activations": copies * row, "weights": 4 * axes["tokens"] * axes["top_k"]},
        write_bytes={"activations": row},
        link_bytes=remote * row,
    )


TITLE = "Results of experts to the ranks of their tokens"
OPERATOR = Operator("expert_combine", TITLE, "comm", cost, expected=expected)
