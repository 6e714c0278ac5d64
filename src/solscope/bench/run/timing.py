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

from solscope.bench.base import Timing
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.device_memory import is_short, release
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed
from solscope.bench.pool.slot import Seat, ask_all, close, leave
from solscope.bench.run import reference
from solscope.bench.run.check import Verdict
from solscope.bench.run.reference import Effort, Wanted, by_rows
from solscope.bench.run.statistics import median, quantile, timing
from solscope.operators.base import Operator
from solscope.operators.task import Task

SETS = 3
"""Draws that the timed calls rotate over."""
RECALL = 2.0
"""A call on values seen before that is this many times faster than the first was not computed."""
SET_BYTES_TO_WARM_TOGETHER = 1 << 30
"""Compiled processes warm up at the same time where one set of inputs is smaller than this."""
REFERENCES_S = 0.25
"""Beyond this much time for references, the remaining sets are timed without being checked."""
TRIALS = 3
"""So often must it be so, on new values each time."""


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
        found = {
            method: timing(parts, self.clock[method], self.activities)
            for method, parts in self.samples.items()
            if any(parts)
        }
        lacking = {m: Timing(reason=why) for m, why in self.reasons.items() if m not in found}
        return {**found, **lacking}


@dataclass(frozen=True)
class Plan:
    """How much timing costs at most."""

    methods: tuple[str, ...]
    seconds: float = 0.4
    """For one shape of one solution, over all its processes."""
    samples: int = 30
    """At least so many per process where there is time."""
    uncaptured: dict[str, str] = field(default_factory=dict)
    """Candidates that no graph can be made of, by key, and why: found out once per operator."""


Sample = Callable[[Seat, InputSets, "Round", Measured, Plan, float], None]
"""Times one process of one candidate: seat, inputs, what is right, result, plan, seconds."""


@dataclass(frozen=True)
class Round:
    """One draw of all sets with its references."""

    right: list[Wanted | None]
    """By set; null where no affordable reference exists."""


class OperatorTiming:
    """Times all candidates of one operator."""

    def __init__(
        self, operator: Operator, seats: Sequence[Sequence[Seat]], arenas: dict[str, Arena]
    ) -> None:
        if operator.task is None:
            raise AssertionError(f"{operator.name} has no task")
        self.operator = operator
        self.task: Task = operator.task
        self.seats = seats
        """By restart, then by candidate."""
        self.arenas = arenas
        self.realized: dict[str, Any] = {}
        """Axes of the last shape as the inputs that were timed realized them."""
        self.seeds: list[int] = []
        """Seeds of the last shape, in the order of their use."""

    def rest(self) -> None:
        """Let the workers free their memory. One that exits would disturb the next timing."""
        leave([seat for group in self.seats for seat in group])

    def close(self) -> None:
        """End the workers."""
        close([seat for group in self.seats for seat in group])

    def start(self, rehearsed: Sequence[dict[str, Any]]) -> None:
        """Bring every process to where it can be timed, all at once; some compile on shapes."""
        seats = [seat for group in self.seats for seat in group]
        with ThreadPoolExecutor(max_workers=len(seats)) as pool:
            list(pool.map(self._rehearse, seats))
        compiled = [seat for seat in seats if seat.candidate.solution.about.compile]
        for axes in rehearsed if compiled else ():
            sets = InputSets(self.arenas["inputs"], self.task)
            sets.draw(axes, 1)
            found = {seat.candidate.key: Measured() for seat in compiled}
            for do, fields in (
                ("bind", {"sets": sets.specs, "mutates": []}),
                ("calls", {"order": [0], "keep": False}),
                ("free", {}),
            ):
                self._ask_all(compiled, do, fields, found)

    def _rehearse(self, seat: Seat) -> None:
        try:
            seat.ask("rehearse", slow=True)
        except WorkerFailed:
            seat.close()  # what is wrong shows, with its reason, at the first shape

    def use(self, arenas: dict[str, Arena]) -> None:
        """Continue in other memory."""
        self.arenas = arenas
        for seat in (seat for group in self.seats for seat in group):
            seat.arenas = arenas

    def run(
        self, axes: dict[str, Any], hashes: set[str], plan: Plan, effort: Effort, sample: Sample
    ) -> dict[str, Measured]:
        """Time the candidates in `hashes` on one shape.

        Every process warms up on a first draw and is timed on a second, which it has never seen.
        """
        found = {name: Measured() for name in hashes}
        seats = [seat for group in self.seats for seat in group if seat.candidate.key in hashes]
        sets = InputSets(self.arenas["inputs"], self.task)
        sets.draw(axes, SETS)
        self._make_room(axes)
        self._warm(seats, sets, found)
        sets.draw(axes, SETS)
        self.realized = self._realized(axes, sets)
        part = Round(self._right(axes, sets, effort))
        self._make_room(axes)
        for seat in seats:
            if self._stands(seat, found):
                seat.spawner.settle()  # a process that ends keeps the device busy
                start = time.monotonic()
                measured = found[seat.candidate.key]
                self._guarded(seat, sets, part, measured, plan, sample)
                measured.seconds += time.monotonic() - start
            seat.tidy("free")
        self.seeds = sets.seeds
        return found

    def _make_room(self, axes: dict[str, Any]) -> None:
        """Leave to the workers what making inputs took, where memory may be short."""
        device = self.arenas["inputs"].device
        if is_short(device, self.operator.cost(axes).bytes):
            release(device, keep=0)

    def _realized(self, axes: dict[str, Any], sets: InputSets) -> dict[str, Any]:
        """The axes as one of the draws realized them: the middle one, as for times."""
        realized = self.task.realized
        if realized is None:
            return dict(axes)
        found = [dict(realized(axes, sets.tensors(index))) for index in range(SETS)]
        return sorted(found, key=lambda one: self.operator.cost(one).bytes)[SETS // 2]

    def _stands(self, seat: Seat, found: dict[str, Measured]) -> bool:
        measured = found.get(seat.candidate.key)
        return measured is not None and measured.verdict.ok

    def _warm(self, seats: Sequence[Seat], sets: InputSets, found: dict[str, Measured]) -> None:
        """Run every process on the present values.

        Those that torch compiles do so at the same time, which takes the host alone. Others may
        choose among their kernels by timing them: one by one, so that nothing disturbs the choice.
        """
        small = sets.bytes < SET_BYTES_TO_WARM_TOGETHER
        together: list[Seat] = []
        alone: list[Seat] = []
        for seat in seats:
            compiled = seat.candidate.solution.about.compile
            (together if small and compiled else alone).append(seat)
        for group in [together, *([seat] for seat in alone)]:
            for do, fields in (
                ("bind", {"sets": sets.specs, "mutates": list(self.task.mutates)}),
                ("calls", {"order": list(range(SETS)), "keep": False}),
                ("restore", {}),
                ("trim", {}),
            ):
                self._ask_all(group, do, fields, found)

    def _ask_all(
        self, seats: Sequence[Seat], do: str, fields: dict[str, Any], found: dict[str, Measured]
    ) -> None:
        standing = [seat for seat in seats if self._stands(seat, found)]
        failed = set()
        for seat, reply in ask_all(standing, do, fields):
            measured = found[seat.candidate.key]
            if isinstance(reply, WorkerFailed):
                measured.verdict.fail(reply.status, reply.reason)
                failed.add(seat.candidate.key)
            else:
                measured.setup_us += reply.get("setup_us", [])
        for seat in (seat for group in self.seats for seat in group):
            if seat.candidate.key in failed:
                seat.tidy("free")  # what its processes hold would be missing for the others

    def _right(self, axes: dict[str, Any], sets: InputSets, effort: Effort) -> list[Wanted | None]:
        rows = by_rows(self.operator.cost(axes), self.task, effort)
        if rows is None:
            return [None] * SETS
        found: list[Wanted | None] = []
        start = time.monotonic()
        for index in range(SETS):
            if index and time.monotonic() - start > REFERENCES_S:
                found.append(None)
                continue
            inputs = sets.copies(index)
            whole = not rows and (index == 0 or self.task.sampled is None)
            drawn = None if whole else reference.draw_rows(reference.row_count(self.task, inputs))
            found.append(reference.wanted(self.task, inputs, drawn))
        return found

    def _guarded(
        self,
        seat: Seat,
        sets: InputSets,
        part: Round,
        measured: Measured,
        plan: Plan,
        sample: Sample,
    ) -> None:
        """Time one process; what it did to its inputs is judged and undone."""
        seconds = plan.seconds / len(self.seats)
        before = [
            {name: one[name].clone() for name in self.task.mutates}
            for one in map(sets.tensors, range(SETS))
        ]
        start = time.monotonic()
        try:
            bound = seat.ask("bind", sets=sets.specs, mutates=list(self.task.mutates))
            measured.setup_us += bound["setup_us"]
            sample(seat, sets, part, measured, plan, seconds)
            seat.tidy("drop")
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


def recalled(first: Sequence[float], later: Sequence[float], least_us: float) -> bool:
    """Whether calls on values seen before were so much faster that they cannot have computed.

    Differences below `least_us` prove nothing: the first call also finds cold caches.
    """
    slow, fast = min(first), quantile(later, 0.8)
    return slow > RECALL * fast and slow - median(later) > least_us


def recalls(
    seat: Seat,
    sets: InputSets,
    trial: Callable[[], tuple[list[float], list[float]]],
    least_us: float,
) -> bool:
    """Whether new values are slower than values seen before, again and again.

    `trial` times the first calls on values and later calls on the same ones.
    """
    mutates = list(seat.candidate.task.mutates)
    found = True
    for _ in range(TRIALS):
        for index in range(SETS):
            sets.redraw(index)
        seat.ask("bind", sets=sets.specs, mutates=mutates)
        found = found and recalled(*trial(), least_us)
    for index in range(SETS):
        sets.restore(index)
    seat.ask("bind", sets=sets.specs, mutates=mutates)
    return found


REMEMBERS = "much faster on values it has seen than on new ones: it remembers results"
