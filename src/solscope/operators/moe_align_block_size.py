"""Token slots sorted by expert, each expert padded to a multiple of the block size.

    bytes    ids in; N sorted slots, N/bs block experts and N itself out (int32)

`padded_slots` is N = Σ ceil(c_e / bs) bs. Without it the bound takes the least that routing allows:
k experts are used at least, and T k slots must fit. Integer work only.
Published: the same, with the N of one random draw.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks


def _fewest_slots(axes: Axes) -> int:
    slots = axes["tokens"] * axes["top_k"]
    least = max(axes["top_k"] if slots else 0, blocks(slots, axes["block_size"]))
    return int(least * axes["block_size"])


def cost(axes: Axes) -> Cost:
    """Ids once, each output once."""
    size = axes["block_size"]
    padded = axes.get("padded_slots", _fewest_slots(axes))
    return Cost(
        read_bytes={"index": 4 * axes["tokens"] * axes["top_k"]},
        write_bytes={"index": 4 * (padded + padded // size + 1)},
    )


def published(axes: Axes) -> Published:
    """As published, for the draw that gave `padded_slots`."""
    padded = axes["padded_slots"]
    return Published(
        flops={},
        read_bytes=4 * axes["tokens"] * axes["top_k"],
        write_bytes=4 * (padded + padded // axes["block_size"] + 1),
    )


OPERATOR = Operator(
    name="moe_align_block_size",
    title="Token slots sorted by expert, in padded blocks",
    category="moe",
    axes=("tokens", "top_k", "block_size"),
    optional=("padded_slots",),
    cost=cost,
    suite_id="atrex_019",
    published=published,
)
