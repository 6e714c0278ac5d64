"""Matrix products of a batch: out[i] = a[i] b[i] (+ c[i]), a[i] of m x k, b[i] of k x n.

    tensor   2 B m n k                     2 FLOP per multiply-add
    bytes    a, b, c and out once

`a_batch` and `b_batch` count the distinct matrices (default: all B); one matrix that the whole
batch shares is read once. `bias` counts the elements added (default 0).
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, element, matrix_pipe


def cost(axes: Axes) -> Cost:
    """Each matrix of the batch once."""
    batch, m, n, k, size = axes["batch"], axes["m"], axes["n"], axes["k"], element(axes)
    read = axes.get("a_batch", batch) * m * k + axes.get("b_batch", batch) * k * n
    return Cost(
        flops={matrix_pipe(axes): 2 * batch * m * n * k},
        read_bytes={"activations": size * (read + axes.get("bias", 0))},
        write_bytes={"activations": size * batch * m * n},
    )


OPERATOR = Operator(
    name="batched_gemm",
    title="Matrix products of a batch",
    category="gemm",
    axes=("batch", "m", "n", "k"),
    optional=("dtype", "a_batch", "b_batch", "bias"),
    cost=cost,
)
