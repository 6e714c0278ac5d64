"""Tensors as profilers record them: shape, type and strides, and how many bytes they hold.

A dimension with stride 0 is broadcast: its elements lie in memory once. Strides may also make
windows overlap, so what a tensor holds is never more than the span from its first to its last
element.
"""

from __future__ import annotations

import math

import msgspec

_SHORT = {
    "Double": "double",
    "Float": "float",
    "Half": "c10::Half",
    "BFloat16": "c10::BFloat16",
    "Float8_e4m3fn": "c10::Float8_e4m3fn",
    "Float8_e5m2": "c10::Float8_e5m2",
    "Long": "long int",
    "Int": "int",
    "Short": "short",
    "Char": "signed char",
    "Byte": "unsigned char",
    "Bool": "bool",
}
"""Types as torch writes them at collectives."""
DTYPES = {
    "double": "fp64",
    "float": "fp32",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "signed char": "int8",
}
"""Names of the catalog for types as Kineto writes them."""

_SIZES = {
    "double": 8,
    "long int": 8,
    "long": 8,
    "long long": 8,
    "float": 4,
    "int": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "short": 2,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
    **{name: 1 for name, dtype in DTYPES.items() if dtype in ("fp8", "fp4")},
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}


def full_type(name: str) -> str:
    """The name that Kineto uses for a type in the inputs of operators."""
    return _SHORT.get(name, name)


class UnclearError(Exception):
    """What was recorded does not determine a cost; the message says why."""


class Tensor(msgspec.Struct, frozen=True):
    """One recorded tensor."""

    shape: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Elements of the shape, broadcast ones included."""
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        """Distinct elements in memory; without strides, those of the shape."""
        if self.strides is None or len(self.strides) != len(self.shape) or not self.numel:
            return self.numel
        pairs = list(zip(self.shape, self.strides, strict=True))
        distinct = math.prod(length for length, stride in pairs if stride)
        return min(distinct, 1 + sum((length - 1) * abs(stride) for length, stride in pairs))

    @property
    def size(self) -> int:
        """Bytes per element."""
        if self.type not in _SIZES:
            raise UnclearError(f"type {self.type or 'of an input'!r} is not known")
        return _SIZES[self.type]

    @property
    def dtype(self) -> str:
        """The catalog's name of a floating-point type or int8."""
        if self.type not in DTYPES:
            raise UnclearError(f"no matrix or vector rate is known for type {self.type!r}")
        return DTYPES[self.type]

    @property
    def floating(self) -> bool:
        return DTYPES.get(self.type, "int8") != "int8"

    @property
    def bytes(self) -> int:
        """Bytes that must be read to see all of it."""
        return self.stored * self.size


def broadcast(tensors: list[Tensor]) -> tuple[int, ...]:
    """The shape that all of them broadcast to."""
    shape: list[int] = []
    for tensor in tensors:
        own = list(tensor.shape)
        width = max(len(shape), len(own))
        left = [1] * (width - len(shape)) + shape
        right = [1] * (width - len(own)) + own
        if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
            raise UnclearError("the shapes of the inputs do not fit together")
        shape = [b if a == 1 else a for a, b in zip(left, right, strict=True)]
    return tuple(shape)


def result_size(tensors: list[Tensor]) -> int:
    """Bytes per element of what arithmetic on these gives, at least.

    Floating-point types win over integers, and tensors with dimensions over those without.
    """
    real = [t for t in tensors if t.shape] or tensors
    return max(t.size for t in ([t for t in real if t.floating] or real))
