"""The suite's figures as its public page computes and prints them.

    T_SOL = max(Σ W / peak, Q / HBM)      all W at the peak of the operator's declared dtype
    S     = T_SOL / T_prod on XPU-A       T_SOL to 0.01 µs, T_prod to 0.1 µs, then one decimal

All roundings are half up, of numbers as a computer holds them: 9.95 is stored as 9.9499... and
becomes 9.9. Kernels were measured on XPU-A only, so S exists for it alone.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from solscope.hardware import Hardware
from solscope.operators.base import Published
from solscope.roofline.bound import published_bound
from solscope.suite.atrex import SuiteOperator

MEASURED_ON = "XPU-A"
"""The platform of the deployed kernels' times."""

Regime = Literal["C", "M", "I"]
_COMPUTE_FROM, _INDEX_BELOW = 10, 0.01


def sol_us(cost: Published, hardware: Hardware) -> float | None:
    """Published speed-of-light time; null when the hardware has no peak for a dtype it needs."""
    result = published_bound(cost, hardware)
    return None if result.missing else result.time_us


def intensity(cost: Published) -> float:
    """FLOP per byte."""
    return sum(cost.flops.values()) / (cost.read_bytes + cost.write_bytes)


def regime(op: SuiteOperator) -> Regime:
    """C (compute) above 10 FLOP per byte in the median shape, I (index) below 0.01, else M."""
    values = [intensity(shape.published) for shape in op.shapes]
    middle = upper_median(values)
    if middle > _COMPUTE_FROM:
        return "C"
    return "I" if middle < _INDEX_BELOW else "M"


def upper_median(values: list[float]) -> float:
    """The middle of the sorted list; of two middles the larger."""
    return sorted(values)[len(values) // 2]


def s_pct(sol: float, prod: float) -> float:
    """S in percent as printed: the quotient of rounded times, itself a float, rounded again."""
    return float(half_up(100 * float(half_up(sol, 2)) / float(half_up(prod, 1)), 1))


def half_up(value: float, digits: int) -> Decimal:
    """`value` rounded to `digits` decimals, halves away from zero, by its exact binary value."""
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
