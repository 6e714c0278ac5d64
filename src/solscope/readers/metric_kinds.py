"""The metrics of a metrics file: unit, and whether the value only grows.

A counter says something only as a difference over time, a gauge at every moment. Files by other
tools may hold other names: those that end like our counters are taken for counters.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class MetricKind(NamedTuple):
    """What the values of a metric are."""

    unit: str
    counter: bool


def _gauge(unit: str) -> MetricKind:
    return MetricKind(unit, counter=False)


def _counter(unit: str) -> MetricKind:
    return MetricKind(unit, counter=True)


METRICS: dict[str, MetricKind] = {
    "oncpu_ns": _counter("ns"),
    "runq_ns": _counter("ns"),
    "process_cpu_ns": _counter("ns"),
    "process_cpu_usage": _gauge("% of a core"),
    "ctx_vol": _counter("switches"),
    "ctx_invol": _counter("switches"),
    "process_threads": _gauge("threads"),
    "affinity_cores": _gauge("cores"),
    "page_faults_minor": _counter("faults"),
    "page_faults_major": _counter("faults"),
    "process_mem_used": _gauge("bytes"),
    "read_bytes": _counter("bytes"),
    "read_calls": _counter("calls"),
    "write_bytes": _counter("bytes"),
    "write_calls": _counter("calls"),
    "cgroup_periods": _counter("periods"),
    "cgroup_throttled_periods": _counter("periods"),
    "cgroup_throttled_ns": _counter("ns"),
    "cgroup_quota_cores": _gauge("cores"),
    "host_cpu_usage": _gauge("% of all cores"),
    "host_cpu_steal": _gauge("% of all cores"),
    "host_cpu_iowait": _gauge("% of all cores"),
    "host_procs_running": _gauge("threads"),
    "cpu_frequency": _gauge("MHz"),
    "psi_cpu_some_ns": _counter("ns"),
    "psi_cpu_full_ns": _counter("ns"),
    "psi_io_some_ns": _counter("ns"),
    "psi_io_full_ns": _counter("ns"),
    "psi_memory_some_ns": _counter("ns"),
    "psi_memory_full_ns": _counter("ns"),
    "host_mem_available": _gauge("bytes"),
    "spin_wall_us": _gauge("us"),
    "spin_cpu_us": _gauge("us"),
    "capture_cpu_ns": _counter("ns"),
    "gpu_usage": _gauge("%"),
    "gpu_mem_util": _gauge("%"),
    "gpu_sm_frequency": _gauge("MHz"),
    "gpu_mem_frequency": _gauge("MHz"),
    "gpu_mem_used": _gauge("bytes"),
    "gpu_power_mw": _gauge("mW"),
    "gpu_energy_mj": _counter("mJ"),
    "gpu_temperature": _gauge("°C"),
    "gpu_throttle_reasons": _gauge("bits"),
    "gpu_processes": _gauge("processes"),
    "gpu_other_processes": _gauge("processes"),
    "gpu_other_mem_used": _gauge("bytes"),
    "gpu_process_usage": _gauge("%"),
    "gpu_other_usage": _gauge("%"),
    "gpu_pcie_transmit": _gauge("KB/s"),
    "gpu_pcie_receive": _gauge("KB/s"),
}
_COUNTS = re.compile(
    r"(_ns|_usec|_bytes|_calls|_total|_events|_periods|_faults|_mj|_collections)$|^(ctx|nr|page_faults)_"
)
"""Names of metrics by other tools that are counts."""


def metric_kind(name: str) -> MetricKind:
    """What the values of metric `name` are; the unit of an unknown one is empty."""
    known = METRICS.get(name)
    if known is not None:
        return known
    return MetricKind("", _COUNTS.search(name) is not None)
