"""The parts of all ranks, for every rank: out = [x_0 ... x_(N-1)], with S bytes of x on each.

link     (N - 1) S                     what a rank does not have must reach it
bytes    x read, N S written

`ranks` is 2, the fewest, where it is not known.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.collectives import collective
from solscope.operators.cost import Axes, Cost


@cost_model("bytes", optional="ranks")
def cost(axes: Axes) -> Cost:
    """Receiving decides: a switch may copy what is sent once."""
    size, ranks = axes["bytes"], axes.get("ranks", 2)
    return Cost(
        read_bytes={"activations": size},
        write_bytes={"activations": ranks * size},
        link_bytes=(ranks - 1) * size,
    )


RECORDED = {
    **collective("all_gather", "nccl:all_gather nccl:_all_gather_base"),
    **collective("all_gather", "vllm::all_gather", ranks_at=2),
    **collective("all_gather", "c10d::_allgather_base_", index=1),
}

TITLE = "Parts of all ranks, for every rank"
OPERATOR = Operator("all_gather", TITLE, "comm", cost, recorded=RECORDED)
