"""This machine: worker processes, or this process itself for one worker.

Each worker has its own pipe and shares nothing with the others, no queue and no lock. So when
one dies, whatever it was doing, the others continue, it is known which file it was reading, and
a new one takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from solscope.corpus.ingest.engines.base import (
    AHEAD,
    ATTEMPTS,
    NO_LIMITS,
    Limits,
    died,
    overdue,
)
from solscope.corpus.ingest.task import Outcome, Task, process
from solscope.spawning import without_main

THREADS = "POLARS_MAX_THREADS"
MOST_FILES = 200
"""Files after which a worker is replaced, so that nothing it keeps can grow for ever."""
CHECK_S = 0.2
"""How often it is looked for files that take too long."""
PATIENCE_S = 5.0
"""How long workers get to end by themselves."""

Work = Callable[[Task, frozenset[str]], Outcome]


class LocalEngine:
    """Processes on this machine."""

    name = "local"
    summary = "processes on this machine, one per core"

    def __init__(self, workers: int, work: Work = process, limits: Limits = NO_LIMITS) -> None:
        self.workers = workers
        self.work = work
        self.limits = limits

    def run(self, tasks: Iterable[Task], stored_ids: frozenset[str]) -> Iterator[Outcome]:
        """Outcomes as they finish; with one worker, in this process and in order."""
        if self.workers == 1 and self.limits == NO_LIMITS:
            yield from (self.work(task, stored_ids) for task in tasks)
            return
        pool = _Pool(self.workers, self.work, stored_ids, iter(tasks), self.limits)
        try:
            yield from pool.outcomes()
        finally:
            pool.end()


@dataclass
class _Worker:
    """One process, and the files it was given: the first of them is at work."""

    process: BaseProcess
    connection: Connection
    tasks: deque[Task] = field(default_factory=deque)
    taken: int = 0
    since: float = 0.0
    """When it began with the first of them."""

    def may_take(self, waiting: int) -> bool:
        """Whether it holds no more than so many files and has not done enough."""
        return len(self.tasks) <= waiting and self.taken < MOST_FILES


class _Pool:
    """The workers of one run."""

    def __init__(
        self,
        size: int,
        work: Work,
        stored_ids: frozenset[str],
        tasks: Iterator[Task],
        limits: Limits,
    ) -> None:
        self.size, self.work, self.stored_ids, self.tasks = size, work, stored_ids, tasks
        self.limits = limits
        self.workers: list[_Worker] = []
        self.again: deque[Task] = deque()
        self.deaths: Counter[str] = Counter()

    def outcomes(self) -> Iterator[Outcome]:
        while self._dispatch():
            busy = {w.connection: w for w in self.workers if w.tasks}
            for connection in wait(list(busy), self.limits.seconds and CHECK_S):
                worker = busy[connection]  # type: ignore[index]
                try:
                    outcome = worker.connection.recv()
                except (EOFError, OSError):
                    yield from self._requeue(worker)
                    continue
                worker.tasks.popleft()
                worker.since = time.monotonic()
                yield outcome
            yield from self._stop_overdue()

    def _stop_overdue(self) -> Iterator[Outcome]:
        """End workers whose file takes too long."""
        if self.limits.seconds is None:
            return
        now = time.monotonic()
        for worker in [w for w in self.workers if w.tasks]:
            if now - worker.since > self.limits.seconds and not worker.connection.poll():
                self.workers.remove(worker)
                worker.process.kill()
                worker.process.join()
                worker.connection.close()
                yield overdue(worker.tasks.popleft(), self.limits.seconds)
                self.again.extendleft(reversed(worker.tasks))

    def _dispatch(self) -> bool:
        """Give every worker as much as it may hold; false when there is nothing to wait for."""
        self._stop_finished()
        for waiting in range(AHEAD):
            for place in range(self.size):
                if place < len(self.workers) and not self.workers[place].may_take(waiting):
                    continue
                task = self._next()
                if task is None:
                    break
                if place >= len(self.workers):
                    self.workers.append(self._start())
                self._send(self.workers[place], task)
        return any(worker.tasks for worker in self.workers)

    def _send(self, worker: _Worker, task: Task) -> None:
        if not worker.tasks:
            worker.since = time.monotonic()
        worker.tasks.append(task)
        worker.taken += 1
        try:
            # A task is small, and a worker holds few: this never waits for a worker to read it.
            worker.connection.send(task)
        except OSError:
            return  # It has died; the wait for its outcome will show it.

    def _next(self) -> Task | None:
        return self.again.popleft() if self.again else next(self.tasks, None)

    def _start(self) -> _Worker:
        # Polars has its own threads, which a forked process would not have.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        made = context.Process(
            target=_serve, args=(theirs, self.work, self.stored_ids, self.limits), daemon=True
        )
        with _one_thread_each(), without_main():
            made.start()
        theirs.close()
        return _Worker(made, ours)

    def _stop_finished(self) -> None:
        """End workers that have done enough."""
        done = [w for w in self.workers if not w.tasks and w.taken >= MOST_FILES]
        for worker in done:
            self.workers.remove(worker)
            worker.connection.close()
            worker.process.join()

    def _requeue(self, worker: _Worker) -> Iterator[Outcome]:
        """A worker has died: its file is tried again, unless it ends every worker."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join()
        guilty = worker.tasks.popleft()
        self.deaths[guilty.item.path] += 1
        if self.deaths[guilty.item.path] >= ATTEMPTS:
            yield died(guilty)
        else:
            self.again.append(guilty)
        self.again.extendleft(reversed(worker.tasks))

    def end(self) -> None:
        """Let workers end, and end those that do not."""
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            worker.process.join(0 if worker.tasks else PATIENCE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Workers that each use one core, so that all together use as many as there are."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(THREADS, None)
        else:
            os.environ[THREADS] = before


def _serve(connection: Connection, work: Work, stored_ids: frozenset[str], limits: Limits) -> None:
    """What a worker does: files in, outcomes out, until nobody listens."""
    if limits.memory_bytes is not None and sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes,) * 2)
    # Ctrl-C ends the command, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            connection.send(work(connection.recv(), stored_ids))
    except (EOFError, OSError):
        return
