"""The contract of an operator: what it is, what it costs, how to recognize it.

One file per operator in this folder, one `OPERATOR` in each, one line in `__init__.py`. Nothing
here imports torch. A cost is a true lower bound: each needed byte moved once, each needed operation
done once; the docstring of the operator's file gives the math. `published` is the cost as the
public data behind the suite states it, which in places is not a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from solscope.operators.task import Task

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


@dataclass(frozen=True)
class Operator:
    """One operator of the catalog."""

    name: str
    title: str
    category: str
    """Kernel category it belongs to (see `attribution/classify.py`)."""
    axes: tuple[str, ...]
    """Names of the axes that `cost` reads and cannot do without."""
    cost: Callable[[Axes], Cost] = field(repr=False)
    suite_id: str | None = None
    """Id in the public suite, e.g. `atrex_030`; null for other operators."""
    optional: tuple[str, ...] = ()
    """Axes with a default, which the docstring of the operator's file names."""
    published: Callable[[Axes], Published] | None = field(default=None, repr=False)
    """Cost as published; null for operators not in the suite."""
    expected: Callable[[Axes], Cost] | None = field(default=None, repr=False)
    """Likely cost where the bound must assume the luckiest case (MoE routing); null when equal."""
    task: Task | None = field(default=None, repr=False)
    """The executable half: inputs, reference, tolerances; null where it cannot be run."""
