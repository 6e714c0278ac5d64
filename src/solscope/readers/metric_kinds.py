"""The metrics of a metrics file, declared once: unit, kind, and what they can mean for a run.

A counter says something only as a difference over time, a gauge at every moment. A *driver* can
make a run slow: a clock, a queue, a quota, another process. A metric that is none only shows that
it is slow: utilization, power, temperature. Files by other tools may hold other names: those that
end like our counters are treated as counters.

A new sensor is one line here, and the class in `capture/` that writes it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class MetricKind(NamedTuple):
    """What the values of a metric are."""

    unit: str
    counter: bool
    driver: bool = False
    """True when it can make a run slow, and not only show that it is."""
    shown: str | None = None
    """Unit in which a diagnosis shows it, where that does not follow from `unit`."""


def _gauge(unit: str, *, driver: bool = False) -> MetricKind:
    return MetricKind(unit, counter=False, driver=driver)


def _counter(unit: str, *, driver: bool = False, shown: str | None = None) -> MetricKind:
    return MetricKind(unit, counter=True, driver=driver, shown=shown)


METRICS: dict[str, MetricKind] = {
    "oncpu_ns": _counter("ns"),
    "runq_ns": _counter("ns", driver=True),
    "process_cpu_ns": _counter("ns", shown="% of a core"),
    "process_cpu_usage": _gauge("% of a core"),
    "ctx_vol": _counter("switches"),
    "ctx_invol": _counter("switches", driver=True),
    "process_threads": _gauge("threads", driver=True),
    "affinity_cores": _gauge("cores", driver=True),
    "page_faults_minor": _counter("faults"),
    "page_faults_major": _counter("faults", driver=True),
    "process_mem_used": _gauge("bytes"),
    "read_bytes": _counter("bytes", driver=True),
    "read_calls": _counter("calls", driver=True),
    "write_bytes": _counter("bytes", driver=True),
    "write_calls": _counter("calls", driver=True),
    "cgroup_periods": _counter("periods"),
    "cgroup_throttled_periods": _counter("periods", driver=True),
    "cgroup_throttled_ns": _counter("ns", driver=True),
    "cgroup_quota_cores": _gauge("cores", driver=True),
    "host_cpu_usage": _gauge("% of all cores", driver=True),
    "host_cpu_steal": _gauge("% of all cores", driver=True),
    "host_cpu_iowait": _gauge("% of all cores", driver=True),
    "host_procs_running": _gauge("threads", driver=True),
    "cpu_frequency": _gauge("MHz", driver=True),
    "psi_cpu_some_ns": _counter("ns", driver=True),
    "psi_cpu_full_ns": _counter("ns", driver=True),
    "psi_io_some_ns": _counter("ns", driver=True),
    "psi_io_full_ns": _counter("ns", driver=True),
    "psi_memory_some_ns": _counter("ns", driver=True),
    "psi_memory_full_ns": _counter("ns", driver=True),
    "host_mem_available": _gauge("bytes"),
    "spin_wall_us": _gauge("us", driver=True),
    "spin_cpu_us": _gauge("us", driver=True),
    "capture_cpu_ns": _counter("ns", shown="% of a core"),
    "gpu_usage": _gauge("%"),
    "gpu_mem_util": _gauge("%"),
    "gpu_sm_frequency": _gauge("MHz", driver=True),
    "gpu_mem_frequency": _gauge("MHz", driver=True),
    "gpu_mem_used": _gauge("bytes"),
    "gpu_power_mw": _gauge("mW"),
    "gpu_energy_mj": _counter("mJ"),
    "gpu_temperature": _gauge("°C"),
    "gpu_throttle_reasons": _gauge("bits", driver=True),
    "gpu_processes": _gauge("processes", driver=True),
    "gpu_other_processes": _gauge("processes", driver=True),
    "gpu_other_mem_used": _gauge("bytes", driver=True),
    "gpu_process_usage": _gauge("%"),
    "gpu_other_usage": _gauge("%", driver=True),
    "gpu_pcie_transmit": _gauge("KB/s", driver=True),
    "gpu_pcie_receive": _gauge("KB/s", driver=True),
}
"""Metrics that `solscope capture` writes."""
PROGRAM_METRICS: dict[str, MetricKind] = {
    "gc_ns": _counter("ns", driver=True),
    "gc_collections": _counter("collections", driver=True),
}
"""Metrics that only a program itself can write."""
OTHER_METRICS: dict[str, MetricKind] = {
    "gpu_link_transmit": _gauge("", driver=True),
    "gpu_link_receive": _gauge("", driver=True),
}
"""Metrics that other tools write, in units of their own, and that a diagnosis reads."""
ABOUT: dict[str, str] = {
    "oncpu_ns": "time that the main thread ran on a core",
    "runq_ns": "time that the main thread was ready to run and waited for a core",
    "process_cpu_ns": "CPU time of the process",
    "process_cpu_usage": "CPU time of the process since the last sample",
    "ctx_vol": "times that the main thread waited for something: a lock, a disk, a sleep",
    "ctx_invol": "times that the main thread was taken off its core",
    "process_threads": "threads of the process",
    "affinity_cores": "cores that the main thread may run on",
    "page_faults_minor": "pages that were in memory, but not mapped yet",
    "page_faults_major": "pages that came from a disk",
    "process_mem_used": "resident memory of the process",
    "read_bytes": "bytes from storage, not from the page cache",
    "read_calls": "`read` and similar calls",
    "write_bytes": "bytes to storage",
    "write_calls": "`write` and similar calls",
    "cgroup_periods": "periods of the control group that had a CPU quota",
    "cgroup_throttled_periods": "periods in which the CPU quota was used up",
    "cgroup_throttled_ns": "time for which the CPU quota stopped the control group",
    "cgroup_quota_cores": "CPU quota of the control group",
    "host_cpu_usage": "use of all cores since the last sample",
    "host_cpu_steal": "time that the hypervisor gave to other guests",
    "host_cpu_iowait": "idle while something waits for a disk",
    "host_procs_running": "threads that run or could run",
    "cpu_frequency": "clock of the cores, mean",
    "psi_cpu_some_ns": "time in which some task waited for a core",
    "psi_cpu_full_ns": "time in which all tasks waited for a core",
    "psi_io_some_ns": "time in which some task waited for I/O",
    "psi_io_full_ns": "time in which all tasks waited for I/O",
    "psi_memory_some_ns": "time in which some task waited for memory",
    "psi_memory_full_ns": "time in which all tasks waited for memory",
    "host_mem_available": "memory that the machine can still give",
    "spin_wall_us": "time of a fixed loop in the sampler",
    "spin_cpu_us": "CPU time of a fixed loop in the sampler",
    "capture_cpu_ns": "CPU time of the sampler itself",
    "gpu_usage": "share of the driver's last window in which a kernel ran",
    "gpu_mem_util": "share of the driver's last window in which memory was read or written",
    "gpu_sm_frequency": "clock of the multiprocessors",
    "gpu_mem_frequency": "clock of the memory",
    "gpu_mem_used": "memory in use, by all processes",
    "gpu_power_mw": "power",
    "gpu_energy_mj": "energy",
    "gpu_temperature": "temperature of the GPU",
    "gpu_throttle_reasons": "why clocks are lowered, as bits of the driver",
    "gpu_processes": "processes with a context on the GPU",
    "gpu_other_processes": "processes on the GPU that are not the watched one or its children",
    "gpu_other_mem_used": "memory of other processes",
    "gpu_process_usage": "share of the multiprocessors used by the watched process",
    "gpu_other_usage": "share of the multiprocessors used by all other processes",
    "gpu_pcie_transmit": "from the GPU to the host",
    "gpu_pcie_receive": "from the host to the GPU",
    "gc_ns": "time in the garbage collector of Python",
    "gc_collections": "runs of the garbage collector of Python",
    "gpu_link_transmit": "from the GPU to other GPUs",
    "gpu_link_receive": "from other GPUs to the GPU",
}
"""What each metric measures, for who does not know its name."""
_COUNTS = re.compile(
    r"(_ns|_usec|_bytes|_calls|_total|_events|_periods|_faults|_mj|_collections)$|^(ctx|nr|page_faults)_"
)
"""Names of metrics by other tools that are counts."""


def metric_kind(name: str) -> MetricKind:
    """What the values of metric `name` are; the unit of an unknown one is empty."""
    kind = METRICS.get(name) or PROGRAM_METRICS.get(name) or OTHER_METRICS.get(name)
    if kind is not None:
        return kind
    return MetricKind("", _COUNTS.search(name) is not None)
