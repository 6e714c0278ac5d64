"""The words of the evaluator: status, timing, and the line that one shape of one solution gets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Status = Literal[
    "passed",
    "wrong_shape",
    "wrong_dtype",
    "wrong_numbers",
    "mutated_input",
    "crashed",
    "timeout",
    "oom",
    "faster_than_bound",
    "cheating",
    "unsupported",
]
"""What became of one shape."""

SCALED = "sizes were scaled down: errors that occur only at full size were not seen"
"""Said of results of small shapes."""
FAILURES: tuple[Status, ...] = (
    "wrong_shape",
    "wrong_dtype",
    "wrong_numbers",
    "mutated_input",
    "crashed",
    "timeout",
    "oom",
    "faster_than_bound",
    "cheating",
)
"""What makes a run exit with 1; an unsupported shape is not a failure."""


METHODS = {"cold": "cold-v1", "warm": "warm-v1", "graph": "graph-v2"}
"""How calls are timed on a GPU, by name; the id changes with what a number of it means."""

SETS = 3
"""Draws that the timed calls rotate over."""
EVALUATOR = 5
"""Version of the evaluator: what it draws, checks and tolerates. 2: draws that vary what traffic
varies, values that `setup` cannot reach, rows changed between timed calls. 3: memory for what is
kept is there before calls are timed, limits follow what rounding does to the wanted values. 4:
unused slots of a cache hold keys that a finite mask hides. 5: references and fingerprints of values
that no worker can reach, others stopped while one is judged, outputs copied when clocks stop."""

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
"""A time, a count or a share; sums of larger ones would stop being numbers."""
Count = Annotated[int, msgspec.Meta(ge=0)]


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Times of one method, in microseconds per call."""

    median_us: Amount | None = None
    iqr_us: Amount | None = None
    """From the 25th to the 75th percentile."""
    p20_us: Amount | None = None
    p80_us: Amount | None = None
    samples: list[Amount] = msgspec.field(default_factory=list)
    """Every sample, process by process."""
    samples_per_restart: list[Count] = msgspec.field(default_factory=list)
    """How many of them each process gave."""
    clock: str | None = None
    """What read the time: `kineto`, `events`, or `evaluator`, the clock of the other process."""
    activities: float | None = None
    """Kernels, copies and fills per call."""
    noisy: bool = False
    """The median is not known to 1 % although the time was used up."""
    reason: str | None = None
    """Why there is no time."""

    def as_main(self) -> dict[str, Any]:
        """The fields that a result has of its main method."""
        names = ("median_us", "p20_us", "p80_us", "samples", "samples_per_restart")
        return {name: getattr(self, name) for name in names}


class Sensors(msgspec.Struct, frozen=True, omit_defaults=True):
    """The GPU during the timed calls: median, and the range."""

    sm_clock_mhz: list[float] = msgspec.field(default_factory=list)
    memory_clock_mhz: list[float] = msgspec.field(default_factory=list)
    power_w: list[float] = msgspec.field(default_factory=list)
    temperature_c: list[float] = msgspec.field(default_factory=list)
    """Each as [lowest, median, highest]."""
    throttle: list[str] = msgspec.field(default_factory=list)
    """Reasons for a lower clock that were seen."""
    reason: str | None = None
    """Why there are no readings."""


class ShapeResult(msgspec.Struct, frozen=True):
    """One shape of one operator by one solution: one line of a results file."""

    operator: str
    shape: str
    """Id of the shape in the suite."""
    solution: str
    status: Status
    device: str
    """Name of the GPU, or `cpu`."""
    method: str
    """How `median_us` was taken."""
    reason: str | None = None
    """Why it did not pass."""
    median_us: Amount | None = None
    iqr_us: Amount | None = None
    p20_us: Amount | None = None
    p80_us: Amount | None = None
    samples: list[Amount] = msgspec.field(default_factory=list)
    samples_per_restart: list[Count] = msgspec.field(default_factory=list)
    bound_us: Amount | None = None
    """Least time by the corrected cost, caches cold, vendor's peaks."""
    limiter: str | None = None
    s: float | None = None
    """bound_us / median_us."""
    published_us: Amount | None = None
    """The bound as the public suite states it; null for shapes of other suites."""
    measured_bound_us: Amount | None = None
    """The bound with the peaks that were measured on such a card."""
    bound_reason: str | None = None
    """Why there is no bound."""
    max_error: float | None = None
    """Largest absolute difference from the reference over all outputs and rounds."""
    rms_error: float | None = None
    reference: str | None = None
    """`full`, or `rows` where the reference was computed for sampled rows."""
    rounds: int = 0
    """Draws of inputs that were checked, those of other sizes included."""
    checked_calls: int = 0
    """Timed calls whose outputs were checked."""
    seconds: Amount | None = None
    """What timing took, all processes and checks included."""
    setup_us: Amount | None = None
    """Median time of `setup`, which is not part of the time."""
    prepare_us: Amount | None = None
    """Median time of `prepare`, which packs weights and is not part of the time."""
    host_us: Amount | None = None
    """Median time to queue a call."""
    methods: dict[str, Timing] = msgspec.field(default_factory=dict)
    """Every method that was run."""
    sensors: Sensors | None = None
    axes: dict[str, Any] = msgspec.field(default_factory=dict)
    scale: Amount = 1.0
    """Factor on the sizes; scores use 1 alone."""
    weight: Amount = 1.0
    """Share of the shape in the operator's time in production."""
    calls: Amount | None = None
    """Calls of the shape in production."""
    importance: Amount | None = None
    """Share of the operator in production's GPU time; all operators together are 1."""
    suite: str = ""
    seeds: list[int] = msgspec.field(default_factory=list)
    solution_hash: str = ""
    run: dict[str, Any] = msgspec.field(default_factory=dict)
    """Command, time, versions and machine."""
    evaluator: int = 1
    """Version of the evaluator that checked it (`EVALUATOR`)."""
    declined: list[str] = msgspec.field(default_factory=list)
    """Extra cases without an answer: it raised NotImplementedError, or had no memory or no time."""
    sets_checked: int | None = None
    """Of the draws that timed calls rotate over, those that were compared with a reference; null
    where lines of the first evaluator do not say."""
    digest: str = ""
    """Of everything else in the line; empty in lines that were written without."""
    run_digest: str = ""
    """Of the digests of this run's lines up to this one, so that a missing line shows."""

    @property
    def notes(self) -> list[str]:
        """What a reader of a passed line must know."""
        notes = ["noisy"] if any(timing.noisy for timing in self.methods.values()) else []
        if self.declined:
            notes.append(f"declines {len(self.declined)} extra cases")
        if self.sets_checked is not None and self.median_us and self.sets_checked < SETS:
            notes.append(f"{self.sets_checked} of {SETS} sets checked")
        return notes

    @property
    def key(self) -> tuple[str | float, ...]:
        """What is measured once: a resumed run skips it."""
        what = (self.operator, self.suite, self.shape, self.scale)
        return (*what, self.solution, self.solution_hash, self.device)

    def by(self, method: str) -> tuple[str, Timing] | None:
        """Id and times of a method that was run, given by its id or, for the newest, its name."""
        ids = [full for full in self.methods if is_called(full, method)]
        newest = max(ids, key=lambda full: (len(full), full), default=None)
        return None if newest is None else (newest, self.methods[newest])


def is_called(full: str, method: str) -> bool:
    """Whether a method with this id is meant: by its id, or by its name, without a version."""
    name, _, _ = full.rpartition("-v")
    return method in (full, name or full)
