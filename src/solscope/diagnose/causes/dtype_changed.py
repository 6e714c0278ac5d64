"""Another data type."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import host, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="dtype_changed",
    family="software",
    title="matrix products run in a different data type",
    summary="Products moved to a wider type (float32 or TF32 for bfloat16, bfloat16 for FP8): "
    "slower kernels, more bytes, often casts around them.",
    strength=4.0,
    required=(work.dtype_differs,),
    explains=in_families("compute", "memcpy", "launch_wait", *host.HOST),
    supporting=(Support(0.5, work.kernel_set_changed),),
    confirm="print the dtype of the weights after loading; look at autocast and quantization "
    "settings",
    can_hide=True,
)
