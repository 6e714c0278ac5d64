"""Rows or elements picked by index: embeddings, index_select, gather.

    bytes    the indices and the result once; one picked row

All indices may name the same row, so only one row of the source must be read.
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

import math
import re

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, blocks
from solscope.operators.tensors import UnclearError


@cost_model("index_bytes row_bytes write_bytes")
def cost(axes: Axes) -> Cost:
    """Indices in, result out."""
    return Cost(
        read_bytes={"index": axes["index_bytes"], "weights": axes["row_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


def _index_select(call: Recorded) -> OperatorAxes:
    source, index = call.tensor(0), call.tensor(2)
    row = source.size * math.prod(source.shape[1:])
    if call.scalar(1) not in ("0", ""):
        raise UnclearError("only rows are known, not columns")
    axes = {"index_bytes": index.bytes, "row_bytes": row if index.numel else 0}
    return "gather", {**axes, "write_bytes": row * index.numel}


_BLOCK = re.compile(r"index_elementwise_kernel<(\d+), (\d+)")
_BY_ROW = "vectorized_gather_kernel<16, long>"
_BYTES_PER_BLOCK = 16 * 256


def _index(call: Recorded) -> OperatorAxes:
    """The indices are not recorded; the grid of the kernel says how much comes out, at least.

    torch's kernel for rows has a block for each 4096 bytes of each row; it serves one index, before
    which only dimensions of length 1 can stand. Its kernel for elements has blocks of threads x
    elements, the last one perhaps with one.
    """
    source, grid = call.tensor(0), [int(n) for n in re.findall(r"\d+", call.grid)]
    by_element = _BLOCK.search(call.kernel)
    if by_element is not None and grid:
        threads, each = int(by_element.group(1)), int(by_element.group(2))
        written = source.size * ((grid[0] - 1) * threads * each + 1)
        axes = {"index_bytes": 0, "row_bytes": source.size}
        return "gather", {**axes, "write_bytes": written}
    first = next((axis for axis, length in enumerate(source.shape) if length != 1), 0)
    row = source.size * math.prod(source.shape[first + 1 :])
    if _BY_ROW in call.kernel and grid[1:2] == [blocks(row, _BYTES_PER_BLOCK)]:
        axes = {"index_bytes": 8 * grid[0], "row_bytes": row}
        return "gather", {**axes, "write_bytes": row * grid[0]}
    raise UnclearError("the shapes of the indices are not recorded")


def _gather(call: Recorded) -> OperatorAxes:
    source, index = call.tensor(0), call.tensor(2)
    axes = {"index_bytes": index.bytes, "row_bytes": source.size}
    return "gather", {**axes, "write_bytes": source.size * index.numel}


RECORDED: dict[str, CallRule] = {
    "aten::index_select": _index_select,
    "aten::gather": _gather,
    "aten::index": _index,
}

TITLE = "Rows or elements picked by index"
OPERATOR = Operator("gather", TITLE, "embedding", cost, recorded=RECORDED)
