"""Workers' functions for tests: they end their process, as a crash would, on some files."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from solscope.corpus.ingest.task import Outcome, Task, process


def on_poison(task: Task, known: frozenset[str]) -> Outcome:
    """Dies on every file called poison."""
    if "poison" in task.item.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return process(task, known)


def once(task: Task, known: frozenset[str]) -> Outcome:
    """Dies the first time that it sees a file with `.first` beside it."""
    mark = Path(task.item.path + ".first")
    if mark.exists():
        mark.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return process(task, known)


def name_process(task: Task, known: frozenset[str]) -> Outcome:
    """Only says which process was asked."""
    return Outcome(task.item.path, reason=str(os.getpid()))
