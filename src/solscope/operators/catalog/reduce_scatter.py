"""Sums over ranks, each rank its part: out_r = Σ_s x_s[r], with S bytes of x on each of N ranks.

    link     (N - 1) S / N                 what goes into the parts of other ranks must leave
    bytes    x read, S / N written

The switch may add, so additions count nothing. `ranks` is 2, the fewest, where it is not known.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.collectives import collective
from solscope.operators.cost import Axes, Cost


@cost_model("bytes", optional="ranks")
def cost(axes: Axes) -> Cost:
    """Sending decides: a switch may add what is received."""
    size, ranks = axes["bytes"], axes.get("ranks", 2)
    return Cost(
        read_bytes={"activations": size},
        write_bytes={"activations": size / ranks},
        link_bytes=(ranks - 1) * size / ranks,
    )


RECORDED = {
    **collective("reduce_scatter", "nccl:reduce_scatter nccl:_reduce_scatter_base"),
    **collective("reduce_scatter", "vllm::reduce_scatter", ranks_at=2),
}

TITLE = "Sums over ranks, each rank its part"
OPERATOR = Operator("reduce_scatter", TITLE, "comm", cost, recorded=RECORDED)
