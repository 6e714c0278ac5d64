"""Whether timed calls were right: what they returned, asked for after they are over.

One call of each set, drawn at random, is compared to the reference: whole, or at rows that the
worker did not know. Every other call must have returned the same bytes at such rows; one that did
not is compared to the reference itself. Of tensors that are updated in place the last call of each
set is judged; other calls where they were copied before they were put back.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.slot import Seat
from solscope.bench.run import check, reference
from solscope.bench.run.check import Part, Verdict
from solscope.bench.run.reference import Wanted
from solscope.operators.task import Task

if TYPE_CHECKING:
    import torch

Described = Sequence[Sequence[Mapping[str, Any]]]


def check_calls(
    seat: Seat,
    sets: InputSets,
    right: Sequence[Wanted | None],
    described: Described,
    order: Sequence[int],
    verdict: Verdict,
) -> None:
    """Judge the calls that a worker keeps; `order` gives the set of each."""
    task = seat.candidate.task
    if len(described) != len(order):
        verdict.fail("cheating", "the reply does not cover every call")
    for call, index in enumerate(order):
        wanted = right[index]
        if wanted is not None and verdict.ok:
            check.check_shapes(task, described[call], wanted, verdict)
    for index, wanted in enumerate(right):
        calls = [call for call, of in enumerate(order) if of == index]
        if wanted is not None and calls and verdict.ok:
            _check_set(seat, sets, index, wanted, described, calls, verdict)


def _check_set(
    seat: Seat,
    sets: InputSets,
    index: int,
    wanted: Wanted,
    described: Described,
    calls: list[int],
    verdict: Verdict,
) -> None:
    task = seat.candidate.task
    chosen = calls[-1] if task.mutates else secrets.choice(calls)
    names = [facts["name"] for facts in described[chosen]]
    known = [name for name in names if name in wanted.outputs]
    rows = {facts["name"]: _rows(wanted, facts) for facts in described[chosen]}
    copies = {call: _copies(task, wanted, described[call]) for call in calls}
    parts: list[Part] = [(chosen, name, wanted.rows) for name in known]
    parts += [(call, name, rows[name]) for call in calls for name in names]
    parts += [(call, name, wanted.rows) for call in calls for name in copies[call]]
    limit = seat.spawner.limits.timeout_s
    got = iter(check.fetch(seat.worker, seat.arenas["outputs"], described, parts, limit))
    first = {name: next(got) for name in known}
    by_call = {call: [next(got) for _ in names] for call in calls}
    updated = {call: {name: next(got) for name in copies[call]} for call in calls}
    views = sets.tensors(index)
    for name in (name for name in task.mutates if name in wanted.outputs):
        # as the last call left it
        first[name] = views[name] if wanted.rows is None else views[name][wanted.rows]
    check.compare(task, first, wanted, verdict)
    others = [call for call in calls if call != chosen and (names or copies[call])]
    differing = [
        call
        for call in others
        if not all(map(_same, by_call[call], by_call[chosen]))
        or not all(_same(one, first[name]) for name, one in updated[call].items())
    ]
    verdict.calls += len(others) - len(differing)
    for call in differing:  # each overwrites what was fetched before
        if verdict.ok:
            _judge_again(seat, known + copies[call], wanted, described, call, verdict)


def _copies(task: Task, wanted: Wanted, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Updated tensors of a call that were copied and that there is a reference for."""
    return [
        one["name"]
        for one in facts
        if one["name"] in task.mutates and one["name"] in wanted.outputs
    ]


def _rows(wanted: Wanted, facts: Mapping[str, Any]) -> list[int] | None:
    """Rows at which all calls are compared; null for an output without rows."""
    if wanted.rows is not None and facts["name"] in wanted.outputs:
        return wanted.rows
    shape = facts["shape"]
    return reference.draw_rows(shape[0]) if shape and shape[0] else None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    return bool((one.reshape(-1).view(torch.uint8) == other.reshape(-1).view(torch.uint8)).all())


def _judge_again(
    seat: Seat,
    names: list[str],
    wanted: Wanted,
    described: Described,
    call: int,
    verdict: Verdict,
) -> None:
    """Compare a call that differs in bytes to the reference itself."""
    task = seat.candidate.task
    limit = seat.spawner.limits.timeout_s
    parts: list[Part] = [(call, name, wanted.rows) for name in names]
    got = check.fetch(seat.worker, seat.arenas["outputs"], described, parts, limit)
    check.compare(task, dict(zip(names, got, strict=True)), wanted, verdict)
