"""Longer or shorter contexts."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import any_of, in_families

CAUSE = Cause(
    id="workload_context",
    family="workload",
    title="different context lengths",
    summary="Attention reads more (or fewer) keys per request. With recorded shapes that is seen; "
    "without them, as under CUDA graphs, attention alone takes longer with the same kernel and "
    "grid. Not a fault: compare runs at the same point of their requests.",
    strength=3.0,
    required=(any_of(work.context_in_shapes, work.attention_alone),),
    explains=in_families("compute", "launch_wait"),
    supporting=(
        Support(1.0, work.context_in_shapes),
        Support(1.0, work.attention_alone),
    ),
    forbidden=(work.context_same, work.batch_differs, work.dtype_differs, gpu.all_kernels_slower),
    confirm="compare at equal context: the same prompts, the same number of steps since the start",
    can_hide=True,
)
