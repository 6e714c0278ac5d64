"""Depthwise causal convolution over tokens, then SiLU: out[:,t] = silu(b + Σ_j w[:,j] z[:,t+j]).

z is the kept state of w - 1 columns followed by the T tokens.

    vector   T dim (2 w + 4)               taps, and 4 for SiLU
    sfu      T dim                         exponential
    bytes    x and out, taps, bias, state in

Kernels that also write the new state move 2 dim (w - 1) bytes more; the operator here returns none,
so the bound leaves it out. Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Tokens once in and out."""
    tokens, dim, width, size = axes["tokens"], axes["dim"], axes["width"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * dim * (2 * width + 4), "sfu": tokens * dim},
        read_bytes={
            "weights": size * dim * (width + 1),
            "activations": size * tokens * dim,
            "state": size * dim * (width - 1),
        },
        write_bytes={"activations": size * tokens * dim},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, dim, width = axes["tokens"], axes["dim"], axes["width"]
    return Published(
        flops={"bf16": tokens * dim * (2 * width + 4)},
        read_bytes=2 * tokens * dim + 2 * dim * width + 2 * dim + 2 * dim * (width - 1),
        write_bytes=2 * tokens * dim,
    )


OPERATOR = Operator(
    name="causal_conv1d",
    title="Depthwise causal convolution with SiLU",
    category="conv",
    axes=("tokens", "dim", "width"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_003",
    published=published,
)
