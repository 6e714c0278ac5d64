"""The faults of the lab, one file each. The split into halves was made once, by fault type.

`tune`: thresholds may be chosen with these. `test`: recorded after the thresholds were committed.
Pairs without a fault are in both halves.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from solscope.lab.faults.base import Fault
from solscope.registry import Registry

FAULT_MODULES = (
    "none",
    "cpu_contention",
    "gpu_contention_compute",
    "slow_sleep",
    "workload_context",
    "disk_io",
    "pcie",
    "extra_sync",
    "lock_gil",
    "kernel_changed",
    "cpu_affinity",
    "graphs_off",
    "cpu_quota",
    "gpu_contention_memory",
    "slow_work",
    "workload_batch",
    "gc",
    "pageable_copy",
    "lock_held",
    "dtype_changed",
    "cpu_slow",
    "allocator",
    "workload_mix",
    "host_memory",
)
"""In the order of recording, so that families alternate and a cut run stays balanced."""


@cache
def faults() -> Registry[Fault]:
    """All faults by name."""
    registry: Registry[Fault] = Registry("fault")
    for name in FAULT_MODULES:
        registry.register(name, import_module(f"solscope.lab.faults.{name}").FAULT)
    return registry
