"""The GPU is shared."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_work
from solscope.diagnose.causes.base import Cause, Support, any_of, in_families

CAUSE = Cause(
    id="gpu_contention",
    family="gpu",
    title="another process uses the GPU",
    summary="The same kernels take longer, of all kinds, or launched work starts late, because "
    "another process takes the SMs, the memory bandwidth or time slices.",
    strength=2.0,
    required=(any_of(on_gpu.all_kernels_slower, on_gpu.interrupted, on_gpu.waits_though_launched),),
    explains=in_families("compute", "launch_wait", "comm", "sync"),
    supporting=(
        Support(2.0, on_gpu.other_processes),
        Support(1.5, on_gpu.foreign_gpu),
    ),
    forbidden=(
        on_gpu.slower_by_itself,
        on_gpu.only_copies_slower,
        on_work.dtype_differs,
        on_work.batch_differs,
        on_work.kernel_set_changed,
    ),
    confirm="list the GPU's processes (`nvidia-smi`); move the other one away and compare again",
    can_hide=True,
)
