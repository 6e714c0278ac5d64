"""One operator call as a profile records it, and what a rule derives from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeGuard

import msgspec

from solscope.operators.calls.lengths import Lengths
from solscope.operators.tensors import Tensor, UnclearError, full_type

OperatorAxes = tuple[str, dict[str, Any]]
"""Name of a catalog operator, and its axes."""


class Recorded(msgspec.Struct, frozen=True):
    """One operator call as recorded, and the kernel that took most of its time."""

    name: str
    dims: list[Any]
    types: list[str]
    strides: list[Any] = msgspec.field(default_factory=list)
    concrete: list[str] = msgspec.field(default_factory=list)
    kernel: str = ""
    grid: str = ""
    """Blocks of that kernel as `x,y,z`, for operators whose inputs leave sizes open."""
    category: str = ""
    """Category of that kernel, for operators that no rule knows by name."""
    lengths: Lengths | None = None
    """Lengths of the requests, where the step states them."""

    def tensor(self, index: int) -> Tensor:
        """Input `index`, which must be a tensor."""
        shape = self.dims[index] if index < len(self.dims) else None
        kind = self.types[index] if index < len(self.types) else ""
        if kind in _NO_TENSOR or not whole_numbers(shape):
            raise UnclearError(f"input {index} is not recorded as a tensor")
        tensor = Tensor(tuple(shape), full_type(kind), self._strides(index))
        if tensor.numel > MOST_ELEMENTS:
            raise UnclearError(f"input {index} is larger than any memory")
        return tensor

    def has(self, index: int) -> bool:
        """Whether input `index` is a tensor."""
        return index < len(self.types) and self.types[index] not in _NO_TENSOR

    def tensors(self, count: int) -> list[Tensor]:
        """Those of the first `count` inputs that are tensors."""
        tensors = [
            self.tensor(index) for index in range(min(count, len(self.types))) if self.has(index)
        ]
        if not tensors:
            raise UnclearError("no input is recorded as a tensor")
        return tensors

    @property
    def names_kernel(self) -> bool:
        """Whether the operator is its kernel, as Inductor records Triton kernels: with a number."""
        return "::" not in self.name and _NUMBER.sub("", self.name) == self.kernel

    def scalar(self, index: int) -> str:
        """Scalar argument `index` as text; empty when it is not recorded."""
        return self.concrete[index] if index < len(self.concrete) else ""

    def _strides(self, index: int) -> tuple[int, ...] | None:
        strides = self.strides[index] if index < len(self.strides) else None
        return tuple(strides) if whole_numbers(strides) else None


CallRule = Callable[[Recorded], OperatorAxes]
"""Reads the axes of one kind of operator, or raises `UnclearError`."""

_NUMBER = re.compile(r"_\d+$")
_NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "GenericList")

MOST_ELEMENTS = 1 << 50
"""A shape beyond this is damage, not a tensor."""


def whole_numbers(shape: Any) -> TypeGuard[list[int]]:
    """Whether this is a shape as profilers write it."""
    return isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)


def recorded_as(names: str, rule: CallRule) -> dict[str, CallRule]:
    """One rule for several recorded names, separated by spaces."""
    return dict.fromkeys(names.split(), rule)


def unclear(reason: str) -> CallRule:
    """Known by name, but what profiles record does not determine the cost."""

    def rule(_: Recorded) -> OperatorAxes:
        raise UnclearError(reason)

    return rule


_NO_LENGTHS = "lengths of the sequences are not recorded"
LENGTHS_UNKNOWN = unclear(_NO_LENGTHS)
"""Attention on a paged cache: how many keys each sequence has is data on the GPU, not a shape."""


def paged_attention(queries_at: int, keys_at: int) -> CallRule:
    """Attention of queries [tokens, heads, width] over keys [..., heads, width].

    How many keys each request has, the step must state.
    """

    def rule(call: Recorded) -> OperatorAxes:
        stated = {} if call.lengths is None else call.lengths.axes
        if not stated:
            raise UnclearError(_NO_LENGTHS)
        queries, keys = call.tensor(queries_at), call.tensor(keys_at)
        (heads, dim), (kv_heads, width) = queries.shape[-2:], keys.shape[-2:]
        if dim != width or heads % kv_heads:
            raise UnclearError("queries and keys have other heads than paged attention")
        axes = {"q_heads": heads, "kv_heads": kv_heads, "head_dim": dim}
        return "unified_attention", {**stated, **axes, "dtype": keys.dtype}

    return rule
