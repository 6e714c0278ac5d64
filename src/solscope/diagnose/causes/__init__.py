"""The causes that a diagnosis can name, one file each.

To add one: write `NAME.py` with a `CAUSE`, add it to `CAUSE_MODULES`, and add its id to the list
in docs/reference/causes.md. The checks it can use are in `diagnose/evidence/`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from solscope.diagnose.causes.base import Cause

CAUSE_MODULES = (
    "workload_batch",
    "workload_context",
    "workload_mix",
    "cpu_contention",
    "cpu_slow",
    "cpu_quota",
    "cpu_affinity",
    "gpu_contention",
    "gpu_clock",
    "pcie",
    "interconnect",
    "host_memory",
    "disk_io",
    "gc",
    "lock_wait",
    "slow_section",
    "extra_sync",
    "pageable_copy",
    "graphs_off",
    "kernel_changed",
    "dtype_changed",
    "allocator",
)
NONE = "none"
UNKNOWN = "unknown"


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in the order of the list."""
    return tuple(import_module(f"solscope.diagnose.causes.{name}").CAUSE for name in CAUSE_MODULES)
