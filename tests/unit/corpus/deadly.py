"""A worker's function for tests: it ends its process, as a crash would, on files called poison."""

from __future__ import annotations

import os

from solscope.corpus.work import Outcome, Task, process


def work(task: Task) -> Outcome:
    """Like the real one, but for its death."""
    if "poison" in task.item.path:
        os._exit(9)
    return process(task, frozenset())
