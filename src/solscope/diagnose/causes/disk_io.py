"""Waiting for a disk."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host
from solscope.diagnose.causes.base import Cause, Support, any_of, in_families

CAUSE = Cause(
    id="disk_io",
    family="host",
    title="the host waits for disk I/O",
    summary="The process reads or writes more, or its reads and writes take longer (fsync in a log "
    "path, a slow or shared disk), and kernels are launched late meanwhile.",
    strength=3.0,
    required=(on_host.host_grew, any_of(on_host.more_io, on_host.io_pressure)),
    explains=in_families(*on_host.HOST),
    supporting=(
        Support(0.8, on_host.in_one_section),
        Support(0.5, on_host.io_pressure),
        Support(0.3, on_gpu.kernels_same),
    ),
    forbidden=(on_host.waits_for_core, on_host.throttled, on_host.process_stopped),
    confirm="`strace -f -e trace=fsync,fdatasync,write,read -T -p PID`; move the log to memory and "
    "compare again",
    detail=on_host.section_detail,
)
