"""This machine: a pool of processes, or this process itself for one worker.

When a worker dies, the pool is gone, and it is not known which of the files at work was the reason.
So each of them is tried again alone, in a pool of one, before the rest goes on.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import NamedTuple

from solscope.corpus.engines.base import AHEAD, ATTEMPTS, died
from solscope.corpus.work import Outcome, Task, process

THREADS = "POLARS_MAX_THREADS"
_known: frozenset[str] = frozenset()


class _Broken(NamedTuple):
    """Tasks that were at work when a worker died."""

    tasks: list[Task]


class LocalEngine:
    """A pool of processes on this machine."""

    name = "local"
    summary = "processes on this machine, one per core"

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, tasks: Iterable[Task], known: frozenset[str]) -> Iterator[Outcome]:
        """Outcomes as they finish; with one worker, in this process and in order."""
        if self.workers == 1:
            yield from (process(task, known) for task in tasks)
            return
        rest = iter(tasks)
        while True:
            suspects: list[Task] = []
            for result in _pool(rest, known, self.workers, AHEAD):
                if isinstance(result, _Broken):
                    suspects = result.tasks
                else:
                    yield result
            if not suspects:
                return
            yield from _one_by_one(suspects, known)


def _pool(
    rest: Iterator[Task], known: frozenset[str], workers: int, ahead: int
) -> Iterator[Outcome | _Broken]:
    """Outcomes until all tasks are done or a worker dies."""
    with _one_thread_each(), _executor(workers, known) as pool:
        running: dict[Future[Outcome], Task] = {}
        lost: list[Task] = []
        while True:
            for task in itertools.islice(rest, 0 if lost else workers * ahead - len(running)):
                try:
                    running[pool.submit(_work, task)] = task
                except BrokenProcessPool:
                    lost.append(task)
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    lost.append(task)
    if lost:
        yield _Broken(lost)


def _one_by_one(suspects: list[Task], known: frozenset[str]) -> Iterator[Outcome]:
    """Files that were at work when a worker died, one at a time: so the guilty one is known."""
    waiting = list(suspects)
    deaths = 1
    while waiting:
        for result in _pool(iter(list(waiting)), known, 1, 1):
            if isinstance(result, Outcome):
                waiting.pop(0)
                deaths = 1
                yield result
            else:
                deaths += 1
        if waiting and deaths >= ATTEMPTS:
            yield died(waiting.pop(0))
            deaths = 1


def _executor(workers: int, known: frozenset[str]) -> ProcessPoolExecutor:
    # Polars has threads of its own, which a forked process would lack.
    return ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_start, initargs=(known,)
    )


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


def _start(known: frozenset[str]) -> None:
    global _known  # Sent once per worker instead of once per file.
    _known = known


def _work(task: Task) -> Outcome:
    return process(task, _known)
