"""Rows that change between timed calls, unannounced: an answer that is remembered is wrong then.

A row of every input is written over by another one while the worker is stopped, at the same
addresses and without a new `setup`. The calls after that are judged against references of what is
there then, at the rows that changed among others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from solscope.bench.base import SETS
from solscope.bench.pool.inputs import Repeated
from solscope.bench.run import reference
from solscope.bench.run.reference import Wanted
from solscope.bench.run.timing import MAX_REFERENCES_S, Trial, reference_clock
from solscope.bench.worker.messages import RestoreInputs

MAX_CHANGED_S = 1.0
"""Shapes whose first reference takes longer keep their rows: another one would take as long."""


def change_rows(trial: Trial) -> bool:
    """Change a row of the inputs of every set; false where nothing could be checked then.

    Inputs that are updated in place stay, which the worker restores from what it saved, and so do
    weights that the solution packed.
    """
    if trial.reference_s > MAX_CHANGED_S:
        return False
    slot, sets, task = trial.slot, trial.sets, trial.task
    if task.mutates:
        slot.ask(RestoreInputs())
    skipped = {*task.mutates, *slot.shown}
    with slot.paused():
        changes = [sets.changes(index, skipped, inner=False) for index in range(SETS)]
        if not all(changes):
            return False
        clock = reference_clock(slot.arenas["inputs"].device)
        start = clock()
        for number, index in enumerate(secrets.SystemRandom().sample(range(SETS), SETS)):
            sets.repeat_rows(index, changes[index])
            late = number > 0 and clock() - start > MAX_REFERENCES_S
            trial.references[index] = None if late else _wanted(trial, index, changes[index])
        sets.let_go()
    return True


def _wanted(trial: Trial, index: int, changes: Sequence[Repeated]) -> Wanted:
    """The reference of a set as it is now, where rows can be had at those that changed."""

    def rows(total: int) -> list[int]:
        changed = {change.to for change in changes if change.dim == 0 and change.to < total}
        return sorted({*reference.draw_rows(total), *changed})

    return reference.wanted(trial.task, trial.sets.source(index), rows)
