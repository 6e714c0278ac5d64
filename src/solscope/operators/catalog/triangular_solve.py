"""Solve a[i] x[i] = b[i] with triangular a[i] of n x n and b[i] of n x m.

    tensor   B m n²                        half of a product of that size
    bytes    half of a, b and x once (fp32)

The work may run on the matrix units in tf32, the fastest way, and is counted there.
"""

from __future__ import annotations

import math

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import UnclearError


@cost_model("batch n m")
def cost(axes: Axes) -> Cost:
    """Substitution."""
    return Cost(
        flops={"tensor.tf32": axes["batch"] * axes["m"] * axes["n"] ** 2},
        read_bytes={
            "activations": 4 * axes["batch"] * axes["n"] * ((axes["n"] + 1) / 2 + axes["m"])
        },
        write_bytes={"activations": 4 * axes["batch"] * axes["n"] * axes["m"]},
    )


def _triangular_solve(call: Recorded) -> OperatorAxes:
    a, b = call.tensor(0), call.tensor(1)
    if a.dtype != "fp32" or call.scalar(3) == "False" or a.shape[:-2] != b.shape[:-2]:
        raise UnclearError("only fp32 with the triangle on the left is known")
    return "triangular_solve", {
        "batch": math.prod(a.shape[:-2]),
        "n": a.shape[-1],
        "m": b.shape[-1],
    }


RECORDED: dict[str, CallRule] = {"aten::linalg_solve_triangular": _triangular_solve}

TITLE = "Solve with triangular matrices"
OPERATOR = Operator("triangular_solve", TITLE, "other", cost, recorded=RECORDED)
