"""How the outputs of quantizing operators are judged."""

from __future__ import annotations

import math
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


RARE = 0.008
"""Share of scales that may be further off than usual, where there is such a limit."""


def compare_scales(tolerance: Tolerance, floor: float, usual: float | None = None) -> Compare:
    """Scales within the tolerance; those that the reference has at or below `floor` only finite.

    Deployed kernels differ in the floor that keeps the scale of nothing but zeros above 0. Of the
    others, two and a share of `RARE` may be off by more than `usual`, relatively.
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
        ours, right = got[~zero], wanted[~zero]
        scaled = within(tolerance, ours, right)
        if usual is not None:
            scaled = both(scaled, _mostly(usual, ours, right))
        return both(scaled, exactly(finite, torch.ones_like(finite)))

    return compare


def _mostly(usual: float, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    """Whether all but a few are this near."""
    error = (got.double() - wanted.double()).abs()
    far = int((~(error <= usual * wanted.double().abs())).sum())
    few = 2 + math.ceil(RARE * wanted.numel())
    reason = f"{far} of {wanted.numel()} values are off by more than {usual:g} |wanted|"
    return Judgement(
        ok=far <= few,
        max_error=float(error.max()) if error.numel() else 0.0,
        reason="" if far <= few else f"{reason}, more than {few}",
    )


def compare_codes(tolerance: Tolerance, scales: str) -> Compare:
    """Codes within the tolerance; those of zeros may be any number where the scale is 0.

    What counts is their product. sglang-kernel divides zeros by that scale and clamps what comes
    out to the largest code.
    """

    def compare(
        got: torch.Tensor,
        wanted: torch.Tensor,
        _inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> Judgement:
        """Codes by the tolerance; of zeros with a scale of 0 only that they are numbers."""
        import torch

        scale = outputs.get(scales)
        if isinstance(scale, torch.Tensor) and got.element_size() == 1:
            got = _times_nothing(got, scale.reshape(-1) == 0)
        return within(tolerance, got, wanted)

    return compare


def _times_nothing(codes: torch.Tensor, nothing: torch.Tensor) -> torch.Tensor:
    """The codes, with 0 for every number whose scale is 0.

    `nothing` says of which scales; each belongs to as many neighboring codes.
    """
    import torch

    groups = nothing.numel()
    if not groups or codes.numel() % groups or not bool(nothing.any()):
        return codes
    raw = codes.view(torch.uint8).reshape(groups, -1).clone()
    places = nothing.nonzero().view(-1)
    some = raw[places]
    numbers = some.view(codes.dtype).float().isfinite()
    raw[places] = some.masked_fill(numbers, 0)
    return raw.view(codes.dtype).reshape(codes.shape)


def quantized_outputs(scales: str, floor: float) -> dict[str, Output]:
    """Codes `q`, and the output called `scales`: by the tolerances of a plain quantization."""
    return {
        "q": Output("float8", CODES, compare_codes(CODES, scales)),
        scales: Output("float32", SCALES, compare_scales(SCALES, floor)),
    }
