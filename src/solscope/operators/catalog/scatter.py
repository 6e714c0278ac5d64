"""Values written to places that an index names.

bytes    the values once, their indices where the shapes tell, and as much written
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded, recorded_as
from solscope.operators.cost import Axes, Cost


@cost_model("value_bytes write_bytes", optional="index_bytes")
def cost(axes: Axes) -> Cost:
    """Values in, values out."""
    return Cost(
        read_bytes={"activations": axes["value_bytes"], "index": axes.get("index_bytes", 0)},
        write_bytes={"activations": axes["write_bytes"]},
    )


def _index_put(call: Recorded) -> OperatorAxes:
    into, values = call.tensor(0), call.tensor(2)
    written = into.size * values.numel
    return "scatter", {"value_bytes": values.bytes, "write_bytes": written}


def _scatter(call: Recorded) -> OperatorAxes:
    into, index = call.tensor(0), call.tensor(2)
    read = call.tensor(3).bytes if call.has(3) else 0
    axes = {"value_bytes": read, "index_bytes": index.bytes}
    return "scatter", {**axes, "write_bytes": into.size * index.numel}


def _index_copy(call: Recorded) -> OperatorAxes:
    """Destination, dimension, index, source."""
    into, index, source = (call.tensor(position) for position in (0, 2, 3))
    axes = {"value_bytes": source.bytes, "index_bytes": index.bytes}
    return "scatter", {**axes, "write_bytes": into.size * source.numel}


def _store_cache(call: Recorded) -> OperatorAxes:
    """Keys and values into a paged cache, perhaps in another type."""
    key, value, cache, slots = (call.tensor(index) for index in (0, 1, 2, 4))
    read, written = key.bytes + value.bytes, cache.size * (key.numel + value.numel)
    return "scatter", {"value_bytes": read, "write_bytes": written, "index_bytes": slots.bytes}


RECORDED: dict[str, CallRule] = {
    "aten::_index_put_impl_": _index_put,
    "aten::scatter_": _scatter,
    "aten::index_copy_": _index_copy,
    **recorded_as("_C_cache_ops::reshape_and_cache_flash sglang::store_cache", _store_cache),
}

TITLE = "Values written to indexed places"
OPERATOR = Operator("scatter", TITLE, "elementwise", cost, recorded=RECORDED)
