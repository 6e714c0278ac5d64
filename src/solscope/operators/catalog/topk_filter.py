"""Logits below the k-th largest of their row set to -inf.

    bytes    logits (fp32) in and out

Compares only. An exact selection looks at a row at least twice; the second look can be served on
the chip. Published: the same.

Solutions: run(logits [R, V], top_k) -> out [R, V]. Values equal to the k-th largest all stay, so
more than k may; a k of 0, or of more than V, removes nothing. k is 50 unless the axis `top_k` says
otherwise.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import normal, places, varied
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


@cost_model("rows vocabulary", optional="top_k")
def cost(axes: Axes) -> Cost:
    """Each logit once in and out."""
    values = axes["rows"] * axes["vocabulary"]
    return Cost(
        read_bytes={"activations": 4 * values},
        write_bytes={"activations": 4 * values},
    )


@in_suite("atrex_029", "rows=seq_len vocabulary=hidden_size")
def published(axes: Axes) -> Published:
    """As published."""
    values = axes["rows"] * axes["vocabulary"]
    return Published(flops={"fp32": 0}, read_bytes=4 * values, write_bytes=4 * values)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Heavy-tailed logits with a few peaks, and penalties of -inf; `ties` rounds them to bf16.

    In one row of four all logits are negative; `varied` has another k.
    """
    import torch

    generator = draw.generator()
    rows, vocabulary = axes["rows"], axes["vocabulary"]
    logits = normal(generator, rows, vocabulary, dtype=torch.float32, std=3.0)
    peaks = torch.randint(vocabulary, (rows, 8), generator=generator, device=generator.device)
    logits.scatter_(
        1, peaks, 15.0 * torch.rand(peaks.shape, generator=generator, device=generator.device) + 5
    )
    banned = torch.randint(
        vocabulary, (rows, max(1, vocabulary // 200)), generator=generator, device=generator.device
    )
    logits.scatter_(1, banned, float("-inf"))
    below = torch.rand(rows, 1, generator=generator, device=generator.device) < 0.25
    if rows > 1:
        below[places(generator, 1, rows)] = True
    logits -= torch.where(below, 60.0, 0.0)
    if draw.variant == "ties":
        logits = logits.bfloat16().float()
    if draw.variant == "extreme":
        logits.mul_(1e30)
    top_k = int(axes.get("top_k", 50))
    if draw.variant == "varied":
        other = 1 + int(varied(generator, 1.0, 200.0))
        top_k = other if other != top_k else top_k + 1
    return {"logits": logits, "top_k": min(top_k, vocabulary)}


def reference(logits: torch.Tensor, top_k: int) -> Outputs:
    """By a full sort. A k that is not in 1 ... V removes nothing, as samplers disable it."""
    import torch

    if not 0 < top_k <= logits.shape[-1]:
        return {"out": logits.clone()}

    def rowwise(rows: torch.Tensor) -> Outputs:
        threshold = rows.sort(-1, descending=True).values[:, top_k - 1 : top_k]
        return {"out": torch.where(rows >= threshold, rows, float("-inf"))}

    return by_rows(rowwise, logits)


_TOLERANCE = Tolerance("exact", why="values are kept or removed, not computed")
OUTPUTS = {"out": Output("float32", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="logits", vary=("rows",))

TITLE = "Logits outside the top k removed"
OPERATOR = Operator("topk_filter", TITLE, "sampling", cost, published, TASK)
