"""Matrix products of a batch: out[i] = a[i] b[i] (+ c[i]), a[i] of m x k, b[i] of k x n.

    tensor   2 B m n k                     2 FLOP per multiply-add
    bytes    a, b, c and out once

`a_batch` and `b_batch` count the distinct matrices (default: all B); one matrix that the whole
batch shares is read once. `bias` counts the elements added (default 0).
"""

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.calls.matrices import matrix_dtype
from solscope.operators.cost import Axes, Cost, element, matrix_pipe
from solscope.operators.tensors import Tensor, UnclearError


@cost_model("batch m n k", optional="dtype a_batch b_batch bias")
def cost(axes: Axes) -> Cost:
    """Each matrix of the batch once."""
    batch, m, n, k, size = axes["batch"], axes["m"], axes["n"], axes["k"], element(axes)
    read = axes.get("a_batch", batch) * m * k + axes.get("b_batch", batch) * k * n
    return Cost(
        flops={matrix_pipe(axes): 2 * batch * m * n * k},
        read_bytes={"activations": size * (read + axes.get("bias", 0))},
        write_bytes={"activations": size * batch * m * n},
    )


def _distinct(tensor: Tensor) -> int:
    """Matrices of a batch that lie apart in memory."""
    return 1 if tensor.strides and tensor.strides[0] == 0 else tensor.shape[0]


def _bmm(call: Recorded, a_at: int = 0) -> OperatorAxes:
    a, b = call.tensor(a_at), call.tensor(a_at + 1)
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[2] != b.shape[1]:
        raise UnclearError("the shapes are not those of a batch of matrix products")
    axes = {"batch": a.shape[0], "m": a.shape[1], "n": b.shape[2], "k": a.shape[2]}
    axes |= {"a_batch": _distinct(a), "b_batch": _distinct(b)}
    return "batched_gemm", {**axes, "dtype": matrix_dtype(a, call.kernel)}


def _baddbmm(call: Recorded) -> OperatorAxes:
    name, axes = _bmm(call, 1)
    return name, {**axes, "bias": call.tensor(0).stored}


RECORDED: dict[str, CallRule] = {"aten::bmm": _bmm, "aten::baddbmm": _baddbmm}

TITLE = "Matrix products of a batch"
OPERATOR = Operator("batched_gemm", TITLE, "gemm", cost, recorded=RECORDED)
