"""Other kernels do the work."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import host, work
from solscope.diagnose.findings.findings import Findings


def explains(f: Findings) -> float:
    """GPU time, and the host's too where more kernels have to be launched."""
    families = ["compute", "launch_wait"]
    if work.more_launches(f).holds:
        families += host.HOST
    return min(1.0, max(0.0, f.share(*families)))


CAUSE = Cause(
    id="kernel_changed",
    family="software",
    title="different kernels do the work",
    summary="Kernels vanished and others took their place: a fused attention fell back to separate "
    "kernels, a library chose another product kernel, a compiled graph was compiled anew.",
    strength=3.0,
    required=(work.kernel_set_changed,),
    explains=explains,
    supporting=(Support(0.5, work.more_launches),),
    forbidden=(work.batch_differs, work.dtype_differs),
    confirm="`solscope compare NORMAL ABNORMAL --by kernel`; look at versions and at the backend "
    "that the log names",
    can_hide=True,
)
