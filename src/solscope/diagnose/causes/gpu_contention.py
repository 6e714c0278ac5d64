"""The GPU is shared."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import any_of, in_families

CAUSE = Cause(
    id="gpu_contention",
    family="gpu",
    title="another process uses the GPU",
    summary="The same kernels take longer, of all kinds, or launched work starts late, because "
    "another process takes the SMs, the memory bandwidth or time slices.",
    strength=2.0,
    required=(any_of(gpu.all_kernels_slower, gpu.interrupted, gpu.waits_though_launched),),
    explains=in_families("compute", "launch_wait", "comm", "sync"),
    supporting=(
        Support(2.0, gpu.other_processes),
        Support(1.5, gpu.foreign_gpu),
    ),
    forbidden=(
        gpu.slower_by_itself,
        gpu.only_copies_slower,
        work.dtype_differs,
        work.batch_differs,
        work.kernel_set_changed,
    ),
    confirm="list the GPU's processes (`nvidia-smi`); move the other one away and compare again",
    can_hide=True,
)
