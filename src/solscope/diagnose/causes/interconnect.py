"""Slower communication between GPUs."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="interconnect",
    family="link",
    title="communication between GPUs is slower",
    summary="The same collectives take longer per call, while other kernels take as long as "
    "before: a slow link, a shared network, or a rank that comes late.",
    strength=2.5,
    required=(gpu.communication_slower,),
    explains=in_families("comm"),
    supporting=(Support(0.5, gpu.kernels_same),),
    forbidden=(gpu.all_kernels_slower,),
    confirm="compare the ranks of the run (`solscope show FOLDER`): a rank that waits less than "
    "the others is the late one; run nccl-tests on the same GPUs",
    can_hide=True,
)
