"""Copy of a tensor, also to another type or layout; concatenation.

    bytes    the source as stored, once; the result once

    host     `host_bytes`, what comes from or goes to the host (default 0)

A source that is broadcast is read once. From or to the host, only the side on the GPU counts.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """No arithmetic."""
    return Cost(
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
        host_bytes=axes.get("host_bytes", 0),
    )


OPERATOR = Operator(
    name="copy",
    title="Copy, also to another type or layout",
    category="copy",
    axes=("read_bytes", "write_bytes"),
    optional=("host_bytes",),
    cost=cost,
)
