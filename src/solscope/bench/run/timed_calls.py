"""Whether timed calls were right: what they returned, asked for after they are over.

One call of each set, drawn at random, is compared to the reference: whole, or at rows that the
worker did not know. Every other call must have returned the same bytes at such rows; one that did
not is compared to the reference itself. Of tensors that are updated in place the last call of each
set is judged; other calls where they were copied when their clock stopped.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solscope.bench.run import check, reference
from solscope.bench.run.check import Excerpt
from solscope.bench.run.reference import Wanted
from solscope.bench.run.timing import Trial
from solscope.bench.worker.messages import OutputFacts
from solscope.operators.task import Task

if TYPE_CHECKING:
    import torch

Described = Sequence[Sequence[OutputFacts]]
"""The outputs of each call."""


@dataclass(frozen=True)
class _SetCalls:
    """The calls on one set, and what is compared of them."""

    calls: list[int]
    judged: int
    """The call whose outputs are compared to the reference; the others to it."""
    names: list[str]
    """Outputs that it returned."""
    referenced: list[str]
    """Those of them that the reference has."""
    rows: dict[str, list[int] | None]
    """At which rows of each output calls are compared with each other; null for all."""
    copied: dict[int, list[str]]
    """Updated inputs of each call that were copied when its clock stopped."""


def check_calls(trial: Trial, described: Described, order: Sequence[int]) -> None:
    """Judge the calls that a worker keeps; `order` gives the set of each."""
    verdict = trial.measured.verdict
    if len(described) != len(order):
        verdict.fail("cheating", "the reply does not cover every call")
    for call, index in enumerate(order):
        wanted = trial.references[index]
        if wanted is not None and verdict.ok:
            check.check_shapes(trial.task, described[call], wanted, verdict)
    for index, wanted in enumerate(trial.references):
        calls = [call for call, of in enumerate(order) if of == index]
        if wanted is not None and calls and verdict.ok:
            _check_set(trial, index, wanted, described, calls)
            trial.checked.add(index)
    if verdict.status == "wrong_numbers" and _are_all_the_same(trial, described, order):
        why = "calls on other inputs returned the same, as one buffer does: return new tensors"
        verdict.fail_too("wrong_numbers", why)


def _are_all_the_same(trial: Trial, described: Described, order: Sequence[int]) -> bool:
    """Whether calls on two sets of inputs left the same bytes, in all outputs that have rows."""
    calls = [order.index(index) for index in sorted(set(order))[:2]]
    returned = [facts for facts in described[calls[0]] if facts.name not in trial.task.mutates]
    rows = {facts.name: reference.draw_rows(facts.shape[0]) for facts in returned if facts.shape}
    if len(calls) < 2 or not any(rows.values()):
        return False
    excerpts: list[Excerpt] = [(call, name, rows[name]) for call in calls for name in rows]
    tensors = _fetch(trial, described, excerpts)
    half = len(rows)
    return all(_same(*pair) for pair in zip(tensors[:half], tensors[half:], strict=True))


def _check_set(
    trial: Trial, index: int, wanted: Wanted, described: Described, calls: list[int]
) -> None:
    """Judge one call on a set, and hold the others against it, byte by byte.

    Example, with calls 0, 3 and 6 on this set and 3 drawn: all of 3 is compared to the reference;
    64 rows of 0 and 6 must equal those of 3. Where they do not, as with sums in another order, that
    call is compared to the reference as well.
    """
    task, verdict = trial.task, trial.measured.verdict
    chosen = _choose(task, wanted, described, calls)
    first, at_rows, updated = _fetch_set(trial, wanted, described, chosen)
    views = trial.updated.get(index) or trial.sets.tensors(index)
    for name in (name for name in task.mutates if name in wanted.outputs):
        left = wanted.at_rows(views[name])
        first[name] = updated[chosen.judged].get(name, left)  # as the last call left it
    check.compare(task, first, wanted, verdict)

    def differs(call: int) -> bool:
        pairs = zip(at_rows[call], at_rows[chosen.judged], strict=True)
        if not all(_same(output, judged) for output, judged in pairs):
            return True
        return not all(_same(copy, first[name]) for name, copy in updated[call].items())

    comparable = [call for call in calls if chosen.names or chosen.copied[call]]
    others = [call for call in comparable if call != chosen.judged]
    differing = [call for call in others if differs(call)]
    verdict.calls += len(others) - len(differing)
    for call in differing:  # each overwrites what was fetched before
        if verdict.ok:
            _judge_again(trial, chosen.referenced + chosen.copied[call], wanted, described, call)


def _choose(task: Task, wanted: Wanted, described: Described, calls: list[int]) -> _SetCalls:
    """Draw the call to judge. Of updated inputs only the last call's can still be seen."""
    judged = calls[-1] if task.mutates else secrets.choice(calls)
    returned = [facts for facts in described[judged] if facts.name not in task.mutates]
    return _SetCalls(
        calls,
        judged,
        names=[facts.name for facts in returned],
        referenced=[facts.name for facts in returned if facts.name in wanted.outputs],
        rows={facts.name: _rows(wanted, facts) for facts in returned},
        copied={call: _copied(task, wanted, described[call]) for call in calls},
    )


def _fetch_set(
    trial: Trial, wanted: Wanted, described: Described, chosen: _SetCalls
) -> tuple[
    dict[str, torch.Tensor], dict[int, list[torch.Tensor]], dict[int, dict[str, torch.Tensor]]
]:
    """Outputs of the judged call by name; rows of each call; copied updates of each call.

    One request for all three, because each would overwrite the memory of the one before.
    """
    whole: list[Excerpt] = [(chosen.judged, name, wanted.rows) for name in chosen.referenced]
    rows: list[Excerpt] = [
        (call, name, chosen.rows[name]) for call in chosen.calls for name in chosen.names
    ]
    copies: list[Excerpt] = [
        (call, name, wanted.rows) for call in chosen.calls for name in chosen.copied[call]
    ]
    excerpts = whole + rows + copies
    tensors = _fetch(trial, described, excerpts)
    first = dict(zip(chosen.referenced, tensors[: len(whole)], strict=True))
    at_rows: dict[int, list[torch.Tensor]] = {call: [] for call in chosen.calls}
    for (call, _, _), tensor in zip(rows, tensors[len(whole) :], strict=False):
        at_rows[call].append(tensor)
    updated: dict[int, dict[str, torch.Tensor]] = {call: {} for call in chosen.calls}
    for (call, name, _), tensor in zip(copies, tensors[len(whole) + len(rows) :], strict=True):
        updated[call][name] = tensor
    return first, at_rows, updated


def _fetch(trial: Trial, described: Described, excerpts: Sequence[Excerpt]) -> list[torch.Tensor]:
    slot = trial.slot
    limit = slot.spawner.limits.timeout_s
    return check.fetch(slot.worker, slot.arenas["outputs"], described, excerpts, limit)


def _copied(task: Task, wanted: Wanted, described: Sequence[OutputFacts]) -> list[str]:
    """Updated tensors of a call that were copied and that there is a reference for."""
    names = [facts.name for facts in described]
    return [name for name in names if name in task.mutates and name in wanted.outputs]


def _rows(wanted: Wanted, facts: OutputFacts) -> list[int] | None:
    """Rows at which all calls are compared; null for an output without rows."""
    if wanted.rows is not None and facts.name in wanted.outputs:
        return wanted.rows
    shape = facts.shape
    return reference.draw_rows(shape[0]) if shape and shape[0] else None


def _same(output: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal byte by byte, NaN included."""
    import torch

    flat = output.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)
    return bool((flat[0] == flat[1]).all())


def _judge_again(
    trial: Trial, names: list[str], wanted: Wanted, described: Described, call: int
) -> None:
    """Compare a call that differs in bytes to the reference itself."""
    excerpts: list[Excerpt] = [(call, name, wanted.rows) for name in names]
    outputs = dict(zip(names, _fetch(trial, described, excerpts), strict=True))
    check.compare(trial.task, outputs, wanted, trial.measured.verdict)
