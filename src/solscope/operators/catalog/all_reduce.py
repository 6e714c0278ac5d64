"""Sum over ranks, for every rank: out = Σ_r x_r, with S bytes of x on each of N ranks.

    link     S                             a rank's values must leave it, and the sums reach it
    bytes    x and out once

Switches that add (NVLink SHARP, `multimem`) reach S in each direction. Without them the least is
2 S (N - 1) / N, half for a reduce-scatter and half for an all-gather; `expected` counts that, where
`ranks` is known and `in_network` does not say that the switch adds.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/small.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.collectives import collective
from solscope.operators.cost import Axes, Cost


@cost_model("bytes", optional="ranks in_network")
def cost(axes: Axes) -> Cost:
    """The switch may add."""
    return _with_link(axes, axes["bytes"])


def expected(axes: Axes) -> Cost:
    """The GPUs add, unless the switch is known to."""
    size, ranks = axes["bytes"], axes.get("ranks", 2)
    in_network = axes.get("in_network", False)
    return _with_link(axes, size if in_network else 2 * size * (ranks - 1) / ranks)


def _with_link(axes: Axes, link_bytes: float) -> Cost:
    return Cost(
        read_bytes={"activations": axes["bytes"]},
        write_bytes={"activations": axes["bytes"]},
        link_bytes=link_bytes,
    )


_OF_FIRST_INPUT = (
    "nccl:all_reduce vllm::all_reduce sglang::inplace_all_reduce sglang::outplace_all_reduce"
    " symm_mem::multimem_all_reduce_ symm_mem::multimem_one_shot_all_reduce"
    " symm_mem::one_shot_all_reduce symm_mem::two_shot_all_reduce_"
)
_OF_SECOND_INPUT = "_C_custom_ar::all_reduce sgl_kernel::all_reduce"
RECORDED = {
    **collective("all_reduce", _OF_FIRST_INPUT),
    **collective("all_reduce", _OF_SECOND_INPUT, index=1),
}

TITLE = "Sum over ranks, for every rank"
OPERATOR = Operator("all_reduce", TITLE, "comm", cost, expected=expected, recorded=RECORDED)
