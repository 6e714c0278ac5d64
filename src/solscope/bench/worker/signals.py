"""Signals to processes of a run, from the evaluator and from what starts workers."""

from __future__ import annotations

import contextlib
import os


def send(pid: int, number: int) -> None:
    """Send a signal to a process and its group: it leads none before it has its own session."""
    for to in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            to(pid, number)
