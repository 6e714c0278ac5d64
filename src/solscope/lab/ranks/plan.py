"""The runs of the lab with ranks: what is done to each, and what a right answer is.

The halves differ in the rank at fault, in seeds and in strengths: what was tuned on one is tested
on the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

WORLD = 4
"""Ranks: slices of one GPU."""
STEPS = 16
"""Steps that are recorded."""
WHY = {
    "slow_gpu": "gpu",
    "slow_host": "host",
    "gc": "host",
    "hot_expert": "load",
    "tokens": "load",
    "slow_link": "link",
    "wandering": "host",
}
"""What a right answer calls the reason of each fault."""
NO_RANK = ("slow_link", "wandering", "late_joiner", None)
"""Faults that no single rank is to blame for."""


@dataclass(frozen=True)
class Scenario:
    """One run: what is served, and what is done to it."""

    name: str
    parallelism: str
    """`tp`, `ep` or `pp`."""
    fault: str | None = None
    rank: int | None = None
    """The rank that the fault is at."""
    strength: int = 0
    """1 (mild) or 2 (strong); 0 without a fault."""
    batch: int = 16
    """Requests on each rank."""
    graph: bool = False
    """Decode by replaying a CUDA graph that holds the collectives."""
    seed: int = 0

    def truth(self) -> dict[str, Any]:
        """What was done, and what a right answer is."""
        nobody = self.fault in NO_RANK
        return {
            **asdict(self),
            "culprit": None if nobody else self.rank,
            "why": WHY.get(self.fault or ""),
            "control": self.fault in (None, "late_joiner"),
        }


def scenarios(half: str) -> list[Scenario]:
    """The runs of one half, the most telling first."""
    second = half == "test"
    shift = 1 if second else 0
    seed = 1000 if second else 0
    planned: list[Scenario] = []

    def add(
        name: str, parallelism: str, fault: str | None = None, rank: int = 0, **more: Any
    ) -> None:
        place = None if fault in NO_RANK and fault != "late_joiner" else (rank + shift) % WORLD
        scenario = Scenario(name, parallelism, fault, place, seed=seed + len(planned), **more)
        planned.append(scenario)

    add("tp4-large-normal", "tp", batch=256)
    add("ep4-large-normal", "ep", batch=256)
    add("tp4-graph-normal", "tp", graph=True)
    add("tp4-graph-slow_gpu", "tp", "slow_gpu", 1, strength=2, graph=True)
    add("ep4-slow_host", "ep", "slow_host", 2, strength=2)
    add("pp4-normal", "pp", batch=64)
    add("pp4-slow_gpu", "pp", "slow_gpu", 2, strength=2, batch=64)
    add("tp4-late_joiner", "tp", "late_joiner", 3, strength=1)
    add("tp4-graph-slow_host", "tp", "slow_host", 0, strength=2, graph=True)
    for number in (1, 2):
        add(f"tp4-normal-{number}", "tp")
        add(f"ep4-normal-{number}", "ep")
        for fault, rank in (("slow_gpu", 2), ("slow_host", 1), ("gc", 3)):
            add(f"tp4-{fault}-{number}", "tp", fault, rank + number, strength=number)
        for fault, rank in (("tokens", 0), ("hot_expert", 2)):
            batch = 256 if fault == "hot_expert" else 16
            add(f"ep4-{fault}-{number}", "ep", fault, rank + number, strength=number, batch=batch)
        add(f"tp4-wandering-{number}", "tp", "wandering", strength=number)
        add(f"tp4-slow_link-{number}", "tp", "slow_link", strength=number, batch=256)
    return planned
