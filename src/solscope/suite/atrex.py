"""The suite's data file, typed."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec

from solscope.errors import UsageError
from solscope.operators import OPERATOR_MODULES
from solscope.operators.base import Published
from solscope.registry import Registry


class SuiteHardware(msgspec.Struct, frozen=True):
    """Peaks with which the published speed-of-light times were computed."""

    peak_flops: dict[str, float | None]
    """FLOP/s by path: `bf16_tc`, `fp16_tc`, `fp8_e4m3_tc`, `fp32_strict`, ..."""
    hbm_bytes_per_s: float


class SuiteShape(msgspec.Struct, frozen=True):
    """One shape of one operator."""

    id: int
    description: str
    init: dict[str, Any] | None
    """Constants of the operator."""
    input: dict[str, Any]
    """Sizes of its inputs; `{"repeat": [v, n]}` is a list of n times v."""
    W_flops: dict[str, int]
    """Published FLOP by dtype."""
    Q_read: int
    Q_write: int
    sol_ms: dict[str, float]
    """Published speed-of-light time by platform."""
    prod_us: float
    """Time of the deployed kernel on XPU-A."""
    call_count: int | None = None
    total_duration_us: float | None = None
    """All those calls together; null when not recorded."""

    @property
    def published(self) -> Published:
        """The stored cost."""
        return Published(dict(self.W_flops), self.Q_read, self.Q_write)


class SuiteOperator(msgspec.Struct, frozen=True):
    """One operator with its shapes."""

    id: str
    name: str
    dtype: str
    """Decides which peak the published times used."""
    importance_score: float
    """Share of GPU time as published; all together 1.0948."""
    shapes: list[SuiteShape]
    num_profiles: int | None = None
    """Production profiles in which it occurred."""

    @property
    def middle_shape(self) -> SuiteShape:
        """The shape with the middle id, which the public page calls the median shape."""
        ordered = sorted(self.shapes, key=lambda shape: shape.id)
        return ordered[len(ordered) // 2]


class Suite(msgspec.Struct, frozen=True):
    """The whole file."""

    hardware: dict[str, SuiteHardware]
    operators: list[SuiteOperator]
    num_profiles: int
    """Production profiles behind the importance."""

    @property
    def by_importance(self) -> list[SuiteOperator]:
        """Most important first."""
        return sorted(self.operators, key=lambda op: -op.importance_score)

    @property
    def importance_sum(self) -> float:
        """What the published importance adds up to."""
        return sum(op.importance_score for op in self.operators)

    def operator(self, name: str) -> SuiteOperator:
        """The operator called `name`; else an error that lists what exists."""
        registry: Registry[SuiteOperator] = Registry("operator", "in suite atrex")
        for op in self.by_importance:
            registry.register(op.name, op)
        if name not in registry.names():
            check_has_shapes(name, "atrex")
        return registry.get(name)


def check_has_shapes(name: str, suite: str) -> None:
    """`UsageError` for an operator of the catalog that the suite, which lacks it, has no shapes of.

    A name that is no operator at all passes: the suite's own error lists what it could be.
    """
    if name in OPERATOR_MODULES:
        raise UsageError(
            f"suite {suite} has no shapes of {name}; list shapes in a suite file and pass it with "
            "--suite FILE"
        )


@cache
def load_suite() -> Suite:
    """The file that ships with solscope."""
    file = resources.files("solscope.suite") / "shipped" / "atrex.json"
    return msgspec.json.decode(file.read_bytes(), type=Suite)
