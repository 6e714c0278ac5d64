"""What one call of an operator costs: work by pipe, bytes by kind, dependent steps.

A cost is a true lower bound: each needed byte moved once, each needed operation done once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Axes = Mapping[str, Any]
"""Sizes that determine a cost, by the names that the operator declares."""

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}
"""Bytes per element by dtype, as pipes are named (`tensor.fp8`)."""


def blocks(length: int, size: int) -> int:
    """How many blocks of `size` hold `length` elements; the last may be partly filled."""
    return -(-length // size)


def element(axes: Axes) -> float:
    """Bytes per element of the operator's dtype."""
    return BYTES[axes.get("dtype", "bf16")]


def tensor_pipe(axes: Axes) -> str:
    """The matrix pipe that works in the operator's dtype."""
    return f"tensor.{axes.get('dtype', 'bf16')}"


def matrix_pipe(axes: Axes) -> str:
    """The pipe that multiplies matrices of the operator's dtype: fp32 has none but the vector."""
    return "vector.fp32" if axes.get("dtype") == "fp32" else tensor_pipe(axes)


class Cost(msgspec.Struct, frozen=True):
    """What one call needs at least."""

    flops: dict[str, float] = msgspec.field(default_factory=dict)
    """FLOP by pipe: `tensor.bf16`, `tensor.fp8`, `vector.fp32`, ...; operations for `sfu`."""
    read_bytes: dict[str, float] = msgspec.field(default_factory=dict)
    """Bytes read, by kind: weights, activations, cache, index, state."""
    write_bytes: dict[str, float] = msgspec.field(default_factory=dict)
    """Bytes written, by the same kinds."""
    link_bytes: float = 0
    """Bytes over the links to other GPUs, in the busier direction."""
    host_bytes: float = 0
    """Bytes from or to the host, in the busier direction."""
    serial_steps: int = 0
    """Dependent steps that cannot run at the same time (recurrences)."""

    @property
    def bytes(self) -> float:
        """All bytes moved in this GPU's own memory."""
        return sum(self.read_bytes.values()) + sum(self.write_bytes.values())

    @property
    def flop(self) -> float:
        """All floating-point operations, special functions left out."""
        return sum(count for pipe, count in self.flops.items() if pipe != "sfu")

    @property
    def intensity(self) -> float | None:
        """FLOP per byte."""
        return self.flop / self.bytes if self.bytes else None


class Published(msgspec.Struct, frozen=True):
    """Cost as the suite's public data state it: one precision, bytes in and out."""

    flops: dict[str, float]
    """FLOP by declared dtype."""
    read_bytes: float
    write_bytes: float


def row_cost(
    axes: Axes, rows: str, flops: float, *, inputs: int = 1, outputs: int = 1, weights: int = 1
) -> Cost:
    """One pass over rows of `hidden` elements, each of which stays on the chip while it is needed.

    `rows` names the axis that counts them, and `flops` are per row, as is one reciprocal root.
    `inputs` and `outputs` count tensors of rows, `weights` vectors that all rows share.
    """
    count, hidden, size = axes[rows], axes["hidden"], element(axes)
    read = {"weights": weights * size * hidden} if weights else {}
    return Cost(
        flops={"vector.fp32": count * flops, "sfu": count},
        read_bytes={**read, "activations": inputs * size * count * hidden},
        write_bytes={"activations": outputs * size * count * hidden},
    )


def published_row_cost(
    axes: Axes, rows: str, flops: float, *, inputs: int = 1, outputs: int = 1, weights: int = 1
) -> Published:
    """The same as the public suite counts it: in bf16, 2 bytes per element."""
    count, hidden = axes[rows], axes["hidden"]
    return Published(
        flops={"bf16": count * flops},
        read_bytes=2 * inputs * count * hidden + 2 * weights * hidden,
        write_bytes=2 * outputs * count * hidden,
    )
