"""The runs of the lab with ranks: what is done to each, and what a right answer is.

The halves differ in the rank at fault, in seeds and in strengths: what was tuned on one is tested
on the other. `fresh` came later, when the test half was no longer blind: other sizes, stronger
faults, and a GPU that ranks share without slices.
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
    """1 (mild) or 2 (strong), 3 in `fresh`; 0 without a fault."""
    batch: int = 16
    """Requests on each rank."""
    context: int = 512
    """Tokens that each request has before."""
    graph: bool = False
    """Decode by replaying a CUDA graph that holds the collectives."""
    seed: int = 0
    how: str | None = None
    """What makes a shared GPU slower for one rank: `held`, a kernel that was there before keeps
    some of its multiprocessors busy; `share`, it gets fewer of them from the start."""
    held: int = 0
    """Multiprocessors that are held: as many as a probe of the machine allows."""

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
    if half == "fresh":
        return _fresh()
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


def _fresh() -> list[Scenario]:
    """Runs on a GPU that ranks share through MPS; controls come before what they are compared with.

    Attention reads far more than in the other halves, and routed rows are more, so that a slower
    GPU or a hot expert is felt in the step.
    """
    tp: dict[str, Any] = {"parallelism": "tp", "batch": 64, "context": 8192}
    graph: dict[str, Any] = {**tp, "graph": True}
    ep: dict[str, Any] = {"parallelism": "ep", "batch": 16, "context": 4096}
    many: dict[str, Any] = {"parallelism": "ep", "batch": 1024, "context": 128}
    large: dict[str, Any] = {"parallelism": "tp", "batch": 256, "context": 512}
    held, share = {"how": "held"}, {"how": "share"}
    rows: list[tuple[str, dict[str, Any], str | None, int | None, int, dict[str, Any]]] = [
        ("tp4-normal-1", tp, None, None, 0, {}),
        ("tp4-slow_gpu-held-2", tp, "slow_gpu", 3, 2, held),
        ("tp4-slow_host-3", tp, "slow_host", 0, 3, {}),
        ("tp4-gc-3", tp, "gc", 2, 3, {}),
        ("ep4-normal-1", ep, None, None, 0, {}),
        ("ep4-tokens-3", ep, "tokens", 1, 3, {}),
        ("ep4-slow_host-3", ep, "slow_host", 3, 3, {}),
        ("tp4-graph-normal-1", graph, None, None, 0, {}),
        ("tp4-graph-slow_gpu-held-2", graph, "slow_gpu", 1, 2, held),
        ("tp4-graph-slow_host-3", graph, "slow_host", 2, 3, {}),
        ("ep4-many-normal-1", many, None, None, 0, {}),
        ("ep4-many-hot_expert-2", many, "hot_expert", 0, 2, {}),
        ("tp4-slow_gpu-share-2", tp, "slow_gpu", 1, 2, share),
        ("tp4-normal-2", tp, None, None, 0, {}),
        ("tp4-wandering-2", tp, "wandering", None, 2, {}),
        ("tp4-gc-2", tp, "gc", 3, 2, {}),
        ("ep4-tokens-2", ep, "tokens", 2, 2, {}),
        ("ep4-many-hot_expert-2b", many, "hot_expert", 3, 2, {}),
        ("tp4-slow_host-2", tp, "slow_host", 1, 2, {}),
        ("tp4-large-normal-1", large, None, None, 0, {}),
        ("tp4-large-slow_link-2", large, "slow_link", None, 2, {}),
        ("tp4-slow_gpu-held-1", tp, "slow_gpu", 0, 1, held),
        ("ep4-normal-2", ep, None, None, 0, {}),
        ("tp4-graph-slow_gpu-held-1", graph, "slow_gpu", 3, 1, held),
        ("ep4-slow_host-2", ep, "slow_host", 0, 2, {}),
        ("tp4-graph-normal-2", graph, None, None, 0, {}),
    ]
    return [
        Scenario(
            name, fault=fault, rank=rank, strength=strength, seed=2000 + number, **kind, **more
        )
        for number, (name, kind, fault, rank, strength, more) in enumerate(rows)
    ]
