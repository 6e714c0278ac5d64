"""The contract of an engine: it runs `work.process` on every task, somewhere.

An engine yields outcomes as they finish, in any order, and holds only a few at a time, so that
memory does not grow with the number of files. A task whose worker dies is tried again, at most
`ATTEMPTS` times in all; then it has failed. All engines run the same function, so what they return
for a file is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from solscope.corpus.ingest.task import Outcome, Task

ATTEMPTS = 3
"""How often a file is tried before its reader is taken to be what ends the workers."""
AHEAD = 2
"""Tasks given out per worker: one at work, one waiting."""


class Limits(NamedTuple):
    """What reading one file may cost; beyond that, it has failed. Null: no limit."""

    seconds: float | None = None
    memory_bytes: int | None = None
    """Memory of its worker process, on Linux."""


NO_LIMITS = Limits()


class Engine(Protocol):
    """Runs tasks."""

    name: str
    """As in `--engine`."""
    summary: str
    """What it is, one line."""

    def run(self, tasks: Iterable[Task], stored_ids: frozenset[str]) -> Iterator[Outcome]:
        """Outcomes of all tasks, as they finish."""
        ...


def overdue(task: Task, seconds: float) -> Outcome:
    """The outcome of a file that takes too long."""
    path = task.item.path
    return Outcome(path, reason=f"{path}: not read within {seconds:g} s")


def died(task: Task) -> Outcome:
    """The outcome of a file that no worker survives."""
    path = task.item.path
    return Outcome(
        path,
        reason=f"{path}: its reader died {ATTEMPTS} times (out of memory, or a crash)",
    )
