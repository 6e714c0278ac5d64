"""A part of each rank for each rank: out_r = [x_0[r] ... x_(N-1)[r]], S bytes of x on each.

    link     S - own                       all but the part that stays
    bytes    x read, as much written

`own_bytes` is the part that stays on its rank (default S / N: equal parts). Where the parts differ
and which one is a rank's own is not known, it is the largest. `ranks` is 2, the fewest, where it is
not known.
"""

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.collectives import collective
from solscope.operators.cost import Axes, Cost


@cost_model("bytes", optional="ranks own_bytes")
def cost(axes: Axes) -> Cost:
    """What stays on its rank crosses no link."""
    size = axes["bytes"]
    return Cost(
        read_bytes={"activations": size},
        write_bytes={"activations": size},
        link_bytes=size - axes.get("own_bytes", size / axes.get("ranks", 2)),
    )


RECORDED = collective("all_to_all", "nccl:all_to_all")

TITLE = "A part of each rank for each rank"
OPERATOR = Operator("all_to_all", TITLE, "comm", cost, recorded=RECORDED)
