"""Whether an output is right: got against wanted, by the output's own rule.

Large tensors are judged in parts, so that the copies in fp64 stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from solscope.operators.task import Judgement, Output, Tolerance
from solscope.operators.tasks.tolerances import RMS_OF_UNIT, UNIT
from solscope.text import as_percent

if TYPE_CHECKING:
    import torch

_SLICE = 1 << 24
"""Elements judged at a time."""
_INF = float("inf")
_FAR = 256
"""Steps between codes of 8-bit floats that have nothing to do with each other."""


def judge(
    output: Output,
    got: torch.Tensor,
    wanted: torch.Tensor,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Judgement:
    """Judge one output; `inputs` as they were before the call, `outputs` all of the solution's."""
    if got.shape != wanted.shape:
        shapes = f"{list(got.shape)} instead of {list(wanted.shape)}"
        return Judgement(ok=False, max_error=_INF, reason=f"shape {shapes}")
    if output.compare is not None:
        return output.compare(got, wanted, inputs, outputs)
    return within(output.tolerance, got, wanted)


def within(tolerance: Tolerance, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    """Judge by the tolerance alone."""
    if wanted.numel() == 0:
        return Judgement(ok=True, max_error=0.0)
    if tolerance.kind == "exact":
        return exactly(got, wanted)
    return (_close if tolerance.kind == "close" else _codes)(tolerance, got, wanted)


def both(first: Judgement, second: Judgement) -> Judgement:
    """Two parts of one output: right when both are."""
    errors = [
        judgement.rms_error for judgement in (first, second) if judgement.rms_error is not None
    ]
    return Judgement(
        ok=first.ok and second.ok,
        max_error=max(first.max_error, second.max_error),
        rms_error=max(errors) if errors else None,
        reason="; ".join(judgement.reason for judgement in (first, second) if judgement.reason),
    )


def _slices(
    got: torch.Tensor, wanted: torch.Tensor, step: int = _SLICE
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Start, got and wanted of each slice of the flattened tensors."""
    flat_got, flat_wanted = got.reshape(-1), wanted.reshape(-1)
    for start in range(0, flat_wanted.numel(), step):
        yield start, flat_got[start : start + step], flat_wanted[start : start + step]


def _close(tolerance: Tolerance, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    width = 1 if tolerance.row_rms is None else _width(wanted.shape)
    step = max(1, _SLICE // width) * width
    parts = ((ours, right) for _, ours, right in _slices(got, wanted, step))
    return close_in_parts(tolerance, parts, wanted.shape)


class _Shown(NamedTuple):
    """A value that a reason names."""

    rank: tuple[bool, float] = (False, 0.0)
    """Whether it is outside its limit, and by how many times it, or else the error."""
    place: int = 0
    error: float = 0.0
    got: float = 0.0
    wanted: float = 0.0


@dataclass
class _Sums:
    """What the parts of an output add up to."""

    values: int = 0
    outside: int = 0
    worst: float = 0.0
    """Largest error."""
    shown: _Shown = field(default_factory=_Shown)
    """The value with the largest error, or, where some are outside their limits, the furthest."""
    squared_error: float = 0.0
    squared_wanted: float = 0.0
    fourth_power: float = 0.0
    squared_rounding: float = 0.0
    wrong_rows: int = 0
    first_row: int | None = None
    unit: float = 0.0
    """Largest relative error of rounding to what the solution returned; 0 for 32 bits and more."""

    @property
    def rms(self) -> float:
        """The relative error."""
        if not self.squared_wanted:
            return _zero_or_inf(self.squared_error)
        return float((self.squared_error / self.squared_wanted) ** 0.5)


def close_in_parts(
    tolerance: Tolerance,
    parts: Iterable[tuple[torch.Tensor, torch.Tensor]],
    shape: Sequence[int],
) -> Judgement:
    """As `within`, of an output of this shape whose got and wanted come in parts, in order.

    For what need not be in memory as a whole. Where rows are judged, a part has whole ones.
    """
    sums, width = _Sums(), _width(shape)
    for ours, right in parts:
        _add(sums, tolerance, ours.reshape(-1), right.reshape(-1), width)
    reasons = _reasons(sums, tolerance, shape, width)
    return Judgement(
        ok=not reasons, max_error=sums.worst, rms_error=sums.rms, reason=", ".join(reasons)
    )


def _add(
    sums: _Sums, tolerance: Tolerance, ours: torch.Tensor, right: torch.Tensor, width: int
) -> None:
    import torch

    a, b = ours.double(), right.double()
    finite = torch.isfinite(b)
    same = (a == b) | (a.isnan() & b.isnan())
    error = torch.where(same, 0.0, (a - b).abs()).nan_to_num(nan=_INF, posinf=_INF)
    limit = tolerance.atol + tolerance.rtol * b.abs()
    off = (error > limit) | (~finite & ~same)
    outside = int(off.sum())
    sums.outside += outside
    largest, row = error.max(0)
    sums.worst = max(sums.worst, float(largest))
    if outside:  # of large values a larger error may be right
        largest, row = torch.where(off, error / limit, 0.0).nan_to_num(nan=_INF).max(0)
    rank = bool(outside), float(largest)
    if rank > sums.shown.rank:
        place = sums.values + int(row)
        sums.shown = _Shown(rank, place, float(error[row]), float(a[row]), float(b[row]))
    sums.squared_error += float((error * error).sum())
    squares = torch.where(finite, b * b, 0.0)
    sums.squared_wanted += float(squares.sum())
    sums.fourth_power += float(squares.square().sum())
    sums.squared_rounding += _squared_rounding(b, ours.dtype)
    sums.unit = UNIT.get(str(ours.dtype).removeprefix("torch."), 0.0)
    if tolerance.row_rms is not None:
        wrong = _wrong_rows(tolerance, a.reshape(-1, width), b.reshape(-1, width))
        count = int(wrong.sum())
        if count and sums.first_row is None:
            sums.first_row = sums.values // width + int(wrong.int().argmax())
        sums.wrong_rows += count
    sums.values += right.numel()


def _reasons(sums: _Sums, tolerance: Tolerance, shape: Sequence[int], width: int) -> list[str]:
    total, reasons = sums.values, []
    if sums.outside > (1 - tolerance.matched) * total:
        limit = f"{tolerance.atol:.2g} + {tolerance.rtol:.2g} |wanted|"
        reasons.append(f"{sums.outside} of {total} values are off by more than {limit}")
    if tolerance.rms is not None:
        squares = sums.squared_wanted
        by_chance = tolerance.rms * _leeway(squares, sums.fourth_power)
        rounding = sums.squared_rounding / squares if squares else 0.0
        limit_rms = math.hypot(by_chance, _excess(rounding, sums.unit))
        if not sums.rms <= limit_rms:
            reasons.append(f"relative RMS error {sums.rms:.2g} is over {limit_rms:.2g}")
    if sums.first_row is not None:
        rows = f"{sums.wrong_rows} of {total // width} rows"
        where = _place(sums.first_row * width, shape)
        reasons.append(f"{rows} are off by over {tolerance.row_rms:.2g} RMS, first {where}")
    if reasons:
        shown = sums.shown
        where, instead = _place(shown.place, shape), _instead(shown.got, shown.wanted)
        reasons.append(f"worst {shown.error:.3g} at {where}: {instead}")
    return reasons


def _squared_rounding(wanted: torch.Tensor, dtype: torch.dtype) -> float:
    """Σ of the squared errors of the wanted values, rounded to a 16-bit float; 0 for others."""
    import torch

    if dtype not in (torch.bfloat16, torch.float16):
        return 0.0
    error = (wanted.to(dtype).double() - wanted).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return float(error.square().sum())


def _excess(mean_square: float, unit: float) -> float:
    """By how much rounding these very values is worse than rounding values of all sizes, as RMS.

    Values of few bits times a factor just above a power of two, such as a row that is normalized,
    all round down: the mean square is up to 2.1 times the usual one.
    """
    return float(max(0.0, mean_square - (RMS_OF_UNIT * unit) ** 2) ** 0.5)


def _leeway(squares: float, fourth_powers: float) -> float:
    """How much wider an RMS limit is where few values make the RMS: four of its own deviations.

    (Σ w²)² / Σ w⁴ values count; the squares of relative roundings, uniform within a step and over
    log-uniform significands, spread by √1.08 of their mean.
    """
    if not fourth_powers:
        return 1.0
    count = squares * squares / fourth_powers
    return float((1 + 4 * (1.08 / count) ** 0.5) ** 0.5)


def _width(shape: Sequence[int]) -> int:
    """Values of a row: the last dimension."""
    return shape[-1] if len(shape) else 1


def _wrong_rows(tolerance: Tolerance, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether the relative RMS error of each row is over the limit."""
    assert tolerance.row_rms is not None
    error = (a - b).masked_fill_(a == b, 0.0).square_().mean(-1).sqrt_()
    wrong: torch.Tensor = ~(
        error <= tolerance.row_rms * b.square().mean(-1).sqrt_() + tolerance.atol / 10
    )
    return wrong


def exactly(got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    """Judge that every element is equal; NaN equals NaN."""
    import torch

    differing, worst, first, pair = 0, 0.0, None, (0.0, 0.0)
    for start, ours, right in _slices(got, wanted):
        a, b = ours.double(), right.double()
        wrong = ~((a == b) | (a.isnan() & b.isnan()))
        count = int(wrong.sum())
        if count:
            differing += count
            error = torch.where(wrong, (a - b).abs(), 0.0).nan_to_num(nan=_INF, posinf=_INF)
            worst = max(worst, float(error.max()))
            if first is None:
                place = int(wrong.int().argmax())
                first, pair = start + place, (float(a[place]), float(b[place]))
    reason = ""
    if first is not None:
        where = _place(first, wanted.shape)
        differ = f"{differing} of {wanted.numel()} values differ"
        reason = f"{differ}, the first at {where}: {_instead(*pair)}"
    return Judgement(ok=not differing, max_error=worst, reason=reason)


def _codes(tolerance: Tolerance, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    one_off, further, worst, place, pair = 0, 0, 0.0, None, (0.0, 0.0)
    squared_error = squared_wanted = 0.0
    for start, ours, right in _slices(got, wanted):
        a, b = ours.float(), right.float()
        steps = (_ordered(ours) - _ordered(right)).abs()
        # the code of NaN is next to the largest number's, or zero's: no number is near it
        steps = steps.masked_fill(a.isnan() ^ b.isnan(), _FAR).masked_fill(a.isnan() & b.isnan(), 0)
        one_off += int((steps == 1).sum())
        far = steps > 1
        count = int(far.sum())
        if count and place is None:
            index = int(far.int().argmax())
            place, pair = start + index, (float(a[index]), float(b[index]))
        further += count
        error = (a - b).abs().masked_fill(steps == 0, 0.0).nan_to_num(nan=_INF, posinf=_INF)
        worst = max(worst, float(error.max()))
        squared_error += float(error.double().square().sum())
        squared_wanted += float(b.nan_to_num().double().square().sum())
    rms = (squared_error / squared_wanted) ** 0.5 if squared_wanted else _zero_or_inf(squared_error)
    total, reasons = wanted.numel(), []
    if further:
        where = _place(place or 0, wanted.shape)
        off = f"{further} of {total} codes are off by more than one"
        reasons.append(f"{off}, the first at {where}: {_instead(*pair)}")
    limit = 1 - tolerance.matched
    if tolerance.worst_row is not None:
        limit += (tolerance.matched - tolerance.worst_row) * _width(wanted.shape) / total
    if one_off > limit * total:
        allowed = as_percent(limit, 2)
        reasons.append(f"{one_off} of {total} codes are off by one, more than {allowed}")
    return Judgement(ok=not reasons, max_error=worst, rms_error=rms, reason=", ".join(reasons))


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Codes of 8-bit floats as integers in the order of their values; both zeros are 0."""
    import torch

    if values.element_size() != 1:
        return values.to(torch.int32) * _FAR  # not an 8-bit float: nothing is near
    code = values.view(torch.uint8).to(torch.int16)
    magnitude = code & 0x7F
    return torch.where(code > 0x7F, -magnitude, magnitude)


def _instead(got: float, wanted: float) -> str:
    return f"{got:.6g} instead of {wanted:.6g}"


def _zero_or_inf(squared_error: float) -> float:
    return 0.0 if squared_error == 0 else _INF


def _place(flat: int, shape: Sequence[int]) -> str:
    """Index of a flat position, `[3, 17]`."""
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return str(index[::-1])
