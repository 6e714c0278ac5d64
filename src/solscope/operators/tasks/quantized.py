"""How the outputs of quantizing operators are judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.task import Compare, Judgement, Output, Tolerance
from solscope.operators.tasks.judge import both, exactly, within

if TYPE_CHECKING:
    import torch

CODES = Tolerance(
    "codes",
    matched=0.995,
    why="x · (1 / scale) and x / scale in fp32 round apart near the middle of two codes",
)
SCALES = Tolerance(
    "close", rtol=1e-6, rms=5e-7, why="max|x| is exact; one or two fp32 roundings of the quotient"
)


def compare_scales(tolerance: Tolerance, floor: float) -> Compare:
    """Scales within the tolerance; those that the reference has at or below `floor` only finite.

    Deployed kernels differ in the floor that keeps the scale of nothing but zeros above 0.
    """

    def compare(
        got: torch.Tensor,
        wanted: torch.Tensor,
        _inputs: Mapping[str, Any],
        _outputs: Mapping[str, Any],
    ) -> Judgement:
        """Scales by the tolerance; those of nothing but zeros need only be finite."""
        import torch

        zero = wanted <= floor
        floors = got[zero]
        finite = (floors.isfinite() & (floors >= 0)).to(torch.int8)
        scaled = within(tolerance, got[~zero], wanted[~zero])
        return both(scaled, exactly(finite, torch.ones_like(finite)))

    return compare


def quantized_outputs(scales: str, floor: float) -> dict[str, Output]:
    """Codes `q`, and the output called `scales`: by the tolerances of a plain quantization."""
    return {
        "q": Output("float8", CODES),
        scales: Output("float32", SCALES, compare_scales(SCALES, floor)),
    }
