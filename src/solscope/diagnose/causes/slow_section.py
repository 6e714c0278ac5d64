"""One section of the program is slower."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host, on_work
from solscope.diagnose.causes.base import Cause, Support, in_families

CAUSE = Cause(
    id="slow_section",
    family="host",
    title="one section of the host program is slower",
    summary="One annotated section takes longer, out of all proportion to the rest of the host "
    "code: its own code changed, does more work, or waits.",
    strength=2.0,
    required=(on_host.host_grew, on_host.in_one_section),
    explains=in_families(*on_host.HOST),
    supporting=(Support(0.8, on_host.regular), Support(0.3, on_gpu.kernels_same)),
    forbidden=(
        on_host.waits_for_core,
        on_host.throttled,
        on_host.process_stopped,
        on_host.fewer_cores,
        on_host.collections_grew,
        on_work.graphs_lost,
    ),
    confirm="`py-spy record --pid PID --format speedscope`, or annotate inside that section",
    detail=on_host.section_detail,
)
