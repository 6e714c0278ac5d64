"""Whether outputs are right: what a worker handed back against the reference.

The reference runs here, in the evaluator, on inputs that no worker can write to. Where the whole of
it would take too long, rows are drawn at random that no worker knows, and only those are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solscope.bench.base import Status
from solscope.bench.pool.arena import Arena, aligned
from solscope.bench.pool.process import Worker, WorkerFailed, clean_text
from solscope.bench.pool.slot import returned
from solscope.bench.run.failures import own_failure
from solscope.bench.run.reference import Wanted
from solscope.bench.worker.messages import CopyOutputs, OutputCopy, OutputFacts
from solscope.bench.worker.outputs import is_out_of_memory
from solscope.operators.task import Task
from solscope.operators.tasks.judge import judge
from solscope.operators.tasks.remembered import forget

if TYPE_CHECKING:
    import torch


@dataclass
class Verdict:
    """What a check found."""

    status: Status = "passed"
    reason: str | None = None
    max_error: float = 0.0
    rms_error: float | None = None
    calls: int = 0
    no_room: bool = False
    """Whether the evaluator itself ran out of memory."""
    more: bool = False
    """Whether something else was found after the failure."""

    @property
    def ok(self) -> bool:
        return self.status == "passed"

    @property
    def lacks_memory(self) -> bool:
        """Whether it may be another one when less of the device's memory is in use."""
        return (self.no_room or self.status == "oom") and not self.more

    def fail(self, status: Status, reason: str) -> None:
        """Note a failure; the first one stays. The reason may quote a worker."""
        if self.ok:
            self.status, self.reason = status, clean_text(reason)

    def fail_too(self, status: Status, reason: str) -> None:
        """Note a failure that may explain, or go with, one that was noted before."""
        if not self.ok:
            self.reason, self.more = f"{self.reason}; {reason}", True
        self.fail(status, reason)


def own_verdict(error: Exception) -> Verdict:
    """A shape is lost through no fault of a solution; an error when the whole device is."""
    import torch

    no_room = is_out_of_memory(error, torch)
    return Verdict("unsupported", own_failure(error), no_room=no_room)


def check_shapes(
    task: Task, described: Sequence[OutputFacts], right: Wanted, verdict: Verdict
) -> None:
    """Shapes, dtypes and ownership of one call's outputs, as its worker described them."""
    names = [facts.name for facts in described]
    if [name for name in names if name not in task.mutates] != returned(task):
        verdict.fail("cheating", "the reply does not cover every output")
        return
    for facts in described:
        name, shape = facts.name, facts.shape
        if name in right.outputs and shape != right.shape(name):
            verdict.fail("wrong_shape", f"{name} is {shape} instead of {right.shape(name)}")
        expected = str(task.outputs[name].torch_dtype(right.inputs)).removeprefix("torch.")
        if facts.dtype != expected:
            verdict.fail("wrong_dtype", f"{name} is {facts.dtype} instead of {expected}")
        if facts.alias is not None:
            verdict.fail("cheating", f"{name} is the memory of input {facts.alias}")


Excerpt = tuple[int, str, "list[int] | None"]
"""A kept call, an output, and the rows of it; null for all."""


def fetch(
    worker: Callable[[], Worker],
    arena: Arena,
    described: Sequence[Sequence[OutputFacts]],
    excerpts: Sequence[Excerpt],
    timeout_s: float,
) -> list[torch.Tensor]:
    """Outputs of kept calls, whole or at rows, as tensors of the evaluator."""
    import torch

    copies, places = [], []
    offset = 0
    for call, name, rows in excerpts:
        facts = next((facts for facts in described[call] if facts.name == name), None)
        if facts is None:
            raise WorkerFailed("cheating", "the reply does not cover every output", dead=False)
        dtype = getattr(torch, facts.dtype)
        shape = facts.shape if rows is None else [len(rows), *facts.shape[1:]]
        size = math.prod(shape) * dtype.itemsize
        places.append((offset, shape, dtype))
        copies.append(OutputCopy(call, name, rows, offset, size))
        offset += aligned(size)
    arena.wipe()
    try:
        arena.reserve(offset)
    except (MemoryError, RuntimeError, OverflowError, OSError) as error:
        # Shapes are what a worker claims; those of outputs that are not compared can be anything.
        why = f"its outputs would take {offset:,} bytes: {error}"
        raise WorkerFailed("oom", why, dead=False) from None
    arena.used = offset
    arena.wipe()
    arena.used = offset
    _sync(arena)
    worker().ask(CopyOutputs(copies), timeout_s)
    return [arena.at(*place) for place in places]


def compare(task: Task, got: Mapping[str, Any], right: Wanted, verdict: Verdict) -> None:
    """Judge outputs, whole or at rows."""
    import torch

    verdict.calls += 1
    compared = any(output.compare is not None for output in task.outputs.values())
    inputs: Mapping[str, Any] = right.source() if compared else right.inputs
    if right.rows is not None:
        device = next(iter(right.outputs.values())).device
        inputs = {**inputs, "rows": torch.tensor(right.rows, device=device)}
    for name, output in task.outputs.items():
        if name not in got or name not in right.outputs:
            continue
        judgement = judge(output, got[name], right.outputs[name], inputs, got)
        verdict.max_error = max(verdict.max_error, judgement.max_error)
        if judgement.rms_error is not None:
            verdict.rms_error = max(verdict.rms_error or 0.0, judgement.rms_error)
        if not judgement.ok:
            verdict.fail("wrong_numbers", f"{name}: {judgement.reason}")
    forget()  # what was made of large inputs is large


def _sync(arena: Arena) -> None:
    if arena.device != "cpu":
        import torch

        torch.cuda.synchronize()
