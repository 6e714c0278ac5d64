"""Time of solutions that are right: which calls are made, in which order, on which values.

All processes of all solutions of an operator are alive together and take turns on the same inputs.
A process warms up on one draw and is timed on another at the same addresses. What the timed calls
returned is asked for afterwards, at rows that were not known before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from solscope.bench.base import SETS, Timing
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.device_memory import is_short, release
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed
from solscope.bench.pool.slot import WorkerSlot, ask_all, close, leave
from solscope.bench.run import reference
from solscope.bench.run.check import Verdict
from solscope.bench.run.reference import Effort, Wanted, by_rows
from solscope.bench.run.statistics import median, quantile, timing
from solscope.bench.worker.messages import (
    BindInputs,
    CallSets,
    DropOutputs,
    FreeShape,
    Request,
    RestoreInputs,
    SetupTimes,
    StartProfiler,
    TrimMemory,
)
from solscope.operators.base import Operator
from solscope.operators.task import Task

MIN_CACHED_SPEEDUP = 2.0
"""A call on values seen before that is more than this many times faster was not computed.

Example: 200 us on new values, then 90 us on the same ones, in all trials, is a cache."""
SET_BYTES_TO_WARM_TOGETHER = 1 << 30
"""Compiled processes warm up at the same time where one set of inputs is smaller than this."""
MAX_REFERENCES_S = 0.25
"""Beyond this much time for references, the remaining sets are timed without being checked."""
CACHED_TRIALS = 3
"""Trials that must all look cached before a solution is called a cheat; each on new values."""


@dataclass
class Measured:
    """Times of one candidate on one shape."""

    verdict: Verdict = field(default_factory=Verdict)
    samples: dict[str, list[list[float]]] = field(default_factory=dict)
    """By method, one list per process."""
    clock: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    activities: float | None = None
    setup_us: list[float] = field(default_factory=list)
    host_us: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """What timing took, all processes and checks included."""
    windows: list[tuple[float, float]] = field(default_factory=list)
    """When the device was being timed, by `time.monotonic`."""

    def add(self, method: str, samples: list[float], clock: str) -> None:
        """Note the samples of one process."""
        self.samples.setdefault(method, []).append(samples)
        self.clock[method] = clock

    def timings(self) -> dict[str, Timing]:
        """Every method as one timing."""
        timed = {
            method: timing(parts, self.clock[method], self.activities)
            for method, parts in self.samples.items()
            if any(parts)
        }
        lacking = {m: Timing(reason=why) for m, why in self.reasons.items() if m not in timed}
        return {**timed, **lacking}


@dataclass(frozen=True)
class Plan:
    """How much timing costs at most."""

    methods: tuple[str, ...]
    seconds: float = 0.4
    """For one shape of one solution, over all its processes."""
    samples: int = 30
    """At least so many per process where there is time."""


@dataclass(frozen=True)
class Trial:
    """One process of one candidate that is timed on one draw of a shape."""

    slot: WorkerSlot
    sets: InputSets
    references: Sequence[Wanted | None]
    """By set; null where no affordable reference exists."""
    measured: Measured
    """Where the samples go, of this process and of the candidate's others."""
    plan: Plan
    seconds: float
    """The share of this process in the time for the shape."""
    uncaptured: dict[str, str]
    """Candidates that no graph can be made of, by key, and why. All trials of an operator share it:
    a capture that fails costs a process, so it is tried once."""

    @property
    def task(self) -> Task:
        """What the candidate is to compute."""
        return self.slot.candidate.task


Sample = Callable[[Trial], None]
"""Takes the samples of one trial."""


class OperatorTiming:
    """Times all candidates of one operator."""

    def __init__(
        self, operator: Operator, slots: Sequence[Sequence[WorkerSlot]], arenas: dict[str, Arena]
    ) -> None:
        self.operator = operator
        self.task = operator.required_task
        self.slots = slots
        """By restart, then by candidate."""
        self.arenas = arenas
        self.realized: dict[str, Any] = {}
        """Axes of the last shape as the inputs that were timed realized them."""
        self.uncaptured: dict[str, str] = {}
        """Candidates that no graph can be made of, by key, and why."""
        self.seeds: list[int] = []
        """Seeds of the last shape, in the order of their use."""

    def rest(self) -> None:
        """Let the workers free their memory. One that exits would disturb the next timing."""
        leave([slot for group in self.slots for slot in group])

    def close(self) -> None:
        """End the workers."""
        close([slot for group in self.slots for slot in group])

    def start(self, rehearsed: Sequence[dict[str, Any]]) -> None:
        """Bring every process to where it can be timed, all at once; some compile on shapes."""
        slots = [slot for group in self.slots for slot in group]
        with ThreadPoolExecutor(max_workers=len(slots)) as pool:
            list(pool.map(self._rehearse, slots))
        compiled = [slot for slot in slots if slot.candidate.solution.about.compile]
        for axes in rehearsed if compiled else ():
            sets = InputSets(self.arenas["inputs"], self.task)
            sets.draw(axes, 1)
            by_candidate = {slot.candidate.key: Measured() for slot in compiled}
            requests: list[Request[Any]] = [
                BindInputs(sets.specs, mutates=[]),
                CallSets([0], keep=False),
                FreeShape(),
            ]
            for request in requests:
                self._ask_all(compiled, request, by_candidate)

    def _rehearse(self, slot: WorkerSlot) -> None:
        try:
            slot.ask(StartProfiler(), slow=True)
        except WorkerFailed:
            slot.close()  # what is wrong shows, with its reason, at the first shape

    def use(self, arenas: dict[str, Arena]) -> None:
        """Continue in other memory."""
        self.arenas = arenas
        for slot in (slot for group in self.slots for slot in group):
            slot.arenas = arenas

    def run(
        self, axes: dict[str, Any], hashes: set[str], plan: Plan, effort: Effort, sample: Sample
    ) -> dict[str, Measured]:
        """Time the candidates in `hashes` on one shape.

        Every process warms up on a first draw and is timed on a second, which it has never seen.
        """
        by_candidate = {name: Measured() for name in hashes}
        slots = [slot for group in self.slots for slot in group if slot.candidate.key in hashes]
        sets = InputSets(self.arenas["inputs"], self.task)
        sets.draw(axes, SETS)
        self._free_memory(axes)
        self._warm(slots, sets, by_candidate)
        sets.draw(axes, SETS)
        self.realized = self._realized(axes, sets)
        references = self._right(axes, sets, effort)
        self._free_memory(axes)
        for slot in slots:
            if self._stands(slot, by_candidate):
                slot.spawner.settle()  # a process that ends keeps the device busy
                start = time.monotonic()
                measured = by_candidate[slot.candidate.key]
                seconds = plan.seconds / len(self.slots)
                trial = Trial(slot, sets, references, measured, plan, seconds, self.uncaptured)
                self._guarded(trial, sample)
                measured.seconds += time.monotonic() - start
            slot.clean_up(FreeShape())
        self.seeds = sets.seeds
        return by_candidate

    def _free_memory(self, axes: dict[str, Any]) -> None:
        """Leave to the workers what making inputs took, where memory may be short."""
        device = self.arenas["inputs"].device
        if is_short(device, self.operator.cost(axes).bytes):
            release(device, keep=0)

    def _realized(self, axes: dict[str, Any], sets: InputSets) -> dict[str, Any]:
        """The axes as one of the draws realized them: the middle one, as for times."""
        realized = self.task.realized
        if realized is None:
            return dict(axes)
        draws = [dict(realized(axes, sets.tensors(index))) for index in range(SETS)]
        return sorted(draws, key=lambda axes_of: self.operator.cost(axes_of).bytes)[SETS // 2]

    def _stands(self, slot: WorkerSlot, by_candidate: dict[str, Measured]) -> bool:
        measured = by_candidate.get(slot.candidate.key)
        return measured is not None and measured.verdict.ok

    def _warm(
        self, slots: Sequence[WorkerSlot], sets: InputSets, by_candidate: dict[str, Measured]
    ) -> None:
        """Run every process on the present values.

        Those that torch compiles do so at the same time, which takes the host alone. Others may
        choose among their kernels by timing them: one by one, so that nothing disturbs the choice.
        """
        small = sets.bytes < SET_BYTES_TO_WARM_TOGETHER
        together: list[WorkerSlot] = []
        alone: list[WorkerSlot] = []
        for slot in slots:
            compiled = slot.candidate.solution.about.compile
            (together if small and compiled else alone).append(slot)
        for group in [together, *([slot] for slot in alone)]:
            requests: list[Request[Any]] = [
                BindInputs(sets.specs, list(self.task.mutates)),
                CallSets(list(range(SETS)), keep=False),
                RestoreInputs(),
                TrimMemory(),
            ]
            for request in requests:
                self._ask_all(group, request, by_candidate)

    def _ask_all(
        self, slots: Sequence[WorkerSlot], request: Request[Any], by_candidate: dict[str, Measured]
    ) -> None:
        standing = [slot for slot in slots if self._stands(slot, by_candidate)]
        failed = set()
        for slot, reply in ask_all(standing, request):
            measured = by_candidate[slot.candidate.key]
            if isinstance(reply, WorkerFailed):
                measured.verdict.fail(reply.status, reply.reason)
                failed.add(slot.candidate.key)
            elif isinstance(reply, SetupTimes):
                measured.setup_us += reply.setup_us
        for slot in (slot for group in self.slots for slot in group):
            if slot.candidate.key in failed:
                # or the other candidates would lack what its processes hold
                slot.clean_up(FreeShape())

    def _right(self, axes: dict[str, Any], sets: InputSets, effort: Effort) -> list[Wanted | None]:
        rows = by_rows(self.operator.cost(axes), self.task, effort)
        if rows is None:
            return [None] * SETS
        references: list[Wanted | None] = []
        start = time.monotonic()
        for index in range(SETS):
            if index and time.monotonic() - start > MAX_REFERENCES_S:
                references.append(None)
                continue
            inputs = sets.copies(index)
            whole = not rows and (index == 0 or self.task.sampled is None)
            drawn = None if whole else reference.draw_rows(reference.row_count(self.task, inputs))
            references.append(reference.wanted(self.task, inputs, drawn))
        return references

    def _guarded(self, trial: Trial, sample: Sample) -> None:
        """Time one process; what it did to its inputs is judged and undone."""
        slot, sets, measured = trial.slot, trial.sets, trial.measured
        before = [
            {name: inputs[name].clone() for name in self.task.mutates}
            for inputs in map(sets.tensors, range(SETS))
        ]
        start = time.monotonic()
        try:
            setup = slot.ask(BindInputs(sets.specs, list(self.task.mutates)))
            measured.setup_us += setup.setup_us
            sample(trial)
            slot.clean_up(DropOutputs())
        except WorkerFailed as failed:
            measured.verdict.fail(failed.status, failed.reason)
        measured.windows.append((start, time.monotonic()))
        for index, saved in enumerate(before):
            changed = sets.changed(index)
            if changed:
                measured.verdict.fail("mutated_input", f"changed its input {', '.join(changed)}")
                sets.restore(index)
            for name, tensor in saved.items():
                sets.tensors(index)[name].copy_(tensor)


def looks_cached(first: Sequence[float], later: Sequence[float], least_us: float) -> bool:
    """Whether calls on values seen before were so much faster that they cannot have computed.

    Differences below `least_us` prove nothing: the first call also finds cold caches. Example: the
    first calls take 300 us, later ones 100, and `least_us` is 50: 300 > 2 * 100 and 200 > 50.
    """
    slow, fast = min(first), quantile(later, 0.8)
    return slow > MIN_CACHED_SPEEDUP * fast and slow - median(later) > least_us


def is_cached(
    slot: WorkerSlot,
    sets: InputSets,
    first_and_later: Callable[[], tuple[list[float], list[float]]],
    least_us: float,
) -> bool:
    """Whether new values are slower than values seen before, again and again.

    `first_and_later` times the first calls on values and later calls on the same ones.
    """
    rebind = BindInputs(sets.specs, list(slot.candidate.task.mutates))
    cached = True
    for _ in range(CACHED_TRIALS):
        for index in range(SETS):
            sets.redraw(index)
        slot.ask(rebind)
        cached = cached and looks_cached(*first_and_later(), least_us)
    for index in range(SETS):
        sets.restore(index)
    slot.ask(rebind)
    return cached


CACHED_REASON = "much faster on values it has seen than on new ones: it remembers results"
