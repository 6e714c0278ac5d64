"""The faults of the lab: `catalog.py` declares them, the other modules inject them."""

from __future__ import annotations

from functools import cache

from solscope.lab.faults.base import Fault
from solscope.lab.faults.catalog import FAULTS
from solscope.registry import Registry


@cache
def faults() -> Registry[Fault]:
    """All faults by name, in the order of recording."""
    registry: Registry[Fault] = Registry("fault")
    for fault in FAULTS:
        registry.register(fault.name, fault)
    return registry
