"""Logits below the k-th largest of their row set to -inf.

    bytes    logits (fp32) in and out

Compares only. An exact selection looks at a row at least twice; the second look can be served on
the chip. Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published


def cost(axes: Axes) -> Cost:
    """Each logit once in and out."""
    values = axes["rows"] * axes["vocabulary"]
    return Cost(
        read_bytes={"activations": 4 * values},
        write_bytes={"activations": 4 * values},
    )


def published(axes: Axes) -> Published:
    """As published."""
    values = axes["rows"] * axes["vocabulary"]
    return Published(flops={"fp32": 0}, read_bytes=4 * values, write_bytes=4 * values)


OPERATOR = Operator(
    name="topk_filter",
    title="Logits outside the top k removed",
    category="sampling",
    axes=("rows", "vocabulary"),
    cost=cost,
    suite_id="atrex_029",
    published=published,
)
