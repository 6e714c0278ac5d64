"""The next token of each row, drawn from its logits or probabilities, or the largest of them.

    vector   R V                           each value compared or added at least once
    sfu      R V with `softmax`            exponentials, where logits become probabilities
    bytes    R V values read, R ids (int32) written

Top-k and top-p need more than one look at a row; later ones may be served by a cache, and count
nothing. `writes` adds R V values (the probabilities or masked logits, where they are kept).
"""

from __future__ import annotations

from solscope.operators.base import BYTES, Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """One look at every logit."""
    count = axes["rows"] * axes["vocabulary"]
    size = BYTES[axes.get("dtype", "fp32")]
    return Cost(
        flops={"vector.fp32": count} | ({"sfu": count} if axes.get("softmax") else {}),
        read_bytes={"activations": size * count},
        write_bytes={"index": 4 * axes["rows"]}
        | ({"activations": size * count} if axes.get("writes") else {}),
    )


OPERATOR = Operator(
    name="sampling",
    title="Next token of each row",
    category="sampling",
    axes=("rows", "vocabulary"),
    optional=("dtype", "softmax", "writes"),
    cost=cost,
)
