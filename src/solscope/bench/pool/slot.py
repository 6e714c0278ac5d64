"""A solution of one operator in a worker that is replaced when it dies."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from solscope.bench.catalog import Solution, Staged
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.process import Worker, WorkerFailed
from solscope.bench.pool.spawner import Spawner
from solscope.bench.worker.messages import (
    CallSets,
    Loaded,
    LoadSolution,
    OpenArenas,
    R,
    ReleaseAll,
    Request,
)
from solscope.operators.task import Task

ROUND_TRIPS = 9
"""Empty requests that are timed."""
RELEASE_TIMEOUT_S = 5.0
"""Workers that do not let go of the shared memory by then are ended without."""


def returned(task: Task) -> list[str]:
    """Names of the outputs that a solution returns."""
    return [name for name in task.outputs if name not in task.mutates]


@dataclass(frozen=True)
class Candidate:
    """A solution for one operator, copied to where a worker may read it."""

    solution: Solution
    operator: str
    task: Task = field(repr=False)
    staged: Staged

    @property
    def hash(self) -> str:
        return self.staged.digest

    @property
    def name(self) -> str:
        return self.solution.name

    @property
    def key(self) -> str:
        """Distinguishes candidates of one operator, even with equal contents."""
        return f"{self.solution.name} {self.hash}"


@dataclass
class WorkerSlot:
    """A candidate, its worker, and the memory that both sides share."""

    spawner: Spawner
    candidate: Candidate
    arenas: Mapping[str, Arena]
    share: float | None = None
    """Most GPU memory that the worker may take, as a share of all."""
    compiler_cache: Path | None = None
    """Where torch.compile keeps what it makes, if not in its usual place."""
    _worker: Worker | None = None
    loaded: Loaded = field(default_factory=Loaded)
    """What the solution has beside `run`."""
    round_trip_us: float = math.inf
    """What an empty request took before the solution was there; infinite where nobody asks."""

    @property
    def shown(self) -> tuple[str, ...]:
        """Inputs whose values the solution may see before it is timed: weights, to pack them."""
        return self.candidate.task.weights if self.loaded.prepare else ()

    @property
    def alive(self) -> bool:
        """Whether the worker lives that was asked last."""
        return self._living is not None

    @property
    def _living(self) -> Worker | None:
        return self._worker if self._worker is not None and self._worker.alive else None

    def pause(self) -> None:
        """Stop the worker, all of its threads: what is written meanwhile it cannot watch."""
        if worker := self._living:
            worker.stop()

    def resume(self) -> None:
        """Let a paused worker go on."""
        if worker := self._living:
            worker.go_on()

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        """Let a paused worker go on for as long as it is asked."""
        self.resume()
        try:
            yield
        finally:
            self.pause()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Write to memory that the worker shares while it cannot watch."""
        self.pause()
        if (worker := self._living) and worker.watches_stops():
            worker.kill()
            raise WorkerFailed("cheating", "has itself told when it was stopped", dead=True)
        try:
            yield
            self._sync()
        finally:
            self.resume()

    def cpu_s(self) -> float:
        """Processor time that the worker has taken so far: all threads, and all that it started."""
        return self.worker().cpu_s()

    def ask(self, request: Request[R], *, slow: bool = False) -> R:
        """Ask the worker, started and loaded where needed; WorkerFailed when it fails."""
        self.post(request)
        return self.answer(request, slow=slow)

    def post(self, request: Request[R]) -> None:
        """Send a request without waiting."""
        worker = self.worker()
        self._sync()
        worker.post(request)

    def answer(self, request: Request[R], *, slow: bool = False) -> R:
        """The reply to a request that was posted."""
        limits = self.spawner.limits
        return self.worker().answer(request, limits.first_s if slow else limits.timeout_s)

    def worker(self) -> Worker:
        """The live worker, with the solution loaded and the present memory mapped."""
        if self._worker is None or not self.alive:
            self._worker = self.spawner.take()
            try:
                self._open(self._worker)
                self.round_trip_us = self._round_trip_us(self._worker)
                self._load(self._worker)
            except WorkerFailed:
                self.close()
                raise
        elif self._stale(self._worker):
            self._open(self._worker)
        return self._worker

    def _round_trip_us(self, worker: Worker) -> float:
        if self.arenas["inputs"].device != "cpu":
            return math.inf
        times = []
        for _ in range(ROUND_TRIPS):
            start = time.perf_counter()
            worker.ask(CallSets([], keep=True), self.spawner.limits.timeout_s)
            times.append(1e6 * (time.perf_counter() - start))
        return min(times)

    def _stale(self, worker: Worker) -> dict[str, Arena]:
        return {
            name: arena
            for name, arena in self.arenas.items()
            if worker.opened.get(name) != arena.generation
        }

    def _open(self, worker: Worker) -> None:
        stale = self._stale(worker)
        handles = {name: arena.handle() for name, arena in stale.items()}
        device = self.arenas["inputs"].device
        limit = self.spawner.limits.timeout_s
        worker.ask(OpenArenas(handles, device, self.share), limit)
        worker.opened.update({name: arena.generation for name, arena in stale.items()})

    def _load(self, worker: Worker) -> None:
        candidate = self.candidate
        solution = candidate.solution
        candidate.staged.write()
        request = LoadSolution(
            path=str(candidate.staged.path),
            outputs=returned(candidate.task),
            updated=list(candidate.task.mutates),
            unplanned=list(candidate.task.unplanned),
            weights=list(candidate.task.weights),
            compiled=solution.about.compile,
            dynamic=None,
            build=str(solution.build_folder(candidate.operator)),
            compiler_cache=None if self.compiler_cache is None else str(self.compiler_cache),
        )
        self.loaded = worker.ask(request, self.spawner.limits.first_s)
        staged = candidate.staged
        if changed := [name for name in staged.changed() if name in staged.files]:
            # Workers are kept from it and accused of it, so nobody knows who it was.
            why = f"its files were changed while they were loaded: {', '.join(changed)}"
            raise WorkerFailed("unsupported", why, dead=False)

    def _sync(self) -> None:
        """What the evaluator wrote must be there before a worker reads it."""
        if self.arenas["inputs"].device != "cpu":
            import torch

            torch.cuda.synchronize()

    def clean_up(self, request: Request[R]) -> None:
        """Ask a worker that lives to clean up; one that cannot is ended."""
        if worker := self._living:
            try:
                worker.ask(request, self.spawner.limits.timeout_s)
            except WorkerFailed:
                self.close()

    def close(self) -> None:
        """End the worker, after it let go of the shared memory: else that could not be freed."""
        close([self])


def ask_all(
    slots: Sequence[WorkerSlot], request: Request[R]
) -> list[tuple[WorkerSlot, R | WorkerFailed]]:
    """Ask all slots at the same time; what each replied, or how it failed."""
    replies: list[tuple[WorkerSlot, R | WorkerFailed]] = []
    asked = []
    for slot in slots:
        try:
            slot.post(request)
            asked.append(slot)
        except WorkerFailed as failed:
            replies.append((slot, failed))
    for slot in asked:
        try:
            replies.append((slot, slot.answer(request, slow=True)))
        except WorkerFailed as failed:
            replies.append((slot, failed))
    return replies


def leave(slots: Sequence[WorkerSlot]) -> list[Worker]:
    """Let all live workers free their memory at the same time; returns those still alive.

    Not those that have yet to answer, as when a run is interrupted: they may hang.
    """
    leaving = [slot._worker for slot in slots if slot._worker is not None and slot._worker.alive]
    idle = [worker for worker in leaving if not worker.busy]
    for worker in idle:
        with contextlib.suppress(WorkerFailed):
            worker.post(ReleaseAll())
    end = time.monotonic() + RELEASE_TIMEOUT_S
    for worker in idle:
        if worker.alive:
            with contextlib.suppress(WorkerFailed):
                worker.answer(ReleaseAll(), max(0.0, end - time.monotonic()))
    return [worker for worker in leaving if worker.alive]


def close(slots: Sequence[WorkerSlot]) -> None:
    """End the workers of all slots, at the same time."""
    for worker in leave(slots):
        worker.dismiss()
    for slot in slots:
        slot._worker = None
