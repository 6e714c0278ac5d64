"""Rows of a table, one per token: out[t] = table[id[t]].

    bytes    ids and out once; one row of the table

All tokens may be the same, so only one row of the table must be read. `index_bytes` is the size of
an id (default 8). `expected` counts tokens that all differ: T rows read.
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

import math

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, element


@cost_model("tokens hidden", optional="dtype index_bytes")
def cost(axes: Axes) -> Cost:
    """One distinct token."""
    return _with_rows(axes, min(1, axes["tokens"]))


def expected(axes: Axes) -> Cost:
    """All tokens differ."""
    return _with_rows(axes, axes["tokens"])


def _with_rows(axes: Axes, rows: int) -> Cost:
    row = element(axes) * axes["hidden"]
    return Cost(
        read_bytes={
            "index": axes.get("index_bytes", 8) * axes["tokens"],
            "weights": rows * row,
        },
        write_bytes={"activations": axes["tokens"] * row},
    )


def _embedding(call: Recorded) -> OperatorAxes:
    table, ids = call.tensor(0), call.tensor(1)
    axes = {"tokens": ids.numel, "hidden": math.prod(table.shape[1:]), "dtype": table.dtype}
    return "embedding", {**axes, "index_bytes": ids.size}


RECORDED: dict[str, CallRule] = {"aten::embedding": _embedding}

TITLE = "Rows of a table by token"
OPERATOR = Operator("embedding", TITLE, "embedding", cost, expected=expected, recorded=RECORDED)
