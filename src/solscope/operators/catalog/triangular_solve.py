"""Solve a[i] x[i] = b[i] with triangular a[i] of n x n and b[i] of n x m.

    vector   B m n²                        half of a product of that size
    bytes    half of a, b and x once (fp32)

The work may run on the matrix units in tf32, the fastest way, and is counted there.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Substitution."""
    return Cost(
        flops={"tensor.tf32": axes["batch"] * axes["m"] * axes["n"] ** 2},
        read_bytes={
            "activations": 4 * axes["batch"] * axes["n"] * ((axes["n"] + 1) / 2 + axes["m"])
        },
        write_bytes={"activations": 4 * axes["batch"] * axes["n"] * axes["m"]},
    )


OPERATOR = Operator(
    name="triangular_solve",
    title="Solve with triangular matrices",
    category="other",
    axes=("batch", "n", "m"),
    cost=cost,
)
