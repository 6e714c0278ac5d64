"""Whether timed calls were right: what they returned, asked for after they are over.

One call of each set, drawn at random, is compared to the reference: whole, or at rows that were
drawn after the calls. Every other call must have returned the same bytes at those rows; one that
did not is compared to the reference itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from solscope.bench import check
from solscope.bench.check import Part, Verdict, Wanted
from solscope.bench.inputs import InputSets
from solscope.bench.seat import Seat

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
    rows = {facts["name"]: _rows(wanted, facts["shape"]) for facts in described[chosen]}
    parts: list[Part] = [(chosen, name, wanted.rows) for name in names]
    parts += [(call, name, rows[name]) for call in calls for name in names]
    limit = seat.spawner.limits.timeout_s
    got = check.fetch(seat.worker, seat.arenas["outputs"], described, parts, limit)
    first = dict(zip(names, got, strict=False))
    views = sets.tensors(index)
    for name in task.mutates:  # as the last call left them
        first[name] = views[name] if wanted.rows is None else views[name][wanted.rows]
    check.compare(task, first, wanted, verdict)
    others = got[len(names) :]
    for number, call in enumerate(calls):
        at = number * len(names)
        own = dict(zip(names, others[at : at + len(names)], strict=True))
        model = dict(zip(names, others[_place(calls, chosen) * len(names) :], strict=False))
        if call == chosen or not verdict.ok:
            continue
        verdict.calls += 1
        if not all(_same(own[name], model[name]) for name in names):
            _judge_again(seat, own, wanted, rows, described, call, verdict)


def _place(calls: list[int], chosen: int) -> int:
    return calls.index(chosen)


def _rows(wanted: Wanted, shape: Sequence[int]) -> list[int] | None:
    """Rows at which all calls are compared; null for an output without rows."""
    if not shape or not shape[0]:
        return None
    return wanted.rows or check.draw_rows(shape[0])


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    return bool((one.reshape(-1).view(torch.uint8) == other.reshape(-1).view(torch.uint8)).all())


def _judge_again(
    seat: Seat,
    own: dict[str, Any],
    wanted: Wanted,
    rows: dict[str, list[int] | None],
    described: Described,
    call: int,
    verdict: Verdict,
) -> None:
    """Compare a call that differs in bytes: at rows, or whole where only that can be judged."""
    task = seat.candidate.task
    whole = any(task.outputs[name].compare is not None for name in own)
    if whole and wanted.rows is None:
        limit = seat.spawner.limits.timeout_s
        parts: list[Part] = [(call, name, None) for name in own]
        got = check.fetch(seat.worker, seat.arenas["outputs"], described, parts, limit)
        check.compare(task, dict(zip(own, got, strict=True)), wanted, verdict)
        return
    right = wanted.outputs
    if wanted.rows is None:
        right = {
            name: tensor if rows.get(name) is None else tensor[rows[name]]
            for name, tensor in right.items()
            if name in own
        }
    at_rows = Wanted(right, wanted.inputs, wanted.rows or [], wanted.total_rows)
    check.compare(task, own, at_rows, verdict)
