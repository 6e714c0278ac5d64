"""A solution of one operator in a worker that is replaced when it dies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solscope.bench.catalog import Solution
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.process import Spawner, Worker, WorkerFailed
from solscope.operators.task import Task

LEAVE_S = 5.0


def returned(task: Task) -> list[str]:
    """Names of the outputs that a solution returns."""
    return [name for name in task.outputs if name not in task.mutates]


@dataclass(frozen=True)
class Candidate:
    """A solution for one operator, copied to where a worker may read it."""

    solution: Solution
    operator: str
    task: Task = field(repr=False)
    path: Path
    hash: str

    @property
    def name(self) -> str:
        return self.solution.name

    @property
    def key(self) -> str:
        """Distinguishes candidates of one operator, even with equal contents."""
        return f"{self.solution.name} {self.hash}"


@dataclass
class Seat:
    """A candidate, its worker, and the memory that both sides share."""

    spawner: Spawner
    candidate: Candidate
    arenas: Mapping[str, Arena]
    share: float | None = None
    """Most GPU memory that the worker may take, as a share of all."""
    _worker: Worker | None = None

    def ask(self, do: str, *, slow: bool = False, **fields: Any) -> dict[str, Any]:
        """Ask the worker, started and loaded where needed; WorkerFailed when it fails."""
        self.post(do, **fields)
        return self.answer(slow=slow)

    def post(self, do: str, **fields: Any) -> None:
        """Send a request without waiting."""
        worker = self.worker()
        self._sync()
        worker.post(do, **fields)

    def answer(self, *, slow: bool = False) -> dict[str, Any]:
        """The reply to what was posted."""
        limits = self.spawner.limits
        return self.worker().answer(limits.first_s if slow else limits.timeout_s)

    def worker(self) -> Worker:
        """The live worker, with the solution loaded and the present memory mapped."""
        if self._worker is None or not self._worker.alive:
            self._worker = self.spawner.take()
            try:
                self._open(self._worker)
                self._load(self._worker)
            except WorkerFailed:
                self.close()
                raise
        elif self._stale(self._worker):
            self._open(self._worker)
        return self._worker

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
        worker.ask("open", limit, arenas=handles, device=device, share=self.share)
        worker.opened.update({name: arena.generation for name, arena in stale.items()})

    def _load(self, worker: Worker) -> None:
        candidate = self.candidate
        worker.ask(
            "load",
            self.spawner.limits.first_s,
            path=str(candidate.path),
            outputs=returned(candidate.task),
            unplanned=list(candidate.task.unplanned),
            **candidate.solution.load_options(candidate.operator),
        )

    def _sync(self) -> None:
        """What the evaluator wrote must be there before a worker reads it."""
        if self.arenas["inputs"].device != "cpu":
            import torch

            torch.cuda.synchronize()

    def tidy(self, do: str) -> None:
        """Ask a worker that lives to clean up; one that cannot is ended."""
        if self._worker is not None and self._worker.alive:
            try:
                self._worker.ask(do, self.spawner.limits.timeout_s)
            except WorkerFailed:
                self.close()

    def close(self) -> None:
        """End the worker, after it let go of the shared memory: else that could not be freed."""
        close([self])


def ask_all(
    seats: Sequence[Seat], do: str, fields: dict[str, Any]
) -> list[tuple[Seat, dict[str, Any] | WorkerFailed]]:
    """Ask all seats at the same time; what each replied, or how it failed."""
    found: list[tuple[Seat, dict[str, Any] | WorkerFailed]] = []
    asked = []
    for seat in seats:
        try:
            seat.post(do, **fields)
            asked.append(seat)
        except WorkerFailed as failed:
            found.append((seat, failed))
    for seat in asked:
        try:
            found.append((seat, seat.answer(slow=True)))
        except WorkerFailed as failed:
            found.append((seat, failed))
    return found


def leave(seats: Sequence[Seat]) -> list[Worker]:
    """Let all live workers free their memory at the same time; returns those still alive."""
    leaving = [seat._worker for seat in seats if seat._worker is not None and seat._worker.alive]
    for worker in leaving:
        with contextlib.suppress(WorkerFailed):
            worker.post("leave")
    end = time.monotonic() + LEAVE_S
    for worker in leaving:
        if worker.alive:
            with contextlib.suppress(WorkerFailed):
                worker.answer(max(0.0, end - time.monotonic()))
    return [worker for worker in leaving if worker.alive]


def close(seats: Sequence[Seat]) -> None:
    """End the workers of all seats, at the same time."""
    for worker in leave(seats):
        worker.dismiss()
    for seat in seats:
        seat._worker = None
