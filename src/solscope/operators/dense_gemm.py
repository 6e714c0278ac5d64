"""Matrix product of activations and weights: out[m, n] = a[m, k] b[k, n] (+ bias).

    tensor   2 m n k                       2 FLOP per multiply-add
    bytes    a, b, bias and out once

`dtype` fp32 works on the vector units; tf32 is fp32 data on the matrix units. `out_dtype` is that
of the result (default: `dtype`). `bias` counts the elements added to the product (default 0).
`weight_bits` is the size of an element of b where it is stored narrower than a (default: `dtype`).
"""

from __future__ import annotations

from solscope.operators.base import BYTES, Axes, Cost, Operator, element, tensor_pipe


def matrix_pipe(axes: Axes) -> str:
    """The pipe that multiplies matrices of the operator's dtype: fp32 has none but the vector."""
    return "vector.fp32" if axes.get("dtype") == "fp32" else tensor_pipe(axes)


def cost(axes: Axes) -> Cost:
    """Each matrix once, whatever the tiles of a kernel read again."""
    m, n, k, size = axes["m"], axes["n"], axes["k"], element(axes)
    weight = axes.get("weight_bits", 8 * size) / 8
    out = BYTES[axes.get("out_dtype", axes.get("dtype", "bf16"))]
    return Cost(
        flops={matrix_pipe(axes): 2 * m * n * k},
        read_bytes={
            "activations": size * m * k,
            "weights": weight * k * n + size * axes.get("bias", 0),
        },
        write_bytes={"activations": out * m * n},
    )


OPERATOR = Operator(
    name="dense_gemm",
    title="Matrix product with weights",
    category="gemm",
    axes=("m", "n", "k"),
    optional=("dtype", "out_dtype", "bias", "weight_bits"),
    cost=cost,
)
