"""Token slots sorted by expert, with the count and the offset of each expert.

    bytes    ids in; T k sorted slots, E counts, E + 1 offsets out (int32)

Integer work only. Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published


def cost(axes: Axes) -> Cost:
    """Ids once, each output once."""
    slots, experts = axes["tokens"] * axes["top_k"], axes["experts"]
    return Cost(
        read_bytes={"index": 4 * slots},
        write_bytes={"index": 4 * slots + 4 * experts + 4 * (experts + 1)},
    )


def published(axes: Axes) -> Published:
    """As published."""
    slots, experts = axes["tokens"] * axes["top_k"], axes["experts"]
    return Published(
        flops={},
        read_bytes=4 * slots,
        write_bytes=4 * slots + 4 * experts + 4 * (experts + 1),
    )


OPERATOR = Operator(
    name="moe_count_and_sort",
    title="Token slots sorted by expert",
    category="moe",
    axes=("tokens", "experts", "top_k"),
    cost=cost,
    suite_id="atrex_020",
    published=published,
)
