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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solscope.bench.base import ShapeResult, Status
from solscope.bench.catalog import Solution
from solscope.bench.check import Verdict
from solscope.bench.correctness import (
    CPU_EFFORT,
    Checked,
    Effort,
    OperatorCheck,
    Room,
    release,
)
from solscope.bench.lines import Lines
from solscope.bench.machine import describe_run, device_name
from solscope.bench.memory import Arena, Arenas
from solscope.bench.process import Limits, Spawner
from solscope.bench.results import append_result, read_results
from solscope.bench.seat import Candidate, Seat
from solscope.bench.sensors import BUSY_PCT, Watch
from solscope.bench.timing import SETS, Measured, OperatorTiming, Plan
from solscope.bench.workloads import DEFAULT_SUITE, Workload, choose, rehearsal, scaled, workloads
from solscope.errors import SolscopeError, UsageError
from solscope.hardware import Hardware, find, match_device, with_measured
from solscope.operators import operator as find_operator
from solscope.operators.base import Operator

PREPARED = 0.4
"""Share of an operator's time after which no further shape of it is checked."""
CPU_BYTES = 256e6
GPU_SHARE = 0.15
"""Shapes that move more than this share of the GPU's memory are not run: several draws, outputs
and references must fit."""
WORKER_SHARE = 0.6
MOST_PROCESSES = 48
"""Processes that are ready to be timed at the same time; each has a context of its own."""
ARENA_BYTES = 40 << 30
OURS = (RuntimeError, ValueError, IndexError, KeyError, TypeError, AssertionError, MemoryError)
"""What a reference or an input maker may raise: one shape is lost, not the run."""
OWN_FAILURE = "the evaluator failed"
"""Such a line is no result: a resumed run tries the shape again."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What to run and how."""

    operators: Sequence[str]
    """Names; empty for every operator of the suite."""
    solutions: Sequence[Solution]
    shapes: str = "all"
    device: str = "cuda"
    suite: str = DEFAULT_SUITE
    out: Path | None = None
    resume: bool = False
    check_only: bool = False
    methods: tuple[str, ...] = ("cold-v1", "warm-v1", "graph-v1")
    restarts: int = 3
    jobs: int = 1
    seconds_per_shape: float = 0.4
    time_budget_s: float | None = None
    scale: float = 1.0
    max_bytes: float | None = None
    hardware: str | None = None
    rounds: int = 2
    extra: int = 6
    allow_busy: bool = False
    limits: Limits = field(default_factory=Limits)
    command: Sequence[str] = ()

    @property
    def effort(self) -> Effort:
        base = CPU_EFFORT if self.device == "cpu" else Effort()
        return Effort(**{**base.__dict__, "rounds": self.rounds, "extra": self.extra})

    @property
    def plan(self) -> Plan:
        if self.device == "cpu":
            return Plan(("cpu-v1",), self.seconds_per_shape, samples=5)
        return Plan(self.methods, self.seconds_per_shape)


@dataclass
class OperatorRun:
    """One operator: its shapes and its candidates."""

    operator: Operator
    shapes: list[Workload]
    candidates: list[Candidate]
    checked: dict[str, Checked] = field(default_factory=dict)


class Evaluation:
    """One run of the evaluator."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options = options
        self.progress = progress
        self.device = device_name(options.device)
        self.about = describe_run(options.device, list(options.command))
        hardware = _hardware(options, self.device)
        method = options.plan.methods[0]
        self.lines = Lines(self.device, method, options.scale, hardware, self.about)
        self.start = time.monotonic()
        self.results: list[ShapeResult] = []
        self.plan = options.plan
        memory = self.about.get("gpu_memory_bytes")
        self.room = Room(0.7 * memory if memory else float("inf"))
        self._lock = threading.Lock()
        self._done = self._resumed()

    def run(self) -> list[ShapeResult]:
        """Run everything; the lines that were written."""
        options = self.options
        with (
            Watch(options.device) as watch,
            Arenas(options.device) as arenas,
            Spawner(options.limits) as spawner,
        ):
            self._require_idle(watch)
            _load_solvers(options.device)
            waiting = self._plan(spawner)
            for wave in list(self._waves(waiting)):
                share = self._left() * self._work(wave) / self._work(waiting)
                waiting = waiting[len(wave) :]
                self._wave(wave, time.monotonic() + share, spawner, arenas, watch)
        return self.results

    def _wave(
        self,
        wave: Sequence[OperatorRun],
        end: float,
        spawner: Spawner,
        arenas: Arenas,
        watch: Watch,
    ) -> None:
        """Check some operators at the same time, then time them one by one, until `end`."""
        check_end = end
        if not self.options.check_only:
            check_end -= (1 - PREPARED) * (end - time.monotonic()) if end < float("inf") else 0.0
        with ThreadPoolExecutor(max_workers=max(1, self.options.jobs)) as pool:
            list(pool.map(lambda one: self._check(one, check_end, spawner, arenas), wave))
        arenas.trim()
        release(self.options.device, keep=0)
        standing = [run for run in wave if self._standing(run)]
        if standing and not self.options.check_only and time.monotonic() < end:
            self._time_wave(standing, end, spawner, arenas, watch)

    def _work(self, runs: Sequence[OperatorRun]) -> int:
        """Lines that are to be written."""
        return sum(
            not self._is_done(candidate, shape)
            for run in runs
            for candidate in run.candidates
            for shape in run.shapes
        )

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
        busy = watch.card.busy_pct()
        if busy > BUSY_PCT and not self.options.allow_busy and not self.options.check_only:
            raise UsageError(
                f"the GPU is busy ({busy:.0f} % of the last second): times would be wrong; "
                "wait for the other work, or say --allow-busy"
            )

    def _resumed(self) -> set[tuple[Any, ...]]:
        out = self.options.out
        if not self.options.resume or out is None or not out.exists() or not out.stat().st_size:
            return set()
        found = read_results([out])
        return {r.key for r in found if not (r.reason or "").startswith(OWN_FAILURE)}

    # --- what to run

    def _plan(self, spawner: Spawner) -> list[OperatorRun]:
        listed = workloads(self.options.suite)
        runnable = [name for name in listed if find_operator(name).task is not None]
        if not self.options.operators and len(runnable) < len(listed):
            lacking = ", ".join(name for name in listed if name not in runnable)
            self.progress(f"left out, because nothing can be checked against: {lacking}")
        names = self.options.operators or runnable
        found = [self._operator_run(name, listed, spawner) for name in names]
        return sorted(
            (one for one in found if one is not None and one.shapes and one.candidates),
            key=lambda one: -one.shapes[0].importance,
        )

    def _operator_run(
        self, name: str, listed: dict[str, list[Workload]], spawner: Spawner
    ) -> OperatorRun | None:
        operator = find_operator(name)
        if operator.task is None:
            raise UsageError(f"{name} has no reference, so nothing can be checked against it")
        if name not in listed:
            raise UsageError(f"the suite {self.options.suite} has no shapes of {name}")
        candidates = []
        for solution in self.options.solutions:
            if solution.file(name) is None:
                if self.options.operators:
                    self.progress(f"{solution.name} has no file for {name}")
                continue
            path = solution.stage(name, spawner.folder / "solutions")
            candidates.append(Candidate(solution, name, operator.task, path, solution.hash(name)))
        shapes = sorted(choose(listed[name], self.options.shapes), key=lambda one: -one.rank)
        run = OperatorRun(operator, [], candidates)
        run.shapes = [
            shape for shape in map(self._scaled(operator), shapes) if self._fits(run, shape)
        ]
        run.candidates = [
            candidate
            for candidate in candidates
            if any(not self._is_done(candidate, shape) for shape in run.shapes)
        ]
        return run

    def _scaled(self, operator: Operator) -> Callable[[Workload], Workload]:
        import msgspec

        def smaller(shape: Workload) -> Workload:
            axes = scaled(operator, shape.axes, self.options.scale)
            return msgspec.structs.replace(shape, axes=axes)

        return smaller

    def _fits(self, run: OperatorRun, shape: Workload) -> bool:
        """Whether the shape may be run; else a line that says why not."""
        limit = self.options.max_bytes
        if limit is None and self.options.device == "cpu":
            limit = CPU_BYTES
        elif limit is None:
            limit = GPU_SHARE * self.about["gpu_memory_bytes"]
        size = run.operator.cost(shape.axes).bytes
        if size <= limit:
            return any(not self._is_done(candidate, shape) for candidate in run.candidates)
        why = f"moves {size / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB allowed here"
        for candidate in run.candidates:
            if not self._is_done(candidate, shape):
                self._write(self._line(run, candidate, shape, "unsupported", why))
        return False

    def _is_done(self, candidate: Candidate, shape: Workload) -> bool:
        what = (candidate.operator, shape.suite, shape.shape, self.options.scale)
        return (*what, candidate.name, candidate.hash, self.device) in self._done

    # --- correctness

    def _check(self, run: OperatorRun, end: float, spawner: Spawner, arenas: Arenas) -> None:
        if time.monotonic() >= end:
            return
        with arenas.pair() as pair:
            self._check_in(run, end, spawner, pair)
        for candidate in run.candidates:
            checked = run.checked[candidate.key]
            for shape in run.shapes:
                verdict = checked.verdict(shape.shape)
                if self._is_done(candidate, shape) or not checked.knows(shape.shape):
                    continue
                if self.options.check_only or not verdict.ok:
                    line = self._line(run, candidate, shape, verdict.status, verdict.reason)
                    self._write(line)

    def _check_in(
        self, run: OperatorRun, end: float, spawner: Spawner, arenas: dict[str, Arena]
    ) -> None:
        stage = OperatorCheck(run.operator, run.candidates, spawner, arenas, self.room)
        try:
            stage.build()
            stage.run(
                run.shapes,
                self.options.effort,
                self.progress,
                in_time=lambda: time.monotonic() < end,
                due=lambda candidate, shape: not self._is_done(candidate, shape),
            )
        except OURS as error:
            stage.give_up(_own_failure(error))
        finally:
            stage.close()
        run.checked = stage.found

    # --- performance

    def _waves(self, runs: Sequence[OperatorRun]) -> Iterator[list[OperatorRun]]:
        """Operators that are checked, and whose processes are started, together."""
        wave: list[OperatorRun] = []
        processes = 0
        for run in runs:
            count = len(run.candidates) * self.options.restarts
            if wave and processes + count > MOST_PROCESSES:
                yield wave
                wave, processes = [], 0
            wave.append(run)
            processes += count
        if wave:
            yield wave

    def _standing(self, run: OperatorRun) -> list[Candidate]:
        """Candidates that are to be timed on at least one shape."""
        return [
            candidate
            for candidate in run.candidates
            if run.checked and any(self._due(run, candidate, shape) for shape in run.shapes)
        ]

    def _time_wave(
        self,
        wave: Sequence[OperatorRun],
        end: float,
        spawner: Spawner,
        arenas: Arenas,
        watch: Watch,
    ) -> None:
        """Start the processes of several operators at once, then time one after the other.

        Each operator gets its share of the time that is left.
        """
        self.progress(f"starting {', '.join(run.operator.name for run in wave)}")
        with ThreadPoolExecutor(max_workers=len(wave)) as pool:
            stages = list(pool.map(lambda run: self._start(run, spawner, arenas), wave))
        try:
            with arenas.pair() as pair:
                for number, (run, stage) in enumerate(zip(wave, stages, strict=True)):
                    now = time.monotonic()
                    share = self._work([run]) / self._work(wave[number:])
                    self._time(run, stage, now + (end - now) * share, pair, watch)
        finally:
            for stage in stages:
                stage.close()
            release(self.options.device)

    def _start(self, run: OperatorRun, spawner: Spawner, arenas: Arenas) -> OperatorTiming:
        with arenas.pair() as pair:
            seats = [
                [Seat(spawner, candidate, pair, self._share) for candidate in self._standing(run)]
                for _ in range(self.options.restarts)
            ]
            stage = OperatorTiming(run.operator, seats, pair)
            try:
                stage.start(rehearsal(run.operator, run.shapes))
            except OURS as error:
                self.progress(f"{run.operator.name}: {error}")
        return stage

    def _time(
        self,
        run: OperatorRun,
        stage: OperatorTiming,
        end: float,
        pair: dict[str, Arena],
        watch: Watch,
    ) -> None:
        """Time the shapes of one operator, by weight, until `end`."""
        largest = max(run.operator.cost(shape.axes).bytes for shape in run.shapes)
        pair["inputs"].reserve(int(min(1.2 * SETS * largest, ARENA_BYTES)))
        stage.use(pair)
        self.plan = self.options.plan
        for shape in run.shapes:
            due = {c.key for c in self._standing(run) if self._due(run, c, shape)}
            if due and time.monotonic() < end:
                self.progress(f"{run.operator.name} shape {shape.shape}: timing")
                self._time_shape(run, stage, shape, due, watch)
        stage.close()

    def _due(self, run: OperatorRun, candidate: Candidate, shape: Workload) -> bool:
        checked = run.checked[candidate.key]
        return checked.verdict(shape.shape).ok and not self._is_done(candidate, shape)

    def _time_shape(
        self, run: OperatorRun, stage: OperatorTiming, shape: Workload, due: set[str], watch: Watch
    ) -> None:
        from solscope.bench.timing_cpu import sample_cpu
        from solscope.bench.timing_gpu import sample_gpu

        sample = sample_cpu if self.options.device == "cpu" else sample_gpu
        try:
            found = stage.run(shape.axes, due, self.plan, self.options.effort, sample)
        except OURS as error:
            verdict = Verdict(
                "unsupported", f"the evaluator failed: {type(error).__name__}: {error}"
            )
            found = {name: Measured(verdict) for name in due}
            stage.realized = shape.axes
        bound = self.lines.bound(run.operator, shape, stage.realized)
        for candidate in run.candidates:
            measured = found.get(candidate.key)
            if measured is not None:
                checked = run.checked[candidate.key]
                line = self.lines.checked(candidate, shape, checked, bound, "passed", None)
                sensors = watch.during(measured.windows)
                self._write(self.lines.timed(line, measured, sensors, stage.seeds))
        release(self.options.device)

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
            self.results.append(result)
            if self.options.out is not None:
                append_result(self.options.out, result)


def evaluate(options: Options, progress: Progress = lambda _: None) -> list[ShapeResult]:
    """Run solutions on shapes; one result per shape and solution."""
    return Evaluation(options, progress).run()


def _load_solvers(device: str) -> None:
    """torch loads its GPU solvers on first use, and fails when two threads do so at once."""
    if device != "cpu":
        import torch

        one = torch.ones(1, 1, device=device)
        torch.linalg.solve_triangular(one, one, upper=False)


def _own_failure(error: Exception) -> str:
    """Why a shape is lost through no fault of a solution; an error when the whole device is."""
    text = f"{type(error).__name__}: {error}"
    if "CUDA error" in text:
        raise SolscopeError(f"the evaluator lost the GPU ({text}); run again with --resume")
    return f"{OWN_FAILURE}: {text}"


def _hardware(options: Options, device: str) -> Hardware | None:
    if options.hardware is not None:
        return with_measured(find(options.hardware))
    card = None if device == "cpu" else match_device(device)
    return None if card is None else with_measured(card)
