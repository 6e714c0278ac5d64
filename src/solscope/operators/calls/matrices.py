"""The type in which a recorded product of matrices is computed."""

from __future__ import annotations

import re

from solscope.operators.tensors import Tensor

_NOT_TENSOR_CORES = re.compile(
    r"simt_sgemm|sgemm_|f32f32_f32f32_f32|gemv|gemmk1|gemmSN|splitKreduce"
)


def matrix_dtype(tensor: Tensor, kernel: str) -> str:
    """fp32 may run as tf32, which is faster; only a kernel that says otherwise rules it out."""
    dtype = tensor.dtype
    no_tf32 = re.search("tf32|s1688", kernel) is None and _NOT_TENSOR_CORES.search(kernel)
    return dtype if dtype != "fp32" or no_tf32 else "tf32"
