"""One section of the program is slower."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="slow_section",
    family="host",
    title="one section of the host program is slower",
    summary="One annotated section takes longer, out of all proportion to the rest of the host "
    "code: its own code changed, does more work, or waits.",
    strength=2.0,
    required=(host.host_grew, host.in_one_section),
    explains=in_families(*host.HOST),
    supporting=(Support(0.8, host.regular), Support(0.3, gpu.kernels_same)),
    forbidden=(
        host.waits_for_core,
        host.throttled,
        host.process_stopped,
        host.fewer_cores,
        host.collections_grew,
        work.graphs_lost,
    ),
    confirm="`py-spy record --pid PID --format speedscope`, or annotate inside that section",
    detail=host.section_detail,
)
