"""Ways to inject a fault: other settings, other processes, a thread, a hook in the loop.

Each gives an `inject` for a `Fault`, or is used inside one that a fault's module has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from solscope.lab.faults.base import Rig, SetDose
from solscope.lab.loop import Hook, Point, Settings

Inject = Callable[[Rig], AbstractContextManager[SetDose]]
IDLE_S = 0.005
"""How often a thread without a dose looks whether it has one."""


def by_settings(settings: Callable[[Settings, float], dict[str, Any]]) -> Inject:
    """Settings of the loop that differ from those of the normal run, given those and the dose."""

    @contextmanager
    def inject(rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(**settings(rig.base, dose))
        finally:
            rig.change()

    return inject


def by_gpu_hogs(kind: str, count: int) -> Inject:
    """Other processes on the same GPU; the dose is how many of them, in parts, are at work."""

    @contextmanager
    def inject(rig: Rig) -> Iterator[SetDose]:
        with rig.fork_server.hogs(kind, count, cores=rig.other_cores) as hogs:
            yield lambda dose: hogs.set(dose / count)

    return inject


def by_thread(work: Callable[[Rig, float], None]) -> Inject:
    """A thread of the same process that does rounds of `work`, each with the pause after it."""

    @contextmanager
    def inject(rig: Rig) -> Iterator[SetDose]:
        present = 0.0
        done = threading.Event()

        def run() -> None:
            while not done.is_set():
                dose = present  # Read once: it may be set to 0 meanwhile.
                if dose > 0.0:
                    work(rig, dose)
                else:
                    time.sleep(IDLE_S)

        def set_dose(dose: float) -> None:
            nonlocal present
            present = dose

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield set_dose
        finally:
            done.set()
            thread.join()

    return inject


def by_milliseconds(point: Point, spend: Callable[[float], None]) -> Inject:
    """Spend time in one section of every step; the dose is in milliseconds."""

    @contextmanager
    def inject(rig: Rig) -> Iterator[SetDose]:
        seconds = 0.0

        def set_dose(dose: float) -> None:
            nonlocal seconds
            seconds = dose / 1e3

        with hooked(rig, point, lambda _layer: spend(seconds)):
            yield set_dose

    return inject


@contextmanager
def hooked(rig: Rig, point: Point, hook: Hook) -> Iterator[None]:
    """Call `hook` at a point of every step."""
    rig.loop.hooks[point] = hook
    try:
        yield
    finally:
        del rig.loop.hooks[point]


class TimesPerStep:
    """A dose that counts actions per step: at 0.25, there is one in every fourth step."""

    def __init__(self) -> None:
        self._dose = self._due = 0.0

    def set_dose(self, dose: float) -> None:
        self._dose, self._due = dose, 0.0

    def take(self) -> int:
        """How often to act in this step."""
        self._due += self._dose
        times = int(self._due)
        self._due -= times
        return times
