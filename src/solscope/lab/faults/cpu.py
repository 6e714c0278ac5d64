"""The CPU gives the loop less: other tasks, fewer cores, a quota, pauses from outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Rig, SetDose

SPINNING_PER_CORE = 4
"""Processes that spin on each core of the loop at the highest dose."""
NEVER_SHORT = 3.0
"""Cores that the loop and its threads never use up."""


@contextmanager
def spin_on_its_cores(rig: Rig) -> Iterator[SetDose]:
    """Other processes run on the cores of the loop."""
    count = SPINNING_PER_CORE * len(rig.cores)
    with rig.fork_server.hogs("spin", count, cores=rig.cores) as hogs:
        yield lambda dose: hogs.set(dose / SPINNING_PER_CORE)


@contextmanager
def stop_and_continue(rig: Rig) -> Iterator[SetDose]:
    """From outside, as a throttled or stolen core does."""
    with rig.fork_server.hogs("stop_and_continue", 1, pid=os.getpid()) as hogs:
        yield hogs.set


@contextmanager
def limit_group(rig: Rig) -> Iterator[SetDose]:
    """A quota on the CPU time of the loop's control group."""
    group = rig.group
    assert group is not None
    try:
        yield lambda dose: group.limit(NEVER_SHORT - dose if dose else None)
    finally:
        group.limit(None)


@contextmanager
def pin_to_one_core(rig: Rig) -> Iterator[SetDose]:
    """The main thread and busy threads of its own process share one core."""
    main = os.getpid()

    def pin(dose: float) -> None:
        shared_core = {min(rig.cores)}
        sharing = rig.loop.helper_ids[: round(dose)]
        for thread in (main, *rig.loop.helper_ids):
            pinned = dose and (thread == main or thread in sharing)
            os.sched_setaffinity(thread, shared_core if pinned else rig.cores)

    try:
        yield pin
    finally:
        pin(0.0)
