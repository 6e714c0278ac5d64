"""Time of solutions that are right: which calls are made, in which order, on which values.

All processes of all solutions of an operator are alive together and take turns; those of one
restart see the same inputs, those of another have others. A process warms up on one draw and is
timed on another at the same addresses. The values of that are written when its `setup` is done and
while it is stopped, as are all others, so no code can look at them before it is timed. What the
timed calls returned is asked for afterwards, at rows that were not known before.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solscope.bench.base import SETS, Timing
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.device_memory import is_short, release
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed
from solscope.bench.pool.slot import WorkerSlot, ask_all, close, leave
from solscope.bench.run import reference
from solscope.bench.run.check import Verdict
from solscope.bench.run.failures import EVALUATOR_ERRORS
from solscope.bench.run.reference import Effort, Wanted, by_rows
from solscope.bench.run.statistics import timing
from solscope.bench.run.together import together
from solscope.bench.worker.messages import (
    BindInputs,
    CallSets,
    DropOutputs,
    FreeShape,
    Request,
    RestoreInputs,
    SaveInputs,
    SetupTimes,
    StartProfiler,
    TrimMemory,
)
from solscope.operators.base import Operator
from solscope.operators.task import Task

CHOICES = "*.best_config"
"""Files in which torch.compile remembers which version of a kernel was the fastest."""
MAX_REFERENCES_S = 0.25
"""Beyond this much time for references, the remaining sets are timed without being checked."""


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
    prepare_us: list[float] = field(default_factory=list)
    sets_checked: int | None = None
    """The fewest sets that a process was compared on with a reference."""
    host_us: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """What timing took, all processes and checks included."""
    windows: list[tuple[float, float]] = field(default_factory=list)
    """When the device was being timed, by `time.monotonic`."""

    @property
    def lacks_memory(self) -> bool:
        """Whether it ran out of memory before it was timed: it must not choose between times."""
        return self.verdict.lacks_memory and not self.windows

    def note_checked(self, sets: int) -> None:
        """Note how many sets one process was compared on."""
        self.sets_checked = min(sets, SETS if self.sets_checked is None else self.sets_checked)

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
    references: list[Wanted | None]
    """By set; null where no affordable reference exists. Replaced when rows are changed."""
    reference_s: float
    """What the references took."""
    measured: Measured
    """Where the samples go, of this process and of the candidate's others."""
    plan: Plan
    seconds: float
    """The share of this process in the time for the shape."""
    uncaptured: dict[str, str]
    """Candidates that no graph can be made of, by key, and why. All trials of an operator share it:
    a capture that fails costs a process, so it is tried once."""
    updated: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By set, copies of its updated inputs, taken when the clock stopped, where there are any."""
    checked: set[int] = field(default_factory=set)
    """Sets of which timed calls were compared with a reference."""

    @property
    def task(self) -> Task:
        """What the candidate is to compute."""
        return self.slot.candidate.task

    @property
    def reference(self) -> Wanted | None:
        """The reference of one of the sets, for what they have in common; null where none is."""
        return next((wanted for wanted in self.references if wanted is not None), None)


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
        self._last_realized: dict[str, Any] = {}
        self._is_ready = False
        self.uncaptured: dict[str, str] = {}
        """Candidates that no graph can be made of, by key, and why."""
        self.seeds: list[int] = []
        """Seeds of the last shape, in the order of their use."""

    def rest(self) -> None:
        """Let the workers free their memory. One that exits would disturb the next timing."""
        leave(self._all)

    def free(self) -> None:
        """Let the workers free what belongs to a shape."""
        for slot in self._all:
            slot.clean_up(FreeShape())

    def close(self) -> None:
        """End the workers."""
        close(self._all)
        self._is_ready = False

    @property
    def _all(self) -> list[WorkerSlot]:
        return [slot for group in self.slots for slot in group]

    def start(self, rehearsed: Sequence[dict[str, Any]]) -> None:
        """Bring every process to where it can be timed, all at once, after some have compiled."""
        self._compile(rehearsed)
        self.be_ready()

    def be_ready(self) -> None:
        """Start all processes, unless they were started and not ended since to make room."""
        if self._is_ready:
            return
        self._is_ready = True
        slots = self._all
        if slots:
            together(self._start_profiler, slots, len(slots), slots[0].spawner)

    def _compile(self, rehearsed: Sequence[dict[str, Any]]) -> None:
        """Let torch.compile fill its cache, in processes that end: others use the GPU meanwhile.

        It also chooses between versions of a kernel by timing them. Those that are timed find the
        code in the cache, and choose alone.
        """
        compiled = [slot for slot in self.slots[0] if slot.candidate.solution.about.compile]
        try:
            for axes in rehearsed if compiled else ():
                sets = InputSets(self.arenas["inputs"], self.task)
                sets.draw(axes, 1)
                by_candidate = {slot.candidate.key: Measured() for slot in compiled}
                requests: list[Request[Any]] = [
                    BindInputs(sets.specs),
                    CallSets([0], keep=False),
                    FreeShape(),
                ]
                for request in requests:
                    self._ask_all(compiled, request, by_candidate)
        finally:
            close(compiled)

    def _start_profiler(self, slot: WorkerSlot) -> None:
        try:
            slot.ask(StartProfiler(), slow=True)
        except (WorkerFailed, *EVALUATOR_ERRORS):
            slot.close()  # what is wrong shows, with its reason, at the first shape

    def use(self, arenas: dict[str, Arena]) -> None:
        """Continue in other memory."""
        self.arenas = arenas
        for slot in self._all:
            slot.arenas = arenas

    def warm_up(self, axes: dict[str, Any], keys: set[str]) -> None:
        """Run candidates on sizes that are not timed, which decide what later sizes get."""
        slots = [slot for slot in self._all if slot.candidate.key in keys]
        sets = self._drawn(axes)
        self._warm(slots, sets, {slot.candidate.key: Measured() for slot in slots})
        for slot in slots:
            slot.clean_up(FreeShape())

    def run(
        self, axes: dict[str, Any], hashes: set[str], plan: Plan, effort: Effort, sample: Sample
    ) -> dict[str, Measured]:
        """Time the candidates in `hashes` on one shape.

        Every process warms up on a first draw and is timed on a second, which it has never seen.
        """
        self.seeds = []
        by_candidate = {name: Measured() for name in hashes}
        groups = [[slot for slot in group if slot.candidate.key in hashes] for group in self.slots]
        slots = [slot for group in groups for slot in group]
        sets = self._drawn(axes)
        self._warm(slots, sets, by_candidate)
        for slot in slots:
            slot.pause()
        try:
            for number, group in enumerate(groups):
                self._time_group(group, sets, axes, plan, effort, by_candidate, sample)
                if number == 0:
                    self.realized = self._last_realized
        finally:
            for slot in slots:
                slot.resume()
        self.seeds = sets.seeds
        return by_candidate

    def _time_group(
        self,
        group: Sequence[WorkerSlot],
        sets: InputSets,
        axes: dict[str, Any],
        plan: Plan,
        effort: Effort,
        by_candidate: dict[str, Measured],
        sample: Sample,
    ) -> None:
        """Time one process of every candidate, all of which are paused, on values of their own."""
        sets.draw(axes, SETS)
        self._last_realized = self._realized(axes, sets)
        references, spent = self._right(axes, sets, effort)
        sets.let_go()
        sets.hide()
        self._free_memory(axes)
        for slot in group:
            measured = by_candidate[slot.candidate.key]
            if self._stands(slot, by_candidate):
                slot.spawner.settle()  # a process that ends keeps the device busy
                start = time.monotonic()
                seconds = plan.seconds / len(self.slots)
                trial = Trial(
                    slot, sets, [*references], spent, measured, plan, seconds, self.uncaptured
                )
                slot.resume()
                self._guarded(trial, sample)
                sets.forget_changes()
                sets.hide()
                measured.note_checked(len(trial.checked))
                measured.seconds += time.monotonic() - start
            slot.resume()
            slot.clean_up(FreeShape())
            slot.pause()

    def _drawn(self, axes: dict[str, Any]) -> InputSets:
        """Inputs to warm up on; what making them took is left to the workers."""
        sets = InputSets(self.arenas["inputs"], self.task)
        sets.draw(axes, SETS)
        sets.let_go()
        self._free_memory(axes)
        return sets

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
        draws = [dict(realized(axes, sets.inputs(index))) for index in range(SETS)]
        return sorted(draws, key=lambda axes_of: self.operator.cost(axes_of).bytes)[SETS // 2]

    def _stands(self, slot: WorkerSlot, by_candidate: dict[str, Measured]) -> bool:
        measured = by_candidate.get(slot.candidate.key)
        return measured is not None and measured.verdict.ok

    def _warm(
        self, slots: Sequence[WorkerSlot], sets: InputSets, by_candidate: dict[str, Measured]
    ) -> None:
        """Run every process on the present values, one by one.

        Many choose among their kernels by timing them: nothing must disturb the choice.
        """
        for slot in slots:
            if slot.candidate.solution.about.compile and slot.compiler_cache:
                _forget_choices(slot.compiler_cache)  # of other processes: each makes its own
            requests: list[Request[Any]] = [
                BindInputs(sets.specs),
                SaveInputs(),
                CallSets(list(range(SETS)), keep=False),
                RestoreInputs(),
                TrimMemory(),
            ]
            for request in requests:
                self._ask_all([slot], request, by_candidate)

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
                measured.prepare_us += reply.prepare_us
        for slot in self._all:
            if slot.candidate.key in failed:
                # or the other candidates would lack what its processes hold
                slot.clean_up(FreeShape())

    def _right(
        self, axes: dict[str, Any], sets: InputSets, effort: Effort
    ) -> tuple[list[Wanted | None], float]:
        """References of the sets, and the time of the first: one of them, drawn at random.

        The others where they are quick. On the CPU it is time of this thread: a busy machine must
        not open a gap in the guard.
        """
        rows = by_rows(self.operator.cost(axes), self.task, effort)
        references: list[Wanted | None] = [None] * SETS
        if rows is None:
            return references, float("inf")
        clock = reference_clock(self.arenas["inputs"].device)
        start, first = clock(), None
        for index in secrets.SystemRandom().sample(range(SETS), SETS):
            if first is not None and clock() - start > MAX_REFERENCES_S:
                break
            whole = not rows and (first is None or self.task.sampled is None)
            drawn = None if whole else reference.draw_rows
            references[index] = reference.wanted(self.task, sets.source(index), drawn)
            first = clock() - start if first is None else first
        return references, first or 0.0

    def _guarded(self, trial: Trial, sample: Sample) -> None:
        """Time one process; what it did to its inputs is judged."""
        slot, sets, measured = trial.slot, trial.sets, trial.measured
        start = time.monotonic()
        try:
            setup = bind(slot, sets, lambda: restore_all(sets), drawn=False)
            measured.setup_us += setup.setup_us
            measured.prepare_us += setup.prepare_us
            sample(trial)
            slot.clean_up(DropOutputs())
            if trial.task.mutates and measured.verdict.ok and slot.alive:
                _require_put_back(trial)  # a capture that fails ends the worker
        except WorkerFailed as failed:
            measured.verdict.fail(failed.status, failed.reason)
        trial.slot.arenas["outputs"].wipe()
        measured.windows.append((start, time.monotonic()))
        for index in range(SETS):
            changed = sets.changed(index)
            if changed:
                measured.verdict.fail("mutated_input", f"changed its input {', '.join(changed)}")


def _forget_choices(cache: Path) -> None:
    for file in cache.rglob(CHOICES):
        with contextlib.suppress(OSError):  # a folder of that name, by whoever
            file.unlink()


def _require_put_back(trial: Trial) -> None:
    """What is put back before a call is what was drawn, not what the call is to make of it."""
    trial.slot.ask(RestoreInputs())
    for index in range(SETS):
        if names := trial.sets.not_put_back(index):
            why = f"replaced what is put back before its calls: {', '.join(names)}"
            trial.measured.verdict.fail("cheating", why)


def reference_clock(device: str) -> Callable[[], float]:
    """What references are timed by."""
    return time.thread_time if device == "cpu" else time.monotonic


def restore_all(sets: InputSets) -> None:
    """Write all sets as they were drawn."""
    for index in range(SETS):
        sets.restore(index)
    sets.let_go()


def bind(
    slot: WorkerSlot, sets: InputSets, write: Callable[[], None], *, drawn: bool = True
) -> SetupTimes:
    """Let a worker bind its inputs, `setup` and `prepare` included, before their values are there.

    `write` writes the values, the same each time. Unless they are `drawn`, what the solution may
    see is already in place. The worker is stopped while all values are.
    """
    with slot.paused():
        if drawn or slot.shown:
            write()
        sets.hide(slot.shown)
    setup = slot.ask(BindInputs(sets.specs), slow=True)
    with slot.paused():
        write()
    if slot.candidate.task.mutates:
        slot.ask(SaveInputs())
    return setup
