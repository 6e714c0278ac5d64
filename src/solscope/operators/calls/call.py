"""One operator call as a profile records it, and what a rule makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from solscope.operators.tensors import Tensor, UnclearError, full_type

OperatorAxes = tuple[str, dict[str, Any]]
"""Name of a catalog operator, and its axes."""


@dataclass(frozen=True)
class Recorded:
    """One operator call as recorded, and the kernel that took most of its time."""

    name: str
    dims: list[Any]
    types: list[str]
    strides: list[Any] = field(default_factory=list)
    concrete: list[str] = field(default_factory=list)
    kernel: str = ""
    grid: str = ""
    """Blocks of that kernel as `x,y,z`, for operators whose inputs leave sizes open."""

    def tensor(self, at: int) -> Tensor:
        """Input `at`, which must be a tensor."""
        shape = self.dims[at] if at < len(self.dims) else None
        kind = self.types[at] if at < len(self.types) else ""
        if kind in _NO_TENSOR or not whole_numbers(shape):
            raise UnclearError(f"input {at} is not recorded as a tensor")
        tensor = Tensor(tuple(shape), full_type(kind), self._strides(at))
        if tensor.numel > MOST_ELEMENTS:
            raise UnclearError(f"input {at} is larger than any memory")
        return tensor

    def has(self, at: int) -> bool:
        """Whether input `at` is a tensor."""
        return at < len(self.types) and self.types[at] not in _NO_TENSOR

    def tensors(self, count: int) -> list[Tensor]:
        """Those of the first `count` inputs that are tensors."""
        found = [self.tensor(at) for at in range(min(count, len(self.types))) if self.has(at)]
        if not found:
            raise UnclearError("no input is recorded as a tensor")
        return found

    def scalar(self, at: int) -> str:
        """Scalar argument `at` as text; empty when it is not recorded."""
        return self.concrete[at] if at < len(self.concrete) else ""

    def _strides(self, at: int) -> tuple[int, ...] | None:
        found = self.strides[at] if at < len(self.strides) else None
        return tuple(found) if whole_numbers(found) else None


CallRule = Callable[[Recorded], OperatorAxes]
"""Reads the axes of one kind of operator, or raises `UnclearError`."""

_NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "GenericList")

MOST_ELEMENTS = 1 << 50
"""A shape beyond this is damage, not a tensor."""


def whole_numbers(shape: Any) -> TypeGuard[list[int]]:
    """Whether this is a shape as profilers write it."""
    return isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)


def unclear(reason: str) -> CallRule:
    """Known by name, but what profiles record does not determine the cost."""

    def rule(_: Recorded) -> OperatorAxes:
        raise UnclearError(reason)

    return rule


LENGTHS_UNKNOWN = unclear("lengths of the sequences are not recorded")
"""Attention on a paged cache: how many keys each sequence has is data on the GPU, not a shape."""
