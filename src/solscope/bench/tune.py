"""`bench tune`: check and time a solution again whenever it changes, beside bound and best time.

Every attempt is a small run of the evaluator, in processes of their own as always. The process that
starts workers stays, so that an attempt does not wait for torch. An attempt at files that have
changed since is ended at once: nobody wants its answer, and it may hang.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone

from solscope.bench.base import SCALED, ShapeResult
from solscope.bench.catalog import built_in, find_solution
from solscope.bench.pool.spawner import Spawner
from solscope.bench.results.attempts import Attempt, Change, TunedShape, Tuning
from solscope.bench.results.contrast import contrast_lines
from solscope.bench.results.files import latest
from solscope.bench.results.restate import restate
from solscope.bench.results.score import best_per_shape, call_counts
from solscope.bench.run.agenda import Options, Progress
from solscope.bench.run.evaluate import Evaluation, open_spawner
from solscope.bench.run.machine import device_name
from solscope.errors import SolscopeError
from solscope.operators.host_warnings import ignore_host_warnings

BASELINE = "torch-eager"
"""Timed once where no result is known for the device."""
MOST_ATTEMPTS = 10
"""Attempts that are listed, the newest first."""
POLL_S = 0.25
"""How often an attempt is asked whether it is outdated."""


class Outdated(Exception):  # noqa: N818 - no error: somebody saved the files again
    """An attempt that was ended, since it was at files that are others now."""


class Tuner:
    """Attempts at one operator; a context manager that ends what it started."""

    def __init__(self, options: Options, place: str, earlier: Sequence[ShapeResult]) -> None:
        """`place` is the solution, as `find_solution` takes it."""
        self.options = options
        self.place = place
        (self.operator,) = options.operators
        find_solution(place).required_file(self.operator)
        self.device = device_name(options.device)
        self.earlier = self._comparable(earlier)
        self._unused = None if self.earlier else self._why_unused(earlier)
        self.attempts: list[Attempt] = []
        self.number = 0
        """Of the attempt that runs, or ran last; one that was ended has a number too."""
        self._passed: list[ShapeResult] = []
        """Lines of the last attempt that passed."""
        self._passed_number: int | None = None
        self._open = ExitStack()
        self._spawner: Spawner | None = None

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_workers()

    def fingerprint(self) -> str | None:
        """A digest of what would run; null while it cannot be read, e.g. while it is saved."""
        try:
            solution = find_solution(self.place)
            return solution.hash(self.operator) if solution.file(self.operator) else None
        except (SolscopeError, OSError):
            return None

    def attempt(
        self,
        progress: Progress = lambda _: None,
        outdated: Callable[[], bool] = lambda: False,
    ) -> Tuning:
        """Check and time the solution as it is now.

        Another thread asks `outdated` all the while. When that is true, all workers are killed and
        `Outdated` is raised; the attempt is not listed.
        """
        self.number += 1
        solution = find_solution(self.place)
        baseline = built_in().get(BASELINE)
        solutions = [solution]
        if not self.earlier and solution.name != BASELINE and baseline.file(self.operator):
            solutions.append(baseline)
        lines = self._run(replace(self.options, solutions=solutions), progress, outdated)
        self.earlier += self._comparable([line for line in lines if line.solution != solution.name])
        own = [line for line in lines if line.solution == solution.name]
        return self._noted(solution.name, sorted(own, key=lambda line: -line.weight))

    @ignore_host_warnings()
    def _run(
        self, options: Options, progress: Progress, outdated: Callable[[], bool]
    ) -> list[ShapeResult]:
        if self._spawner is None:
            self._spawner = self._open.enter_context(open_spawner(options))
        spawner = self._spawner
        lines: list[ShapeResult] = []
        with _stopped_when(outdated, spawner) as stopped:
            try:
                lines = Evaluation(options, progress, spawner).run()
            except BaseException as error:
                # Whatever fails because its workers were killed says nothing about the solution.
                if not (stopped.is_set() and isinstance(error, Exception)):
                    self._end_workers()  # some may be in the middle of something
                    raise
        if stopped.is_set():
            spawner.begin_again()
            raise Outdated
        return lines

    def _end_workers(self) -> None:
        self._open.close()
        self._spawner = None

    def _wanted(self) -> dict[str, str | float]:
        """What results must have in common with the attempts to be compared with them."""
        options = self.options
        return {
            "operator": self.operator,
            "device": self.device,
            "suite": options.suite,
            "scale": options.scale,
            "method": options.plan.methods[0],
        }

    def _comparable(self, lines: Sequence[ShapeResult]) -> list[ShapeResult]:
        """Lines of this operator, device, suite, scale and method."""
        wanted = self._wanted().items()
        fitting = [
            line
            for line in latest(lines)
            if all(getattr(line, what) == value for what, value in wanted)
        ]
        return restate(fitting) if self.options.scale == 1 else fitting

    def _why_unused(self, lines: Sequence[ShapeResult]) -> str | None:
        """What none of these lines has, though they were given to be compared with."""
        for what, value in self._wanted().items() if lines else ():
            fitting = [line for line in lines if getattr(line, what) == value]
            if not fitting:
                there = ", ".join(sorted({str(getattr(line, what)) for line in lines}))
                of = f"{what} {value} (available: {there})"
                return f"the results given are not used: none is of {of}"
            lines = fitting
        return None

    def _noted(self, name: str, lines: Sequence[ShapeResult]) -> Tuning:
        best = {line.shape: line for line in best_per_shape(self.earlier, self.operator)}
        before = {line.shape: line for line in self._passed}
        shapes = [_shape(line, best.get(line.shape), before.get(line.shape)) for line in lines]
        attempt = self._attempt(lines, shapes)
        self.attempts = [attempt, *self.attempts][:MOST_ATTEMPTS]
        if attempt.status == "passed":
            self._passed, self._passed_number = list(lines), attempt.number
        return Tuning(
            operator=self.operator,
            solution=name,
            device=self.device,
            method=self.options.plan.methods[0],
            suite=self.options.suite,
            scale=self.options.scale,
            covered_weight=sum(line.weight for line in lines),
            shapes=shapes,
            attempts=self.attempts,
            notes=self._notes(lines, best),
        )

    def _attempt(self, lines: Sequence[ShapeResult], shapes: Sequence[TunedShape]) -> Attempt:
        wrong = next((line for line in lines if line.status != "passed"), None)
        timed = [] if wrong else [line for line in lines if line.median_us]
        calls = call_counts(timed)
        spent = sum(n * (line.median_us or 0.0) for n, line in zip(calls, timed, strict=True))
        bounds = [line.bound_us for line in timed]
        least = sum(n * (bound or 0.0) for n, bound in zip(calls, bounds, strict=True))
        change = None if wrong else _change(shapes)
        return Attempt(
            number=self.number,
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            solution_hash=lines[0].solution_hash if lines else "",
            status=wrong.status if wrong else "passed",
            reason=None if wrong is None else f"shape {wrong.shape}: {wrong.reason}",
            s=least / spent if spent and None not in bounds else None,
            mean_us=spent / sum(calls) if spent else None,
            change=change,
            against=None if change is None else self._passed_number,
        )

    def _notes(self, lines: Sequence[ShapeResult], best: dict[str, ShapeResult]) -> list[str]:
        options = self.options
        notes = []
        if options.device == "cpu":
            notes.append("times of one CPU thread: they say nothing about a GPU")
        reason = next((line.bound_reason for line in lines if line.bound_us is None), None)
        if reason:
            notes.append(f"no bound: {reason}")
        if options.scale != 1:
            notes.append(SCALED)
        if self._unused:
            notes.append(self._unused)
        elif not best:
            notes.append(f"no result of {self.device} to compare with: name files with --results")
        cases = f"{options.rounds} draw{'s' * (options.rounds > 1)} and {options.extra} extra cases"
        timed_in = f"{options.restarts} process{'es' * (options.restarts > 1)}"
        notes.append(f"quick check: {cases}, {timed_in}; bench run checks more")
        return notes


@contextmanager
def _stopped_when(outdated: Callable[[], bool], spawner: Spawner) -> Iterator[threading.Event]:
    """Ask `outdated` from another thread; when it says so, end all workers and set the event."""
    over, stopped = threading.Event(), threading.Event()

    def ask() -> None:
        while not over.wait(POLL_S):
            if outdated():
                stopped.set()
                spawner.stop()
                return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield stopped
    finally:
        over.set()
        asking.join()


def _shape(line: ShapeResult, best: ShapeResult | None, before: ShapeResult | None) -> TunedShape:
    median_us = line.median_us if line.status == "passed" else None
    best_us = None if best is None else best.median_us
    contrast = None if before is None else contrast_lines(before, line)
    return TunedShape(
        shape=line.shape,
        weight=line.weight,
        status=line.status,
        reason=line.reason,
        median_us=median_us,
        bound_us=line.bound_us,
        s=line.s if median_us else None,
        best_us=best_us,
        best_by=None if best is None else best.solution,
        of_best=median_us / best_us if median_us and best_us else None,
        of_last=None if contrast is None else contrast.ratio,
        change=None if contrast is None else contrast.verdict,
    )


def _change(shapes: Sequence[TunedShape]) -> Change | None:
    """What changed over all shapes: `mixed` where some are faster and some slower."""
    count = Counter(shape.change for shape in shapes if shape.change)
    if not count:
        return None
    if count["faster"] and count["slower"]:
        return "mixed"
    return next((name for name in ("faster", "slower") if count[name]), "cannot tell")
