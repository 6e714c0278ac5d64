"""Indexing, reductions and sorting."""

from __future__ import annotations

import math
import re

from solscope.operators.cost import blocks
from solscope.operators.recorded.call import Found, Recorded, Rule
from solscope.operators.tensors import UnclearError


def _embedding(call: Recorded) -> Found:
    table, ids = call.tensor(0), call.tensor(1)
    axes = {"tokens": ids.numel, "hidden": math.prod(table.shape[1:]), "dtype": table.dtype}
    return "embedding", {**axes, "index_bytes": ids.size}


def _index_select(call: Recorded) -> Found:
    source, index = call.tensor(0), call.tensor(2)
    row = source.size * math.prod(source.shape[1:])
    if call.scalar(1) not in ("0", ""):
        raise UnclearError("only rows are known, not columns")
    axes = {"index_bytes": index.bytes, "row_bytes": row if index.numel else 0}
    return "gather", {**axes, "write_bytes": row * index.numel}


_BLOCK = re.compile(r"index_elementwise_kernel<(\d+), (\d+)")
_BY_ROW = "vectorized_gather_kernel<16, long>"
_BYTES_PER_BLOCK = 16 * 256


def _index(call: Recorded) -> Found:
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
    first = next((at for at, length in enumerate(source.shape) if length != 1), 0)
    row = source.size * math.prod(source.shape[first + 1 :])
    if _BY_ROW in call.kernel and grid[1:2] == [blocks(row, _BYTES_PER_BLOCK)]:
        axes = {"index_bytes": 8 * grid[0], "row_bytes": row}
        return "gather", {**axes, "write_bytes": row * grid[0]}
    raise UnclearError("the shapes of the indices are not recorded")


def _gather(call: Recorded) -> Found:
    source, index = call.tensor(0), call.tensor(2)
    axes = {"index_bytes": index.bytes, "row_bytes": source.size}
    return "gather", {**axes, "write_bytes": source.size * index.numel}


def _index_put(call: Recorded) -> Found:
    into, values = call.tensor(0), call.tensor(2)
    written = into.size * values.numel
    return "scatter", {"value_bytes": values.bytes, "write_bytes": written}


def _scatter(call: Recorded) -> Found:
    into, index = call.tensor(0), call.tensor(2)
    read = call.tensor(3).bytes if call.has(3) else 0
    axes = {"value_bytes": read, "index_bytes": index.bytes}
    return "scatter", {**axes, "write_bytes": into.size * index.numel}


def _reduced(shape: tuple[int, ...], dims: str) -> int:
    """Elements left when the dimensions listed in `dims` are reduced; all of them when empty."""
    listed = [int(number) for number in re.findall(r"-?\d+", dims)]
    gone = {d % len(shape) for d in listed} if shape and listed else set(range(len(shape)))
    return math.prod(length for at, length in enumerate(shape) if at not in gone)


def _reduce(size: int | None = None) -> Rule:
    """A reduction over the dimensions of argument 1; `size` bytes per result where known."""

    def rule(call: Recorded) -> Found:
        x = call.tensor(0)
        left = _reduced(x.shape, call.scalar(1))
        flop = x.numel - left if x.floating else 0
        written = left * (size or x.size)
        return "reduce", {"flop": flop, "read_bytes": x.bytes, "write_bytes": written}

    return rule


def _histogram(call: Recorded) -> Found:
    x, bins = call.tensor(0), call.scalar(1)
    written = x.size * int(bins) if bins.isdigit() else 0
    return "reduce", {"read_bytes": x.bytes, "write_bytes": written}


def _softmax(call: Recorded) -> Found:
    x = call.tensor(0)
    axes = {"elements": x.numel, "read_bytes": x.bytes}
    return "softmax", {**axes, "write_bytes": x.numel * x.size}


def _topk(call: Recorded) -> Found:
    x, count = call.tensor(0), call.scalar(1)
    if not count.isdigit() or call.scalar(2) not in ("-1", str(len(x.shape) - 1)) or not x.shape:
        raise UnclearError("how many of each row are taken is not recorded")
    kept = math.prod(x.shape[:-1]) * int(count)
    return "sort", {"read_bytes": x.bytes, "value_bytes": x.size * kept, "index_bytes": 8 * kept}


def _sort(call: Recorded) -> Found:
    x = call.tensor(0)
    written = {"value_bytes": x.size * x.numel, "index_bytes": 8 * x.numel}
    return "sort", {"read_bytes": x.bytes, **written}


RULES: dict[str, Rule] = {
    "aten::embedding": _embedding,
    "aten::index_select": _index_select,
    "aten::gather": _gather,
    "aten::_index_put_impl_": _index_put,
    "aten::scatter_": _scatter,
    **{f"aten::{name}": _reduce() for name in ("sum", "mean", "max", "min", "amax", "amin")},
    **{f"aten::{name}": _reduce(1) for name in ("any", "all")},
    **{f"aten::{name}": _reduce(8) for name in ("argmax", "argmin")},
    "aten::histc": _histogram,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::topk": _topk,
    "aten::sort": _sort,
    "aten::index": _index,
}
