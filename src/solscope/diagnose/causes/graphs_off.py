"""CUDA graphs are off."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families
from solscope.diagnose.findings.findings import Findings
from solscope.text import as_percent


def detail(f: Findings) -> str:
    """How much of it, when not all."""
    replays = f.host.calls("graph_launch", alike=True)
    return f" for {as_percent(1 - replays.ratio)} of what they replayed" if replays.abnormal else ""


CAUSE = Cause(
    id="graphs_off",
    family="software",
    title="CUDA graphs are no longer used",
    summary="Work that a graph replay launched at once is launched kernel by kernel, and the host "
    "cannot keep up.",
    strength=4.0,
    required=(work.graphs_lost,),
    explains=in_families(*host.HOST, "launch_wait"),
    supporting=(Support(0.5, gpu.kernels_same),),
    confirm="look for enforce_eager, --disable-cuda-graph, or batch sizes that no graph was "
    "captured for",
    can_hide=True,
    detail=detail,
)
