"""The executable half of an operator: inputs, reference, and how outputs are judged.

An operator of the suite has one `Task` in its file. torch is imported inside functions only, so
that the catalog loads without it.

    task = operator("rms_norm").task
    inputs = task.inputs(axes, Draw(seed=7))
    wanted = task.reference(**inputs)

A solution is called as `run(**inputs)`. It returns the outputs that are not `mutates`, in the order
of `outputs` (a tensor, a tuple) or by name (a dict), and updates the tensors named in `mutates` in
place; the reference leaves its inputs alone and returns every output by name, mutated ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from solscope.operators.cost import Axes

if TYPE_CHECKING:
    import torch

Inputs = dict[str, Any]
"""Tensors and plain values (numbers, names, lists of numbers) by the parameter's name."""
Outputs = dict[str, Any]
"""Tensors by the output's name."""

Variant = Literal["typical", "extreme", "ties", "empty", "varied"]
"""`typical` as in production; `extreme` scales at the edge of the dtype; `ties` equal scores;
`empty` some sequences or experts without a token; `varied` plain values that a model's config or a
request sets (epsilon, scale, k, sections, experts), other than the usual ones. A task treats one it
has no use for as typical.
"""


class Draw(msgspec.Struct, frozen=True):
    """One random draw of inputs: equal draws give equal inputs on one kind of device."""

    seed: int
    device: str = "cpu"
    variant: Variant = "typical"
    fp8: Literal["e4m3fn", "e4m3fnuz"] = "e4m3fn"
    """Encoding of 8-bit floats: NVIDIA and gfx95x use e4m3fn, gfx942 e4m3fnuz."""

    def generator(self) -> torch.Generator:
        """A generator on the device, seeded."""
        import torch

        return torch.Generator(device=self.device).manual_seed(self.seed)


class Tolerance(msgspec.Struct, frozen=True):
    """How far an output may be from the reference.

    `close`: every element within atol + rtol |wanted|, but for a share of 1 - matched, and the
    relative RMS error ‖got - wanted‖ / ‖wanted‖ at most `rms`, that of each row (last dimension)
    at most `row_rms`, give or take atol/10; where few large values make the RMS, its limit is
    widened by the chance of their roundings, and where rounding the wanted values themselves is
    worse than usual, by that. `exact`: every element equal. `codes`: 8-bit floats, compared after
    decoding; a share of 1 - matched may lie one code off, in one row 1 - worst_row.
    """

    kind: Literal["close", "exact", "codes"]
    atol: float = 0.0
    rtol: float = 0.0
    rms: float | None = None
    row_rms: float | None = None
    """For rows of unlike scale, and for a few touched rows in a large pool of states."""
    matched: float = 1.0
    worst_row: float | None = None
    """Like `matched`, for the worst row alone, whose codes share a scale: where few rows are
    compared, one may be the worst. Null: rows do not matter."""
    why: str = ""
    """Where the numbers come from: the error of which deployed kernel, or which rounding."""


class Judgement(msgspec.Struct, frozen=True):
    """What a comparison found."""

    ok: bool
    max_error: float
    """Largest absolute difference, after decoding."""
    rms_error: float | None = None
    """Relative RMS error; null for integers."""
    reason: str = ""
    """Why it failed; empty when it did not."""


Compare = Callable[
    ["torch.Tensor", "torch.Tensor", Mapping[str, Any], Mapping[str, Any]], Judgement
]
"""compare(got, wanted, inputs, all outputs of the solution): for outputs with several right
answers (ties, order inside a group). At sampled rows, got and wanted hold those rows alone, the
inputs are whole and have one entry more, `rows`."""


class Output(msgspec.Struct, frozen=True):
    """One output: its dtype and how it is judged. Its shape is the reference's."""

    dtype: str
    """torch's name of it, e.g. `bfloat16`, `int32`, `float8`: the latter as the draw encodes it; or
    the name of an input: the dtype of that tensor, or the one that a string such as `out_dtype`
    names."""
    tolerance: Tolerance
    compare: Compare | None = None
    """Used in place of `tolerance` where it is set; the tie rule, in the operator's docstring."""

    def torch_dtype(self, inputs: Mapping[str, Any]) -> torch.dtype:
        """What a solution must return for these inputs."""
        import torch

        source = inputs.get(self.dtype, self.dtype)
        if isinstance(source, torch.Tensor):
            return source.dtype
        name = f"float8_{inputs['fp8']}" if source == "float8" else source
        dtype = getattr(torch, name)
        assert isinstance(dtype, torch.dtype)
        return dtype


class Task(msgspec.Struct, frozen=True):
    """How to make inputs for an operator, what the right outputs are, and how near is right."""

    inputs: Callable[[Axes, Draw], Inputs]
    reference: Callable[..., Outputs]
    """reference(**inputs) in fp32 or fp64, on the device of its inputs; outputs in their dtype
    unless that would hide an error smaller than a rounding step (then fp32)."""
    outputs: Mapping[str, Output]
    sampled: Callable[[Inputs, torch.Tensor], Outputs] | None = None
    """sampled(inputs, rows): the outputs at these rows of dimension 0 without computing the rest,
    for shapes whose full reference takes too long and for checks of every timed call; null where
    only the full reference exists."""
    unsampled: tuple[str, ...] = ()
    """Outputs that cannot be had by rows and that `sampled` leaves out. With any, a shape passes by
    the full reference only."""
    rows: Callable[[Inputs], int] | None = None
    """rows(inputs): how many rows `sampled` may be asked for; null where that is dimension 0 of the
    first tensor of the inputs."""
    realized: Callable[[Axes, Inputs], Axes] | None = None
    """realized(axes, inputs): the axes with what this draw decided (distinct experts, padded slots,
    valid tokens), so that the bound is that of the inputs at hand; null where axes say it all."""
    mutates: tuple[str, ...] = ()
    """Inputs that a solution updates in place; each is also an output of that name."""
    running: tuple[str, ...] = ()
    """Inputs that are running sums along their rows, so that no row may replace another."""
    whole: Callable[[Inputs], Mapping[str, torch.Tensor]] | None = None
    """whole(inputs): by name, the rows of dimension 0 that hold data throughout, of inputs where
    others hold what nobody may read: those alone may stand in for one another."""
    unplanned: tuple[str, ...] = ()
    """Integer inputs that every layer computes anew, routes of tokens: `setup` of a solution, whose
    time does not count, sees their shape alone, as of floats. Others are the same for a step."""
    weights: tuple[str, ...] = ()
    """Inputs that belong to the model: a server has them before the first request, so `prepare` of
    a solution may pack them, at no cost."""
    vary: tuple[str, ...] = ()
    """Axes that a solution must take at any size: checked at other sizes than the listed ones."""
