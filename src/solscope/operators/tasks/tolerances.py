"""Tolerances from roundings: what a kernel that is right to fp32 may be off by after rounding.

One rounding to a type with p bits of significand is off by at most 2^-p of the value, and by
0.42 · 2^-p in the RMS over values of all sizes: uniform within a step, 1/√3, and the RMS of the
inverse of a log-uniform significand, 0.74. Several roundings add up in the maximum and by their
squares in the RMS. The margin on top covers fp32 sums and fast exponentials and roots.
"""

from __future__ import annotations

from solscope.operators.task import Tolerance

UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Largest relative error of one rounding, by dtype."""
RMS_OF_UNIT = 0.42
"""RMS of one rounding over values of all sizes, in units."""
_MARGIN = 1.02
_RMS_MARGIN = 1.15


def rounded(
    dtype: str,
    count: int,
    why: str,
    *,
    atol: float = 0.0,
    matched: float = 1.0,
    row_rms: float | None = None,
) -> Tolerance:
    """Close up to `count` roundings to `dtype`."""
    unit = UNIT[dtype]
    return Tolerance(
        kind="close",
        atol=atol,
        rtol=_MARGIN * count * unit,
        rms=_RMS_MARGIN * RMS_OF_UNIT * unit * count**0.5,
        row_rms=row_rms,
        matched=matched,
        why=why,
    )
