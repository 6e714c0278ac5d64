"""The experts of an MoE layer: y_t = Σ_j p_tj W2[e] ( silu(W1g[e] x_t) * (W1u[e] x_t) ).

A token takes k different experts e, each with 3 H I weights.

    tensor   6 T k H I                     gate, up and down projection
    vector   T k (5 I + 2 H)               activation and product; weighted sum
    sfu      T k I                         exponential of SiLU
    bytes    x, weights of the active experts once, routing weights (fp32) and ids (int32), out

`active_experts` is the number of experts that at least one token takes. Without it the bound
counts the fewest that routing allows, k; `expected` counts E (1 - (1 - k/E)^T), uniform routing.
`out_bytes` is the size of an output element: 2 (bf16, default) or 4 (fp32, as in the suite);
`weight_bits` that of a weight (default: `dtype`).
Published: FLOP of one random draw in which a token may take an expert twice, and then pays once
(0.91 to 1.00 of the true work). The draw is the axis `drawn_pairs`: distinct token-expert pairs.

In: hidden_states [T, H], w1 [E, 2 I, H] with the gate in rows 0 ... I-1, w2 [E, H, I], topk_weights
[T, k] fp32, topk_ids [T, k] int32, distinct in a row, out_dtype. Out: out [T, H] in out_dtype.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

import math
from typing import Any

from solscope.names import OPAQUE
from solscope.operators.base import Operator, in_suite
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, Published, element, tensor_pipe
from solscope.operators.routing import expert_costs, published_experts
from solscope.operators.suite_axes import SuiteSizes, expert_sizes
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import normal, torch_dtype
from solscope.operators.tasks.experts import draw_routing, mix_experts, routed, token_scales
from solscope.operators.tasks.rows import row_task
from solscope.operators.tensors import Tensor, UnclearError


def _cost(axes: Axes, experts: float) -> Cost:
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    slots, size = tokens * axes["top_k"], element(axes)
    weight = axes["weight_bits"] / 8 if "weight_bits" in axes else size
    return Cost(
        flops={
            tensor_pipe(axes): 6 * slots * hidden * inner,
            "vector.fp32": slots * (5 * inner + 2 * hidden),
            "sfu": slots * inner,
        },
        read_bytes={
            "weights": experts * 3 * weight * hidden * inner,
            "activations": size * tokens * hidden,
            "index": 8 * slots,
        },
        write_bytes={"activations": axes.get("out_bytes", size) * tokens * hidden},
    )


cost, expected = expert_costs(
    _cost, optional="active_experts drawn_pairs out_bytes weight_bits dtype"
)


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """Sizes, the active experts, and the pairs that the published routing drew, from its FLOP."""
    axes = expert_sizes(shape)
    active = published_experts(axes)
    masks = active * axes["tokens"] * (2 * axes["top_k"] - 1)
    inner, hidden = axes["intermediate"], axes["hidden"]
    pairs = (shape.W_flops["bf16"] - masks) // (6 * hidden * inner + 5 * inner + hidden)
    return {**axes, "active_experts": active, "drawn_pairs": pairs, "out_bytes": 4}


@in_suite("atrex_009", suite_axes)
def published(axes: Axes) -> Published:
    """As published, for the draw whose distinct token-expert pairs are `drawn_pairs`."""
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    top_k, experts = axes["top_k"], published_experts(axes)
    per_pair = 6 * hidden * inner + 5 * inner + hidden
    masks = experts * tokens * (2 * top_k - 1)
    return Published(
        flops={"bf16": axes["drawn_pairs"] * per_pair + masks},
        read_bytes=2 * tokens * hidden + experts * 6 * hidden * inner + 8 * tokens * top_k,
        write_bytes=4 * tokens * hidden,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Skewed routing; weights such that gates are neither all shut nor all open.

    `varied` has the other type of result.
    """
    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    experts = axes["experts"]
    weights, ids = draw_routing(generator, axes, draw.variant)
    scale = token_scales(generator, tokens, draw.variant).to(dtype)
    wide = (axes.get("out_bytes", 2) == 4) != (draw.variant == "varied")
    return {
        "hidden_states": normal(generator, tokens, hidden, dtype=dtype).mul_(scale),
        "w1": normal(generator, experts, 2 * inner, hidden, dtype=dtype, std=hidden**-0.5),
        "w2": normal(generator, experts, hidden, inner, dtype=dtype, std=2.5 * inner**-0.5),
        "topk_weights": weights,
        "topk_ids": ids,
        "out_dtype": "float32" if wide else str(dtype).removeprefix("torch."),
    }


def reference(**inputs: Any) -> Outputs:
    """Expert by expert in fp64, nothing rounded on the way."""
    w1, w2 = inputs["w1"], inputs["w2"]
    return mix_experts(
        inputs,
        inputs["hidden_states"],
        lambda expert: w1[expert].double(),
        lambda expert: w2[expert].double(),
    )


_WHY = (
    "products in fp32; gate and up, their activation, each expert's output and "
    "the sum rounded to bf16: so emulated, the relative RMS error is 4.2e-3; 8-bit "
    "operands give 5e-2, and an expert left out at least as much"
)
_TOLERANCE = Tolerance(
    "close", atol=0.06, rtol=2e-2, rms=6e-3, row_rms=1e-2, matched=0.999, why=_WHY
)
OUTPUTS = {"out": Output("out_dtype", _TOLERANCE)}
_PER_ROW = "hidden_states topk_weights topk_ids"
_BY_ROWS = row_task(
    inputs, reference, OUTPUTS, rows=_PER_ROW, vary=("tokens",), weights=("w1", "w2")
)
TASK = routed(_BY_ROWS)


def _fused_experts(call: Recorded) -> OperatorAxes:
    """x, both stacks of weights, routing weights and ids, as vLLM and SGLang pass them."""
    x, first, second, _, ids = (call.tensor(index) for index in range(5))
    experts, doubled, hidden = first.shape
    if second.shape != (experts, hidden, doubled // 2) or x.shape[-1] != hidden:
        raise UnclearError("the weights of the experts are packed")
    axes = {"tokens": math.prod(x.shape[:-1]), "hidden": hidden, "intermediate": doubled // 2}
    axes |= {"experts": experts, "top_k": ids.shape[-1]}
    return "fused_moe", {**axes, "dtype": first.dtype}


def _experts_inside(call: Recorded) -> OperatorAxes:
    """x and scores; weights and routing are those of operators inside (`OPAQUE`)."""
    x, scores = call.tensor(0), call.tensor(1)
    tokens, experts = math.prod(x.shape[:-1]), scores.shape[-1]
    inner = call.tensors(len(call.types))[2:]
    axes: dict[str, Any] = {"tokens": tokens, "hidden": x.shape[-1], "experts": experts}
    stacks = [t for t in inner if len(t.shape) == 3 and t.shape[0] == experts]
    fits = {fit for a in stacks for b in stacks if (fit := _inner_width(x.shape[-1], a, b))}
    if len(fits) != 1:
        raise UnclearError("the weights of the experts are not among the inputs")
    axes["top_k"] = _routed_to(inner, tokens, experts)
    width, bits = fits.pop()
    named = "mxfp4" in call.kernel
    dtype = stacks[0].dtype if bits == 8 * stacks[0].size and stacks[0].floating else x.dtype
    axes |= {"intermediate": width, "dtype": dtype}
    # Blocks of 32 values of MXFP4 share a scale of 8 bits.
    return "fused_moe", {**axes, "weight_bits": bits + 0.25 if named and bits == 4 else bits}


def _routed_to(tensors: list[Tensor], tokens: int, experts: int) -> int:
    """How many experts a token takes: weights and ids of [tokens, k] say so."""
    widths = {
        kind: {
            t.shape[1]
            for t in tensors
            if len(t.shape) == 2 and t.shape[0] == tokens and t.shape[1] < experts
            if t.floating == kind
        }
        for kind in (True, False)
    }
    both = widths[True] & widths[False]
    if len(both) != 1:
        raise UnclearError("how many experts a token takes is not recorded")
    return both.pop()


def _inner_width(hidden: int, first: Tensor, second: Tensor) -> tuple[int, int] | None:
    """I and the bits per weight, if these are the gate and up, and the down projection.

    Either may be stored with its rows or its columns first. Two values of four bits share a byte.
    """
    for packed in (1, 2) if first.type == "unsigned char" else (1,):
        for doubled, read in (first.shape[1:], first.shape[:0:-1]):
            inner = doubled // 2
            if packed * read != hidden or doubled % 2 or first.type != second.type:
                continue
            out, narrow = sorted(second.shape[1:], key=lambda n: n != hidden)
            if out == hidden and packed * narrow == inner:
                return inner, 8 * first.size // packed
    return None


RECORDED: dict[str, CallRule] = {
    **{
        f"{engine}::{way}_fused_experts": _fused_experts
        for engine in ("vllm", "sglang")
        for way in ("inplace", "outplace")
    },
    **dict.fromkeys(OPAQUE, _experts_inside),
}

TITLE = "Experts of an MoE layer"
OPERATOR = Operator(
    "fused_moe", TITLE, "moe", cost, published, TASK, expected=expected, recorded=RECORDED
)
