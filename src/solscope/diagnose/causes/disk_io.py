"""Waiting for a disk."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import any_of, in_families

CAUSE = Cause(
    id="disk_io",
    family="host",
    title="the host waits for disk I/O",
    summary="The process reads or writes more, or its reads and writes take longer (fsync in a log "
    "path, a slow or shared disk), and kernels are launched late meanwhile.",
    strength=3.0,
    required=(host.host_grew, any_of(host.more_io, host.io_pressure)),
    explains=in_families(*host.HOST),
    supporting=(
        Support(0.8, host.in_one_section),
        Support(0.5, host.io_pressure),
        Support(0.3, gpu.kernels_same),
    ),
    forbidden=(host.waits_for_core, host.throttled, host.process_stopped),
    confirm="`strace -f -e trace=fsync,fdatasync,write,read -T -p PID`; move the log to memory and "
    "compare again",
    detail=host.section_detail,
)
