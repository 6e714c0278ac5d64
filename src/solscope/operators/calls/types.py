"""Types of inputs where only shapes are recorded, as in NVTX ranges: from the kernel's name.

The narrowest type that the name has counts for every input: that is the fewest bytes and the
fastest pipe. Operators with inputs that may be narrower still (masks, flags) are left out.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from solscope.operators.calls.call import Recorded
from solscope.operators.tensors import UnclearError

NARROWEST_FIRST = (
    ("bool", r"\bbool\b"),
    ("unsigned char", r"\bunsigned char\b|\buint8_t\b|_u8_"),
    ("signed char", r"\bsigned char\b|\bint8_t\b|_s8_|i8i8"),
    ("c10::Float8_e4m3fn", r"[Ff]loat8|e4m3|e5m2|__nv_fp8|nvjet_qq"),
    ("c10::BFloat16", r"BFloat16|bfloat16|bf16|nvjet_tst|hip_bfloat"),
    ("c10::Half", r"c10::Half|__half|\bhalf\b|f16f16|fp16|_f16_|hgemm|h16816|nvjet_hsh|_hhh"),
    ("float", r"\bfloat\b|f32f32|sgemm|_f32_|tf32|s1688|nvjet_sss"),
    ("double", r"\bdouble\b|f64f64|dgemm"),
)
"""Types as Kineto names them, and how kernels of torch, cuBLAS, CUTLASS and others write them."""
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in NARROWEST_FIRST)
_CONVERTS = re.compile(r"LoadWithCast")
_OF_ONE_TYPE = re.compile(
    r"aten::(mm|addmm|linear|bmm|baddbmm|_?softmax|_log_softmax|native_layer_norm|_fused_rms_norm"
    r"|_flash_attention_forward|_scaled_dot_product_flash_attention|sum|mean|amax|amin|copy_"
    r"|add|sub|mul|div|neg|abs|relu|pow|square|silu|sigmoid|exp|log|sqrt|rsqrt|sin|cos|tanh|gelu)_?"
)


def with_types(call: Recorded) -> Recorded:
    """The call with a type for each of its shapes; `UnclearError` if none can be inferred."""
    if not _OF_ONE_TYPE.fullmatch(call.name) or _CONVERTS.search(call.kernel):
        raise UnclearError("the types of the inputs are not recorded")
    narrowest = next((name for name, pattern in _PATTERNS if pattern.search(call.kernel)), None)
    if narrowest is None:
        raise UnclearError("the types of the inputs are not recorded, and the kernel names none")
    return replace(call, types=[narrowest if shape else "" for shape in call.dims])
