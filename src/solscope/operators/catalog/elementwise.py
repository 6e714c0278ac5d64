"""One function of each element: out = f(x, y, ...), inputs broadcast to the shape of the result.

    vector   f per element                 `flop` (default 0); fp32 at most
    sfu      special functions             `sfu` per element (default 0)
    bytes    each input as stored, once; the result once

An input that is broadcast is read once. Where a profile shows a product of two inputs with equal
shape, type and strides, they may be one tensor (x * x), and one is counted.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Inputs in, result out."""
    return Cost(
        flops={
            "vector.fp32": axes["elements"] * axes.get("flop", 0),
            "sfu": axes["elements"] * axes.get("sfu", 0),
        },
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="elementwise",
    title="One function of each element",
    category="elementwise",
    axes=("elements", "read_bytes", "write_bytes"),
    cost=cost,
    optional=("flop", "sfu"),
)
