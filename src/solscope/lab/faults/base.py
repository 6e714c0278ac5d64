"""What a fault of the lab is: its name, its cause, and how to inject it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from solscope.lab.cgroup import CpuGroup
from solscope.lab.loop import Loop, Mode, Settings
from solscope.lab.nursery import Nursery

Half = Literal["tune", "test"]
Family = Literal["host", "gpu", "software", "workload", "none"]
SetDose = Callable[[float], None]
BOTH: tuple[Mode, ...] = ("eager", "graph")
IDLE_S = 0.005
"""How often a thread without a dose looks whether it has one."""


@dataclass
class Rig:
    """What an injector may use."""

    loop: Loop
    nursery: Nursery
    cores: set[int]
    """Cores of the loop."""
    other_cores: set[int]
    group: CpuGroup | None
    """The loop's control group, where one could be made."""
    no_group: str
    """Why there is none."""
    folder: Path
    """A folder on a disk."""
    base: Settings
    """The work of the normal run."""

    def change(self, **settings: Any) -> None:
        """Let the loop do something else than in the normal run."""
        self.loop.configure(replace(self.base, **settings))


class Fault(ABC):
    """One fault; a file each."""

    name: ClassVar[str]
    expected: ClassVar[tuple[str, ...]]
    """Causes that a diagnosis may name first and be right."""
    family: ClassVar[Family]
    half: ClassVar[Half]
    """Whether thresholds may be chosen with it, or only tested."""
    modes: ClassVar[tuple[Mode, ...]] = BOTH
    doses: ClassVar[tuple[float, float, float]]
    """Where the search for the three strengths begins; the unit is the fault's own."""
    highest: ClassVar[float]
    integer: ClassVar[bool] = False
    """Doses are whole numbers."""
    search: ClassVar[bool] = True
    """The dose is searched for a wanted slowdown; else `doses` are taken as they are."""
    rebuilds: ClassVar[bool] = False
    """A change of dose rebuilds the loop, so that it is not set to 0 between recordings."""
    needs_gpu: ClassVar[bool] = False
    base: ClassVar[dict[str, Any]] = {}
    """Settings that the normal run has too, so that there is something to slow down."""

    @abstractmethod
    def inject(self, rig: Rig) -> AbstractContextManager[SetDose]:
        """The fault, at dose 0 until the function that it gives is called."""

    def unavailable(self, rig: Rig) -> str | None:
        """Why it cannot run here; null when it can."""
        if self.needs_gpu and not rig.loop.on_gpu:
            return "needs a GPU"
        return None


class SettingsFault(Fault):
    """A fault that is nothing but other settings of the loop."""

    @abstractmethod
    def settings(self, base: Settings, dose: float) -> dict[str, Any]:
        """What differs from the normal run."""

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(**self.settings(rig.base, dose))
        finally:
            rig.change()


class ThreadFault(Fault):
    """A thread of the same process that does something again and again."""

    @abstractmethod
    def work(self, rig: Rig, dose: float) -> None:
        """One round, with the pause after it."""

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        present = 0.0
        done = threading.Event()

        def run() -> None:
            while not done.is_set():
                dose = present  # Read once: it may be set to 0 meanwhile.
                if dose > 0.0:
                    self.work(rig, dose)
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
