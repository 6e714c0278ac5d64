"""What a run is to do: which solutions on which shapes of which operators, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from solscope.batches import batches
from solscope.bench.base import METHODS, ShapeResult, Timing
from solscope.bench.catalog import Solution
from solscope.bench.pool.process import Limits
from solscope.bench.pool.slot import Candidate
from solscope.bench.results.digest import read_intact
from solscope.bench.results.files import latest, raw_lines
from solscope.bench.run.correctness import Checked
from solscope.bench.run.failures import OWN_FAILURE
from solscope.bench.run.reference import CPU_EFFORT, Effort
from solscope.bench.run.timing import Plan
from solscope.bench.workloads import (
    DEFAULT_SUITE,
    Workload,
    choose,
    rehearsal,
    scaled,
    suite_with,
    workloads,
)
from solscope.errors import UsageError
from solscope.operators import operator as find_operator
from solscope.operators.base import Operator

CPU_BYTES = 256e6
"""Bytes that a shape may move on a CPU, unless another limit is given."""
GPU_SHARE = 0.15
"""Shapes that move more than this share of the GPU's memory are not run: several draws, outputs
and references must fit."""
MAX_PROCESSES = 48
"""Processes that are ready to be timed at the same time; each has its own context."""

Progress = Callable[[str], None]
Key = tuple[str | float, ...]
"""Which line of a file: `ShapeResult.key`."""


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
    renew: int | None = None
    """With `resume`: measure again what an evaluator before this version checked, and passed lines
    that lack one of the methods."""
    near_pct: float | None = None
    """Measure only what has a time in `out` that is at most this much above the fastest of its
    shape. With `resume`, what was timed in fewer processes than `restarts` is measured again."""
    check_only: bool = False
    methods: tuple[str, ...] = tuple(METHODS.values())
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
        return replace(base, rounds=self.rounds, extra=self.extra)

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
    rehearsed: list[dict[str, Any]]
    """Sizes that a compiler sees first. They do not depend on what is left to be done: kernels that
    it makes for them are those of later sizes."""
    heaviest: dict[str, Any]
    """Sizes on which kernels are chosen that are chosen once, whatever is left to be done."""
    checked: dict[str, Checked] = field(default_factory=dict)


class Agenda:
    """What is to be done, less what the file of an earlier run has already."""

    def __init__(
        self, options: Options, device: str, memory_bytes: int | None, progress: Progress
    ) -> None:
        self.options = options
        self.device = device
        self.memory_bytes = memory_bytes
        self.progress = progress
        self.too_large: list[tuple[OperatorRun, Candidate, Workload, str]] = []
        """What is not run because of its size, and why."""
        self.earlier: list[ShapeResult] = []
        """What is asked for and not run again, as the file has it: what `resume` skips, and times
        of shapes that are too large now. It counts for how the run ended: what failed is not right
        because it is not tried again."""
        self.untimed: Counter[str] = Counter()
        """Lines that are left out because nothing says how near they are, by solution."""
        self._has_times = False
        lines, spoiled = _read(options)
        self._lines = {line.key: line for line in lines}  # of several with one key the last
        self._near = None if options.near_pct is None else _near(lines, options, device)
        final = {key for key, line in self._lines.items() if _is_final(line, options)}
        self._done = final - spoiled if options.resume else set()

    def runs(self, folder: Path) -> list[OperatorRun]:
        """Every operator with something to do, the most important first; copies go to `folder`."""
        listed = workloads(self.options.suite)
        runnable = [name for name in listed if find_operator(name).task is not None]
        if not self.options.operators and len(runnable) < len(listed):
            lacking = ", ".join(name for name in listed if name not in runnable)
            self.progress(f"left out, because nothing can be checked against: {lacking}")
        names = list(dict.fromkeys(self.options.operators)) or runnable
        planned = [self._run(name, listed, folder) for name in names]
        solutions = self.options.solutions
        if not any(solution.file(name) for solution in solutions for name in names):
            who = ", ".join(solution.name for solution in solutions)
            what = names[0] if len(names) == 1 else "any of these operators"
            raise UsageError(f"{who} has no file for {what}: name it {names[0]}.py")
        if self._near is not None and not self._has_times:
            raise UsageError(
                f"--near: {self.options.out} has no times of these solutions by "
                f"{self.options.plan.methods[0]} on {self.device}: run without --near first"
            )
        return sorted(self.still_due(planned), key=lambda run: -run.shapes[0].importance)

    def due(self, candidate: Candidate, shape: Workload) -> bool:
        """Whether a line is to be written."""
        key = self._key(candidate, shape)
        return key not in self._done and (self._near is None or self._near.get(key, False))

    def _key(self, candidate: Candidate, shape: Workload) -> Key:
        what = (candidate.operator, shape.suite, shape.shape, self.options.scale)
        return (*what, candidate.name, candidate.hash, self.device)

    def _line(self, candidate: Candidate, shape: Workload) -> ShapeResult | None:
        """The line of an earlier run."""
        return self._lines.get(self._key(candidate, shape))

    def work(self, runs: Sequence[OperatorRun]) -> int:
        """Lines that are to be written."""
        return sum(
            self.due(candidate, shape)
            for run in runs
            for candidate in run.candidates
            for shape in run.shapes
        )

    def mark_done(self, line: ShapeResult) -> None:
        """Take a line that was written off the list."""
        self._done.add(line.key)

    def still_due(self, runs: Sequence[OperatorRun]) -> list[OperatorRun]:
        """What of these operators is still to be done, with what is known of the candidates."""
        left = []
        for run in runs:
            candidates = [c for c in run.candidates if any(self.due(c, s) for s in run.shapes)]
            shapes = [s for s in run.shapes if any(self.due(c, s) for c in candidates)]
            if shapes:
                left.append(replace(run, shapes=shapes, candidates=candidates))
        return left

    def waves(self, runs: Sequence[OperatorRun]) -> Iterator[list[OperatorRun]]:
        """Operators that are checked, and whose processes are started, together."""
        restarts = self.options.restarts
        return batches(runs, lambda run: len(run.candidates) * restarts, MAX_PROCESSES)

    def _run(self, name: str, listed: dict[str, list[Workload]], folder: Path) -> OperatorRun:
        operator = find_operator(name)
        if operator.task is None:
            raise UsageError(f"{name} has no reference, so nothing can be checked against it")
        if name not in listed:
            having = suite_with(name)
            hint = f"; choose one that has: --suite {having}" if having else ""
            raise UsageError(f"the suite {self.options.suite} has no shapes of {name}{hint}")
        candidates = []
        for solution in self.options.solutions:
            if solution.file(name) is None:
                if self.options.operators:
                    self.progress(f"{solution.name} has no file for {name}")
                continue
            staged = solution.stage(name, folder)
            candidates.append(Candidate(solution, name, operator.task, staged))
        shapes = sorted(choose(listed[name], self.options.shapes), key=lambda shape: -shape.rank)
        pairs = [(candidate, shape) for candidate in candidates for shape in shapes]
        if self.options.resume:
            lines = (self._line(*pair) for pair in pairs if not self.due(*pair))
            self.earlier += [line for line in lines if line is not None]
        if self._near is not None:
            unknown = [pair for pair in pairs if self._key(*pair) not in self._near]
            self._has_times = self._has_times or len(unknown) < len(pairs)
            self.untimed.update(c.name for c, s in unknown if self._key(c, s) not in self._done)
        all_of = [self._scaled(operator)(shape) for shape in shapes]
        small = [one for one in all_of if operator.cost(one.axes).bytes <= self._limit()]
        heaviest = small[0].axes if small else {}
        run = OperatorRun(operator, [], candidates, rehearsal(operator, small), heaviest)
        run.shapes = [shape for shape in all_of if self._fits(run, shape)]
        return run

    def _scaled(self, operator: Operator) -> Callable[[Workload], Workload]:
        def smaller(shape: Workload) -> Workload:
            axes = scaled(operator, shape.axes, self.options.scale)
            return msgspec.structs.replace(shape, axes=axes)

        return smaller

    def _fits(self, run: OperatorRun, shape: Workload) -> bool:
        """Whether the shape is due and may be run; what is too large and has no time is noted."""
        due = [candidate for candidate in run.candidates if self.due(candidate, shape)]
        size, limit = run.operator.cost(shape.axes).bytes, self._limit()
        if size <= limit:
            return bool(due)
        most = f"the {limit / 1e6:,.0f} MB allowed here"
        why = f"moves {size / 1e6:,.0f} MB, more than {most} (--max-bytes)"
        for candidate in due:
            line = self._line(candidate, shape)
            if line is not None and line.median_us:
                self.earlier.append(line)
            else:
                self.too_large.append((run, candidate, shape, why))
        return False

    def _limit(self) -> float:
        if self.options.max_bytes is not None:
            return self.options.max_bytes
        return CPU_BYTES if self.memory_bytes is None else GPU_SHARE * self.memory_bytes


def _read(options: Options) -> tuple[list[ShapeResult], set[Key]]:
    """The lines in the file of an earlier run, where they matter, and what was edited last.

    Edited lines do not count and are measured again, whatever stands before them.
    """
    out, matters = options.out, options.resume or options.near_pct is not None
    if not matters or out is None or not out.exists() or not out.stat().st_size:
        return [], set()
    lines, edited = read_intact([out])
    numbers = set(edited.get(str(out), ()))
    last = {line.key: number for number, _, line in raw_lines(out)} if numbers else {}
    return lines, {key for key, number in last.items() if number in numbers}


def _is_final(line: ShapeResult, options: Options) -> bool:
    """Whether a line says all that is asked for: what `bench check` passed has no time yet."""
    if _is_own_failure(line) or line.evaluator < (options.renew or 0):
        return False
    if options.check_only or line.status != "passed":
        return True
    methods = options.plan.methods
    if options.renew is not None and not line.methods.keys() >= set(methods):
        return False
    if options.near_pct is not None:
        return len(_timing(line, methods[0]).samples_per_restart) >= options.restarts
    return line.median_us is not None


def _is_own_failure(line: ShapeResult) -> bool:
    return (line.reason or "").startswith(OWN_FAILURE)


def _near(lines: Sequence[ShapeResult], options: Options, device: str) -> dict[Key, bool]:
    """Whether a time is near the fastest of its shape, for all that ever passed with a time.

    The fastest is one that counts; what it is compared with is the last time of each key, be it
    that of an earlier version of a solution, or one with failures after it.
    """
    method, where = options.plan.methods[0], (device, options.scale)

    def times(of: Sequence[ShapeResult]) -> Iterator[tuple[ShapeResult, float]]:
        for line in of:
            time_us = _timing(line, method).median_us
            if time_us and line.status == "passed" and (line.device, line.scale) == where:
                yield line, time_us

    best: dict[Key, float] = {}
    for line, us in times(latest([line for line in lines if not _is_own_failure(line)])):
        best[_shape(line)] = min(us, best.get(_shape(line), us))
    most = 1 + (options.near_pct or 0.0) / 100
    return {line.key: us <= most * best.get(_shape(line), us) for line, us in times(lines)}


def _shape(line: ShapeResult) -> Key:
    return line.operator, line.suite, line.shape


def _timing(line: ShapeResult, method: str) -> Timing:
    """What a line says of one method; that of its own may stand in the line alone."""
    if line.method == method:
        return Timing(median_us=line.median_us, samples_per_restart=line.samples_per_restart)
    return line.methods.get(method, Timing())
