"""From a shape of the public suite to the axes of our operator.

Each operator says in its own file how (`@in_suite`). Two operators were published with the
outcome of a random routing. Their stored figures give it back: `drawn_pairs` of fused_moe from its
FLOP, `padded_slots` of moe_align_block_size from its bytes. The MoE operators also get the number
of active experts behind the published bytes.
"""

from __future__ import annotations

from solscope.operators import operator
from solscope.operators.base import Axes
from solscope.suite.atrex import SuiteOperator, SuiteShape


def suite_axes(op: SuiteOperator, shape: SuiteShape) -> Axes:
    """The axes of one shape, in the words of our catalog."""
    published = operator(op.name).published
    if published is None:
        raise AssertionError(f"{op.name} is in the suite but has no published cost")
    return published.suite_axes(shape)
