"""`bench run` and `bench check`: build, correctness, performance, one result line per shape.

Operators come in waves, the most important first: those of a wave are checked at the same time,
their processes are started at the same time, and then they are timed one by one, alone on the
device. A time budget is shared out by how much is left to be measured of each operator, and spent
on its shapes with the largest weight first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from solscope.bench.base import SETS, ShapeResult, Status
from solscope.bench.pool.arena import Arena, Arenas
from solscope.bench.pool.device_memory import MemoryBudget, is_short, release
from solscope.bench.pool.slot import Candidate, WorkerSlot
from solscope.bench.pool.spawner import Spawner
from solscope.bench.results.digest import with_digests
from solscope.bench.results.files import append_result, require_appendable
from solscope.bench.run.agenda import Agenda, OperatorRun, Options, Progress
from solscope.bench.run.check import own_verdict
from solscope.bench.run.correctness import Checked, OperatorCheck
from solscope.bench.run.failures import EVALUATOR_ERRORS, own_failure
from solscope.bench.run.lines import Lines
from solscope.bench.run.machine import describe_run, device_name
from solscope.bench.run.sensors import BUSY_PCT, Watch
from solscope.bench.run.timing import Measured, OperatorTiming
from solscope.bench.run.together import together
from solscope.bench.worker.isolation import set_dumpable
from solscope.bench.workloads import Workload
from solscope.errors import UsageError
from solscope.hardware import Hardware, find, match_device, with_measured
from solscope.operators.host_warnings import ignore_host_warnings

T = TypeVar("T")
CHECK_SHARE = 0.4
"""Share of an operator's time after which no further shape is checked, so that some are timed."""
WORKER_SHARE = 0.6
"""Share of the GPU's memory that a worker may take: one that leaks must not starve the others."""
ARENA_BYTES = 40 << 30
"""Memory that is reserved at once for the inputs of an operator's shapes, at most."""
_LOADING = threading.Lock()


class Resources(NamedTuple):
    """What a run keeps open."""

    spawner: Spawner
    arenas: Arenas
    watch: Watch


class Evaluation:
    """One run of the evaluator."""

    def __init__(
        self, options: Options, progress: Progress, spawner: Spawner | None = None
    ) -> None:
        """`spawner` is one that several runs share, which starts workers in milliseconds."""
        if options.out is not None:
            require_appendable(options.out)
        self.options = options
        self.progress = progress
        self._spawner = spawner
        self.device = device_name(options.device)
        self.about = describe_run(options.device, list(options.command))
        hardware = _hardware(options, self.device)
        method = options.plan.methods[0]
        self.lines = Lines(self.device, method, options.scale, hardware, self.about)
        self.start = time.monotonic()
        self.results: list[ShapeResult] = []
        memory = self.about.get("gpu_memory_bytes")
        self.memory_budget = MemoryBudget(0.7 * memory if memory else float("inf"))
        self.agenda = Agenda(options, self.device, memory, progress)
        self._lock = threading.Lock()
        self._digest = ""
        """The running digest of the lines so far."""

    def run(self) -> list[ShapeResult]:
        """Run everything; the lines that were written."""
        options = self.options
        with (
            Watch(options.device) as watch,
            Arenas(options.device) as arenas,
            open_spawner(options)
            if self._spawner is None
            else nullcontext(self._spawner) as spawner,
            _unseen(options.device),
        ):
            self.about["isolation"] = spawner.isolation  # filled when the first worker starts
            self._require_idle(watch)
            _load_solvers(options.device)
            agenda = self.agenda
            waiting = agenda.runs(spawner.folder / "solutions")
            for run, candidate, shape, why in agenda.too_large:
                self._write(self._line(run, candidate, shape, "unsupported", why))
            due = agenda.work(waiting)
            for wave in list(agenda.waves(waiting)):
                share = self._left() * agenda.work(wave) / agenda.work(waiting)
                waiting = waiting[len(wave) :]
                resources = Resources(spawner, arenas, watch)
                self._wave(wave, time.monotonic() + share, resources)
        budget = options.time_budget_s
        if budget is not None and due and len(self.results) == len(agenda.too_large):
            raise UsageError(f"nothing was done in the {budget:g} s of --time-budget: allow more")
        return self.results

    def _wave(self, wave: Sequence[OperatorRun], end: float, resources: Resources) -> None:
        """Check and time some operators until `end`, in turns as long as lines come of it.

        Checks end after a share of the time. What they leave out has its turn where timing takes
        less than the rest, and more is left than the last turn needed before its first shape.
        """
        while wave:
            written = len(self.results)
            preparing_s = self._turn(wave, end, resources)
            if self.options.check_only or end == float("inf") or len(self.results) == written:
                return
            if time.monotonic() + preparing_s >= end:
                return
            wave = self.agenda.still_due(wave)

    def _turn(self, wave: Sequence[OperatorRun], end: float, resources: Resources) -> float:
        """Check some operators at the same time, then time them one by one, until `end`.

        Returns the seconds in which processes only started and compiled.
        """
        spawner, arenas, _ = resources
        check_end = end
        if not self.options.check_only:
            check_end -= (1 - CHECK_SHARE) * (end - time.monotonic()) if end < float("inf") else 0.0
        preparing = together(
            lambda run: self._check(run, check_end, spawner, arenas),
            wave,
            self.options.jobs,
            spawner,
        )
        spawner.settle()
        arenas.trim()
        release(self.options.device, keep=0)
        standing = [run for run in wave if self._standing(run)]
        preparing_s = max(preparing, default=0.0)
        if standing and not self.options.check_only and time.monotonic() < end:
            preparing_s += self._time_wave(standing, end, resources)
        return preparing_s

    @property
    def _share(self) -> float | None:
        """Most memory of the GPU that a worker may take."""
        return None if self.options.device == "cpu" else WORKER_SHARE

    def _left(self) -> float:
        """Seconds until the time budget is used up."""
        budget = self.options.time_budget_s
        return float("inf") if budget is None else self.start + budget - time.monotonic()

    def _require_idle(self, watch: Watch) -> None:
        if watch.card is None:
            return
        self.about["driver"] = watch.card.driver()
        if self.options.allow_busy or self.options.check_only:
            return
        busy = watch.card.busy_pct()
        if busy > BUSY_PCT:
            raise UsageError(
                f"the GPU is busy ({busy:.0f} % of the last second): times would be wrong; "
                "wait for the other work, or say --allow-busy"
            )

    # --- correctness

    def _check(self, run: OperatorRun, end: float, spawner: Spawner, arenas: Arenas) -> float:
        """Check what is due and unknown; the seconds before the first shape could be."""
        if time.monotonic() >= end or not self._unknown(run):
            return 0.0
        with arenas.pair() as pair:
            preparing_s = self._check_in(run, end, spawner, pair)
        if spawner.stopped:
            return preparing_s
        for candidate in run.candidates:
            checked = run.checked[candidate.key]
            for shape in run.shapes:
                verdict = checked.verdict(shape.shape)
                if not (self.agenda.due(candidate, shape) and checked.knows(shape.shape)):
                    continue
                if self.options.check_only or not verdict.ok:
                    line = self._line(run, candidate, shape, verdict.status, verdict.reason)
                    self._write(line)
        return preparing_s

    def _unknown(self, run: OperatorRun) -> bool:
        """Whether anything is due that no earlier turn has checked."""
        return any(
            self.agenda.due(candidate, shape)
            and not run.checked.get(candidate.key, Checked()).knows(shape.shape)
            for candidate in run.candidates
            for shape in run.shapes
        )

    def _check_in(
        self, run: OperatorRun, end: float, spawner: Spawner, arenas: dict[str, Arena]
    ) -> float:
        start = time.monotonic()
        stage = OperatorCheck(
            run.operator, run.candidates, spawner, arenas, self.memory_budget, self._share
        )
        stage.continue_from(run.checked)
        try:
            stage.build()
            stage.run(
                run.shapes,
                run.rehearsed,
                self.options.effort,
                self.progress,
                in_time=lambda: time.monotonic() < end,
                due=self.agenda.due,
            )
        except EVALUATOR_ERRORS as error:
            stage.give_up(own_failure(error))
        finally:
            stage.close()
        run.checked = stage.found
        return min(stage.prepared, time.monotonic()) - start

    # --- performance

    def _standing(self, run: OperatorRun) -> list[Candidate]:
        """Candidates that are to be timed on at least one shape."""
        return [
            candidate
            for candidate in run.candidates
            if run.checked and any(self._due(run, candidate, shape) for shape in run.shapes)
        ]

    def _time_wave(self, wave: Sequence[OperatorRun], end: float, resources: Resources) -> float:
        """Start the processes of several operators at once, then time one after the other.

        Each operator gets its share of the time that is left. Returns the seconds of the start.
        """
        spawner, arenas, watch = resources
        start = time.monotonic()
        self.progress(f"starting {', '.join(run.operator.name for run in wave)}")
        stages = together(lambda run: self._start(run, spawner, arenas), wave, len(wave), spawner)
        starting_s = time.monotonic() - start
        try:
            with arenas.pair() as pair:
                for number, (run, stage) in enumerate(zip(wave, stages, strict=True)):
                    self._free_memory(run, stages[:number], spawner)
                    now = time.monotonic()
                    share = self.agenda.work([run]) / self.agenda.work(wave[number:])
                    others = [other for other in stages if other is not stage]
                    room = partial(self._make_room, others, spawner)
                    self._time(run, stage, now + (end - now) * share, pair, watch, room)
        finally:
            for stage in stages:
                stage.close()
            release(self.options.device)
        return starting_s

    def _free_memory(
        self, run: OperatorRun, done: Sequence[OperatorTiming], spawner: Spawner
    ) -> None:
        if done and is_short(self.options.device, _largest(run)):
            self._make_room(done, spawner)

    def _make_room(self, stages: Sequence[OperatorTiming], spawner: Spawner) -> None:
        """End processes that only rest: every one holds a context. What is asked starts again."""
        for stage in stages:
            stage.close()
        spawner.settle()
        release(self.options.device, keep=0)

    def _start(self, run: OperatorRun, spawner: Spawner, arenas: Arenas) -> OperatorTiming:
        # Checks have other sizes, and torch.compile keeps kernels made for the first of them.
        compiled = spawner.folder / "compiled"
        with arenas.pair() as pair:
            slots = [
                [
                    WorkerSlot(spawner, candidate, pair, self._share, compiled)
                    for candidate in self._standing(run)
                ]
                for _ in range(self.options.restarts)
            ]
            stage = OperatorTiming(run.operator, slots, pair)
            self._prepare(run, partial(stage.start, run.rehearsed))
        return stage

    def _prepare(self, run: OperatorRun, prepare: Callable[[], object]) -> bool:
        """Do what comes before times; whether it went well. If not, the first shape tells why."""
        try:
            prepare()
        except EVALUATOR_ERRORS as error:
            self.progress(f"{run.operator.name}: {error}")
            return False
        return True

    def _time(
        self,
        run: OperatorRun,
        stage: OperatorTiming,
        end: float,
        pair: dict[str, Arena],
        watch: Watch,
        make_room: Callable[[], None],
    ) -> None:
        """Time the shapes of one operator, by weight, until `end`.

        What ran out of memory is timed again where others may have had it.
        """
        size = int(min(1.2 * SETS * _largest(run), ARENA_BYTES))
        if not self._prepare(run, partial(pair["inputs"].reserve, size)):
            make_room()  # every shape asks for its own
        stage.use(pair)
        self._prepare(run, stage.be_ready)
        for axes, keys in self._seen_first(run):
            if keys and time.monotonic() < end:
                self._prepare(run, partial(stage.warm_up, axes, keys))
        for shape in run.shapes:
            due = {c.key for c in self._standing(run) if self._due(run, c, shape)}
            if due and time.monotonic() < end:
                self.progress(f"{run.operator.name} shape {shape.shape}: timing")
                lacking = self._time_shape(run, stage, shape, due, watch, again=True)
                if lacking:
                    self.progress(f"{run.operator.name} shape {shape.shape}: with more memory")
                    make_room()
                    self._time_shape(run, stage, shape, lacking, watch, again=False)
        stage.rest()

    def _seen_first(self, run: OperatorRun) -> list[tuple[dict[str, Any], set[str]]]:
        """What decides the kernels of later sizes, in order, and for which candidates.

        torch.compile makes them for the sizes that it sees first; others may choose once for all,
        which is on the heaviest shape also where that is not due.
        """
        standing = self._standing(run)
        compiled = {one.key for one in standing if one.solution.about.compile}
        heaviest = [shape for shape in run.shapes if shape.axes == run.heaviest]
        others = {
            candidate.key
            for candidate in standing
            if not any(self._due(run, candidate, shape) for shape in heaviest)
        }
        return [*((axes, compiled) for axes in run.rehearsed), (run.heaviest, others)]

    def _due(self, run: OperatorRun, candidate: Candidate, shape: Workload) -> bool:
        checked = run.checked[candidate.key]
        return checked.verdict(shape.shape).ok and self.agenda.due(candidate, shape)

    def _time_shape(
        self,
        run: OperatorRun,
        stage: OperatorTiming,
        shape: Workload,
        due: set[str],
        watch: Watch,
        *,
        again: bool,
    ) -> set[str]:
        """Time one shape and write its lines; what lacked memory is left out if timed `again`."""
        from solscope.bench.run.timing_cpu import sample_cpu
        from solscope.bench.run.timing_gpu import sample_gpu

        sample = sample_cpu if self.options.device == "cpu" else sample_gpu
        try:
            by_candidate = stage.run(
                shape.axes, due, self.options.plan, self.options.effort, sample
            )
        except EVALUATOR_ERRORS as error:
            stage.free()
            by_candidate = {name: Measured(own_verdict(error)) for name in due}
            stage.realized = shape.axes
        lacking: set[str] = set()
        if again and self.memory_budget.is_shared:
            lacking = {key for key, one in by_candidate.items() if one.lacks_memory}
        bound = self.lines.bound(run.operator, shape, stage.realized)
        for candidate in run.candidates:
            measured = by_candidate.get(candidate.key)
            if measured is not None and candidate.key not in lacking:
                checked = run.checked[candidate.key]
                line = self.lines.checked(candidate, shape, checked, bound, "passed", None)
                sensors = watch.during(measured.windows)
                self._write(self.lines.timed(line, measured, sensors, stage.seeds))
        release(self.options.device)
        return lacking

    def _line(
        self,
        run: OperatorRun,
        candidate: Candidate,
        shape: Workload,
        status: Status,
        reason: str | None,
    ) -> ShapeResult:
        checked = run.checked.get(candidate.key, Checked())
        bound = self.lines.bound(run.operator, shape, shape.axes)
        return self.lines.checked(candidate, shape, checked, bound, status, reason)

    def _write(self, result: ShapeResult) -> None:
        with self._lock:
            result = with_digests(result, self._digest)
            self._digest = result.run_digest
            self.results.append(result)
            self.agenda.mark_done(result)
            if self.options.out is not None:
                append_result(self.options.out, result)


def open_spawner(options: Options) -> Spawner:
    """What starts the workers of a run; a context manager."""
    # Not yet known to be harmless to a GPU's driver: SOLSCOPE_BENCH_ISOLATION=full asks for it.
    isolation = "full" if options.device == "cpu" else "calls"
    return Spawner(replace(options.limits, isolation=isolation))


@ignore_host_warnings()
def evaluate(options: Options, progress: Progress = lambda _: None) -> list[ShapeResult]:
    """Run solutions on shapes; one result per shape and solution."""
    return Evaluation(options, progress).run()


@contextmanager
def _unseen(device: str) -> Iterator[None]:
    """Keep processes of the same user from looking into this one, which holds the references.

    Not where a GPU is shared between processes, whose driver may look.
    """
    if device != "cpu":
        yield
        return
    set_dumpable(0)
    try:
        yield
    finally:
        set_dumpable(1)


def _largest(run: OperatorRun) -> float:
    """Bytes that the largest shape must move."""
    return max(run.operator.cost(shape.axes).bytes for shape in run.shapes)


def _load_solvers(device: str) -> None:
    """torch loads its GPU solvers on first use, and fails when two threads do so at once."""
    if device != "cpu":
        import torch

        with _LOADING:  # runs may go on in several threads
            matrix = torch.ones(1, 1, device=device)
            torch.linalg.solve_triangular(matrix, matrix, upper=False)


def _hardware(options: Options, device: str) -> Hardware | None:
    if options.hardware is not None:
        return with_measured(find(options.hardware))
    card = None if device == "cpu" else match_device(device)
    return None if card is None else with_measured(card)
