"""What a fault of the lab is: its name, its cause, and how to inject it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from solscope.lab.cgroup import CpuGroup
from solscope.lab.fork_server import ForkServer
from solscope.lab.loop import Loop, Mode, Settings

Half = Literal["tune", "test"]
Family = Literal["host", "gpu", "software", "workload", "none"]
SetDose = Callable[[float], None]
BOTH: tuple[Mode, ...] = ("eager", "graph")


@dataclass
class Rig:
    """What an injector may use."""

    loop: Loop
    fork_server: ForkServer
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


@dataclass(frozen=True, eq=False)
class Fault:
    """One fault, declared as data; `injectors.py` has what `inject` is made of."""

    name: str
    dose: str
    """What a dose is; its unit is the fault's own."""
    expected: tuple[str, ...]
    """Causes that a diagnosis may name first and be right."""
    family: Family
    half: Half
    """Whether thresholds may be chosen with it, or only tested."""
    doses: tuple[float, float, float]
    """Where the search for the three strengths begins."""
    highest: float
    inject: Callable[[Rig], AbstractContextManager[SetDose]]
    """The fault, at dose 0 until the function that it gives is called."""
    modes: tuple[Mode, ...] = BOTH
    integer: bool = False
    """Doses are whole numbers."""
    search: bool = True
    """The dose is searched for a wanted slowdown; else `doses` are taken as they are."""
    rebuilds: bool = False
    """A change of dose rebuilds the loop, so that it is not set to 0 between recordings."""
    needs_gpu: bool = False
    base: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the normal run has too, so that there is something to slow down."""
    obstacle: Callable[[Rig], str | None] = lambda _rig: None
    """Why it cannot run on this machine; null when it can."""

    def unavailable(self, rig: Rig) -> str | None:
        """Why it cannot run here; null when it can."""
        if self.needs_gpu and not rig.loop.on_gpu:
            return "needs a GPU"
        return self.obstacle(rig)
