"""Row-wise references: in fp64 slice by slice, and at sampled rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.cost import Axes
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task

if TYPE_CHECKING:
    import torch

_SLICE = 1 << 24
"""Elements of the first tensor worked on at a time: 128 MiB per copy in fp64."""


def by_rows(function: Callable[..., Outputs], *tensors: torch.Tensor) -> Outputs:
    """function(slice of each tensor) over slices of dimension 0, the outputs put together.

    An fp64 copy of the largest shapes does not fit, of a slice it does.
    """
    import torch

    rows = tensors[0].shape[0]
    step = max(1, _SLICE // max(1, tensors[0][:1].numel()))
    if rows <= step:
        return function(*tensors)
    whole: Outputs = {}
    for start in range(0, rows, step):
        outputs = function(*(tensor[start : start + step] for tensor in tensors))
        for name, values in outputs.items():
            if name not in whole:
                whole[name] = torch.empty(
                    rows, *values.shape[1:], dtype=values.dtype, device=values.device
                )
            whole[name][start : start + step] = values
    return whole


def pick_rows(tensor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """These rows of dimension 0; of 8-bit floats by their bytes, as torch cannot index them."""
    import torch

    if tensor.element_size() > 1 or not tensor.is_floating_point():
        return tensor[rows]
    return tensor.view(torch.uint8)[rows].view(tensor.dtype)


def sampled_rows(
    reference: Callable[..., Outputs], *names: str
) -> Callable[[Inputs, torch.Tensor], Outputs]:
    """`sampled` of a row-wise operator: the reference of these rows of the tensors `names`."""

    def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
        picked: dict[str, Any] = {name: pick_rows(inputs[name], rows) for name in names}
        return reference(**{**inputs, **picked})

    return sampled


def row_task(
    inputs: Callable[[Axes, Draw], Inputs],
    reference: Callable[..., Outputs],
    outputs: Mapping[str, Output],
    *,
    rows: str,
    vary: tuple[str, ...],
    mutates: tuple[str, ...] = (),
    whole: Callable[[Inputs], Mapping[str, torch.Tensor]] | None = None,
    weights: tuple[str, ...] = (),
    realized: Callable[[Axes, Inputs], Axes] | None = None,
) -> Task:
    """The task of a row-wise operator: `rows` names the inputs with a row for each row of output.

    Everything else is as in `Task`.
    """
    sampled = sampled_rows(reference, *rows.split())
    return Task(
        inputs,
        reference,
        outputs,
        sampled=sampled,
        vary=vary,
        mutates=mutates,
        whole=whole,
        weights=weights,
        realized=realized,
    )
