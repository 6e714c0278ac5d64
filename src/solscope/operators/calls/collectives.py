"""Collectives, as torch.distributed, NCCL and the serving engines record them.

`record_param_comms` is torch's record of any collective. The kernel's name says which one it is;
the tensor, the sizes of the parts and the size of the group are among its inputs. What is missing
counts as the least: a group of two ranks.
"""

from __future__ import annotations

import re
from typing import Any

from solscope.operators.calls.call import (
    CallRule,
    OperatorAxes,
    Recorded,
    recorded_as,
    whole_numbers,
)
from solscope.operators.tensors import Tensor, UnclearError

_BY_KERNEL = (
    (re.compile(r"all_?reduce", re.IGNORECASE), "all_reduce"),
    (re.compile(r"all_?gather", re.IGNORECASE), "all_gather"),
    (re.compile(r"reduce_?scatter", re.IGNORECASE), "reduce_scatter"),
    (re.compile(r"all_?to_?all|SendRecv", re.IGNORECASE), "all_to_all"),
)
_IN_SWITCH = re.compile(r"multimem|NVLS|COLLNET", re.IGNORECASE)
_KERNEL_TYPES = {
    "bf16": "c10::BFloat16",
    "f16": "c10::Half",
    "half": "c10::Half",
    "f32": "float",
    "float": "float",
    "f64": "double",
    "double": "double",
    "u8": "unsigned char",
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
}
_SPLITS = slice(5, 7)
"""Arguments of `record_param_comms` with the rows per rank: sent, then received."""
_GROUP_SIZE = 9
"""Its argument with the number of ranks."""


def _size(call: Recorded, index: int) -> int:
    """Bytes of a tensor or of a list of tensors; the type of a list is in the kernel's name."""
    if call.has(index):
        return call.tensor(index).bytes
    shapes = call.dims[index] if index < len(call.dims) else None
    if not isinstance(shapes, list) or not shapes:
        raise UnclearError("the size of what is sent is not recorded")
    listed = [shapes] if whole_numbers(shapes) else shapes
    if not all(map(whole_numbers, listed)):
        raise UnclearError("the size of what is sent is not recorded")
    written = re.search(r"_(?:Sum|Max|Min|Prod|Avg)\w*?_(\w+?)(?:_[A-Z]|\(|$)", call.kernel)
    kind = _KERNEL_TYPES.get(written.group(1) if written else "")
    if kind is None:
        raise UnclearError("the type of what is sent is not recorded")
    return sum(Tensor(tuple(shape), kind).bytes for shape in listed)


def _axes(call: Recorded, operator: str, size: int, ranks: str) -> dict[str, Any]:
    axes: dict[str, Any] = {"bytes": size}
    if ranks.isdigit() and 1 < int(ranks) < 1 << 20:
        axes["ranks"] = int(ranks)
    if operator == "all_reduce" and _IN_SWITCH.search(call.kernel + call.name):
        axes["in_network"] = True
    return axes


def collective(
    operator: str, names: str, *, index: int = 0, ranks_at: int | None = None
) -> dict[str, CallRule]:
    """Recorded `names` that are one collective each, of the tensor at `index`."""

    def rule(call: Recorded) -> OperatorAxes:
        ranks = "" if ranks_at is None else call.scalar(ranks_at)
        return operator, _axes(call, operator, _size(call, index), ranks)

    return recorded_as(names, rule)


def record_param_comms(call: Recorded) -> OperatorAxes:
    """Which collective torch recorded, by its kernel."""
    operator = next((name for pattern, name in _BY_KERNEL if pattern.search(call.kernel)), None)
    if operator is None:
        raise UnclearError("the kernel is not that of a known collective")
    size = _size(call, 0)
    axes = _axes(call, operator, size, call.scalar(_GROUP_SIZE))
    # Rows per rank, of what is sent and of what comes. A rank's own part, which is in both lists,
    # is not marked: at most the largest.
    lists = [[int(n) for n in re.findall(r"\d+", text)] for text in call.concrete[_SPLITS]]
    largest = [max(rows) for rows in lists if rows]
    if operator == "all_to_all" and largest:
        rows = call.tensor(0).shape[0]
        axes["own_bytes"] = min(size, size * min(largest) // max(1, rows))
    return operator, axes
