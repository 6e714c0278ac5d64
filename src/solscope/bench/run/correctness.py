"""Correctness of solutions: several draws of every shape, and extra cases.

Inputs and references are made once and shown to every candidate, one at a time: the others are
stopped. Every draw uses the same addresses, outputs are poisoned, inputs are fingerprinted before
and after, and twins of a draw with one row changed must give the twins' answers.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from solscope.bench.base import FAILURES
from solscope.bench.pool.arena import Arena, fingerprint
from solscope.bench.pool.device_memory import MemoryBudget, release
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed
from solscope.bench.pool.slot import Candidate, WorkerSlot, ask_all, close
from solscope.bench.pool.spawner import Spawner
from solscope.bench.run import check, reference
from solscope.bench.run.check import Verdict, own_verdict
from solscope.bench.run.failures import EVALUATOR_ERRORS
from solscope.bench.run.reference import Effort, Wanted, by_rows
from solscope.bench.worker.messages import (
    BindInputs,
    CallOnce,
    CallSets,
    FreeShape,
    InputSpec,
    OutputFacts,
    Request,
    TrimMemory,
    ValueInput,
)
from solscope.bench.worker.outputs import is_out_of_memory
from solscope.bench.workloads import Case, Workload, beside, larger
from solscope.operators.base import Operator
from solscope.operators.task import Variant

if TYPE_CHECKING:
    import torch

Progress = Callable[[str], None]
TWIN_ROUNDS = 2
"""An answer that is remembered by a few values gets past one when that row happens to hold one."""
MAX_TWIN_S = 1.0
"""Shapes whose inputs and reference take longer than this have no twins. On the CPU it is time of
this thread: others that are busy must not open a gap in the guard."""
MOVED_BYTES_TO_COMPILE_TOGETHER = 1 << 30
"""Candidates compile at the same time for shapes whose call moves up to this much."""
MAX_TIMEOUTS = 2
"""A solution with this many timeouts is not asked again: each costs a whole time limit."""


@dataclass
class Checked:
    """What was found for one candidate, by shape."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    seeds: dict[str, list[int]] = field(default_factory=dict)
    reference: dict[str, str] = field(default_factory=dict)
    extra_cases: int = 0
    declined: list[str] = field(default_factory=list)
    """Extra cases without an answer."""
    timeouts: int = 0
    everywhere: Verdict | None = None
    """A failure that applies to every shape without its own verdict."""

    def knows(self, shape: str) -> bool:
        """Whether anything was found out about a shape."""
        return self.everywhere is not None or shape in self.verdicts

    def forget(self, shape: str) -> None:
        """Take back what was found out about a shape that is checked again."""
        for found in (self.verdicts, self.rounds, self.seeds, self.reference):
            found.pop(shape, None)

    def verdict(self, shape: str) -> Verdict:
        """The verdict on one shape."""
        return self.verdicts.get(shape) or self.everywhere or Verdict("unsupported", "not checked")


class OperatorCheck:
    """Checks all candidates of one operator."""

    def __init__(
        self,
        operator: Operator,
        candidates: Sequence[Candidate],
        spawner: Spawner,
        arenas: dict[str, Arena],
        memory_budget: MemoryBudget,
        share: float | None = None,
    ) -> None:
        self.operator = operator
        self.task = operator.required_task
        self.arenas = arenas
        self.device = arenas["inputs"].device
        self.memory_budget = memory_budget
        self.slots = [WorkerSlot(spawner, candidate, arenas, share) for candidate in candidates]
        self.found = {candidate.key: Checked() for candidate in candidates}
        self.extra_cases_done = False
        """Whether an earlier turn had them."""
        self.prepared = math.inf
        """When the first shape could be checked, by `time.monotonic`."""
        self._returned: dict[str, dict[str, torch.Tensor]] = {}
        """By candidate, fingerprints of the outputs of its last call."""
        self._clock = time.thread_time if self.device == "cpu" else time.monotonic

    def continue_from(self, before: Mapping[str, Checked]) -> None:
        """Take over what an earlier turn of the same candidates found, extra cases included."""
        self.found |= {key: checked for key, checked in before.items() if key in self.found}
        self.extra_cases_done = bool(before)

    def close(self) -> None:
        """End the workers."""
        for slot in self.slots:
            slot.resume()
        close(self.slots)

    def build(self) -> None:
        """Import, and build what must be built, all at once; a failure holds for every shape."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.slots))) as pool:
            list(pool.map(self._build, self.slots))

    def _build(self, slot: WorkerSlot) -> None:
        try:
            slot.worker()
        except WorkerFailed as failed:
            self._everywhere(slot, Verdict(failed.status, failed.reason))
        if slot.candidate.solution.about.language == "cuda":
            slot.close()  # what was built is in the cache; checks get a new process
        slot.pause()

    def give_up(self, reason: str) -> None:
        """Nothing is known about what was not checked yet."""
        for checked in self.found.values():
            checked.everywhere = checked.everywhere or Verdict("unsupported", reason)

    def _everywhere(self, slot: WorkerSlot, verdict: Verdict) -> None:
        checked = self.found[slot.candidate.key]
        checked.everywhere = checked.everywhere or verdict

    def run(
        self,
        shapes: Sequence[Workload],
        rehearsed: Sequence[dict[str, Any]],
        effort: Effort,
        progress: Progress,
        *,
        in_time: Callable[[], bool],
        due: Callable[[Candidate, Workload], bool],
    ) -> None:
        """Check every shape while there is time, after extra cases near the smallest one."""
        compiled = [slot for slot in self._standing() if slot.candidate.solution.about.compile]
        for axes in rehearsed if compiled else ():
            progress(f"{self.operator.name}: compiling")
            with (
                self.memory_budget.of(self.operator.cost(axes).bytes),
                contextlib.suppress(*EVALUATOR_ERRORS),  # what fails will fail again when checked
            ):
                self._rehearse(compiled, axes)
        self.prepared = time.monotonic()
        for case in () if self.extra_cases_done else extra_cases(self.operator, shapes, effort):
            progress(f"{self.operator.name}: {case.label}")
            with self.memory_budget.of(self.operator.cost(case.axes).bytes):
                self._case(case.axes, case.variant, effort, case.label)
                self._free()
        for shape in shapes:
            if not in_time():
                return
            slots = [
                slot
                for slot in self._standing()
                if due(slot.candidate, shape)
                and not self.found[slot.candidate.key].knows(shape.shape)
            ]
            if not slots:
                continue
            progress(f"{self.operator.name} shape {shape.shape}")
            with self.memory_budget.of(self.operator.cost(shape.axes).bytes):
                self._try(shape, slots, effort)
            lacking = [slot for slot in slots if self._verdict(slot, shape).lacks_memory]
            if lacking and self.memory_budget.is_shared and in_time():
                progress(f"{self.operator.name} shape {shape.shape}: again, with more memory")
                self._try_alone(shape, lacking, effort)

    def _try(self, shape: Workload, slots: Sequence[WorkerSlot], effort: Effort) -> None:
        try:
            self._shape(shape, slots, effort)
        except EVALUATOR_ERRORS as error:
            self._lose(slots, shape, own_verdict(error))
        self._free()

    def _try_alone(self, shape: Workload, slots: Sequence[WorkerSlot], effort: Effort) -> None:
        """Check what ran out of memory while nothing else is checked, by what it has then."""
        with self.memory_budget.all():
            release(self.device, keep=0)
            for slot in slots:
                self.found[slot.candidate.key].forget(shape.shape)
            self._try(shape, slots, effort)

    def _verdict(self, slot: WorkerSlot, shape: Workload) -> Verdict:
        return self._found(slot).verdict(shape.shape)

    def _found(self, slot: WorkerSlot) -> Checked:
        return self.found[slot.candidate.key]

    def _rehearse(self, slots: Sequence[WorkerSlot], axes: dict[str, Any]) -> None:
        """Let candidates compile for sizes that vary; what fails will fail again when checked."""
        sets = InputSets(self.arenas["inputs"], self.task)
        sets.draw(axes, 1)
        for slot in slots:
            with slot.resumed():
                try:
                    slot.ask(BindInputs(sets.specs), slow=True)
                    slot.ask(CallSets([0], keep=False), slow=True)
                except WorkerFailed:
                    slot.close()
                slot.clean_up(FreeShape())

    def _case(self, axes: dict[str, Any], variant: Variant, effort: Effort, label: str) -> None:
        rows = by_rows(self.operator.cost(axes), self.task, effort)
        slots = self._standing()
        if rows is None or not slots:
            return
        sets = InputSets(self.arenas["inputs"], self.task)
        try:
            sets.draw(axes, 1, variant)
            right = self._wanted(sets, rows)
        except (ValueError, IndexError, ZeroDivisionError):
            return  # sizes that this operator cannot have
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error, _torch()):
                raise
            for slot in slots:
                why = f"{label} (no room for its inputs or its reference)"
                self.found[slot.candidate.key].declined.append(why)
            return
        for slot in slots:
            verdict = self._judge(slot, sets, right)
            checked = self.found[slot.candidate.key]
            unanswered = verdict.status in ("unsupported", "oom", "timeout")
            checked.extra_cases += not unanswered
            if unanswered:
                checked.declined.append(label)
            checked.timeouts += verdict.status == "timeout"
            patient = verdict.status == "timeout" and checked.timeouts < MAX_TIMEOUTS
            if verdict.status in FAILURES and verdict.status != "oom" and not patient:
                said = _said(label, self._sizes(axes, sets), sets.specs[0])
                checked.everywhere = Verdict(verdict.status, f"with {said}: {verdict.reason}")

    def _sizes(self, axes: dict[str, Any], sets: InputSets) -> Mapping[str, Any]:
        """The axes with what the draw decided."""
        realized = self.task.realized
        return axes if realized is None else realized(axes, sets.inputs(0))

    def _standing(self) -> list[WorkerSlot]:
        return [slot for slot in self.slots if self.found[slot.candidate.key].everywhere is None]

    def _shape(self, shape: Workload, slots: Sequence[WorkerSlot], effort: Effort) -> None:
        rows = by_rows(self.operator.cost(shape.axes), self.task, effort)
        if rows is None:
            why = "its reference takes too long and has no form by rows that shows every output"
            self._all(slots, shape, Verdict("unsupported", why))
            return
        sets = InputSets(self.arenas["inputs"], self.task)
        slots = list(self._warm(shape, slots, sets))
        took = 0.0
        for number in range(effort.rounds + TWIN_ROUNDS):
            twin = number >= effort.rounds
            if not slots or (twin and (rows or took > MAX_TWIN_S)):
                break
            start = self._clock()
            try:
                if twin:
                    inner = number > effort.rounds
                    sets.repeat_rows(0, sets.changes(0, (), inner=inner))
                else:
                    sets.draw(shape.axes, 1)
                right = self._wanted(sets, rows)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error, _torch()):
                    raise
                why = f"its inputs or its reference do not fit: {error}"
                self._all(slots, shape, Verdict("unsupported", why, no_room=True))
                return
            took = self._clock() - start
            for slot in list(slots):
                verdict = self._judge(slot, sets, right)
                self._note(slot, shape, verdict, sets, "rows" if rows else "full")
                if not verdict.ok:
                    slots.remove(slot)
            del right

    def _warm(
        self, shape: Workload, slots: Sequence[WorkerSlot], sets: InputSets
    ) -> Sequence[WorkerSlot]:
        """Let candidates compile for a shape at the same time, on values that are not judged.

        Those that may go on are left. But for cheating and hanging too often, failures do not
        count: others used the memory and the inputs meanwhile. It fails again alone, or does not.
        Large shapes would not fit so often.
        """
        compiling = any(slot.candidate.solution.about.compiles for slot in slots)
        size = self.operator.cost(shape.axes).bytes
        if not compiling or len(slots) < 2 or size > MOVED_BYTES_TO_COMPILE_TOGETHER:
            return slots
        try:
            sets.draw(shape.axes, 1)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error, _torch()):
                raise
            return slots  # the first draw that is judged will say so
        asked, ended = slots, set()
        requests: list[Request[Any]] = [
            BindInputs(sets.specs),
            CallSets([0], keep=False),
            TrimMemory(),
        ]
        for slot in slots:
            slot.resume()
        for request in requests:
            replies = ask_all(asked, request)
            asked = [slot for slot, reply in replies if not isinstance(reply, WorkerFailed)]
            for slot, reply in replies:
                if not isinstance(reply, WorkerFailed):
                    continue
                verdict, checked = Verdict(reply.status, reply.reason), self._found(slot)
                if reply.status == "cheating" or (
                    reply.status == "timeout" and checked.timeouts + 1 >= MAX_TIMEOUTS
                ):
                    self._note(slot, shape, verdict, sets, "none")
                    ended.add(slot.candidate.key)
                else:
                    checked.timeouts += reply.status == "timeout"
        for slot in slots:
            slot.pause()
        return [slot for slot in slots if slot.candidate.key not in ended]

    def _note(
        self, slot: WorkerSlot, shape: Workload, verdict: Verdict, sets: InputSets, reference: str
    ) -> None:
        checked = self.found[slot.candidate.key]
        checked.timeouts += verdict.status == "timeout"
        if verdict.status == "timeout" and checked.timeouts >= MAX_TIMEOUTS:
            checked.everywhere = verdict
        before = checked.verdicts.get(shape.shape)
        if before is not None:
            verdict.max_error = max(verdict.max_error, before.max_error)
            errors = [e for e in (verdict.rms_error, before.rms_error) if e is not None]
            verdict.rms_error = max(errors) if errors else None
        checked.verdicts[shape.shape] = verdict
        checked.rounds[shape.shape] = checked.rounds.get(shape.shape, 0) + 1
        checked.seeds[shape.shape] = list(sets.seeds)
        checked.reference[shape.shape] = reference

    def _lose(self, slots: Sequence[WorkerSlot], shape: Workload, verdict: Verdict) -> None:
        """Take back that candidates passed a shape which could not be checked to its end."""
        for slot in slots:
            checked = self.found[slot.candidate.key]
            if not checked.knows(shape.shape) or checked.verdict(shape.shape).ok:
                checked.verdicts[shape.shape] = verdict

    def _all(self, slots: Sequence[WorkerSlot], shape: Workload, verdict: Verdict) -> None:
        for slot in slots:
            self.found[slot.candidate.key].verdicts[shape.shape] = verdict

    def _wanted(self, sets: InputSets, rows: bool) -> Wanted:
        drawn = reference.draw_rows if rows else None
        right = reference.wanted(self.task, sets.source(0), drawn)
        sets.let_go()
        return right

    def _judge(self, slot: WorkerSlot, sets: InputSets, right: Wanted) -> Verdict:
        """Run one candidate on the current set and judge the result.

        The others are stopped: what happens to the inputs meanwhile is this one's doing.
        """
        with slot.resumed():
            verdict = self._call(slot, sets, right)
        changed = sets.changed(0)
        if changed:
            verdict.fail_too("mutated_input", f"changed its input {', '.join(changed)}")
            sets.restore(0)
        views = sets.tensors(0)
        for name in self.task.mutates:
            views[name].copy_(right.inputs[name])
        return verdict

    def _call(self, slot: WorkerSlot, sets: InputSets, right: Wanted) -> Verdict:
        """Call one candidate, and judge what it returned and updated."""
        verdict = Verdict()
        views = sets.tensors(0)
        outputs = self.task.outputs.items()
        sizes = [right.bytes(name, output) for name, output in outputs if name in right.outputs]
        try:
            slot.ask(BindInputs(sets.specs), slow=True)
            poison = [size for size in sizes if size]
            calls = slot.ask(CallOnce(0, poison), slow=True).outputs
            described = calls[0] if calls else []
            check.check_shapes(self.task, described, right, verdict)
            if verdict.ok:
                got = self._fetch(slot, described, right)
                got |= {
                    name: right.at_rows(views[name])
                    for name in self.task.mutates
                    if name in right.outputs
                }
                check.compare(self.task, got, right, verdict)
                self._name_repeated(slot, got, verdict)
                self.arenas["outputs"].wipe()
        except WorkerFailed as failed:
            verdict.fail(failed.status, failed.reason)
        return verdict

    def _name_repeated(
        self, slot: WorkerSlot, got: Mapping[str, torch.Tensor], verdict: Verdict
    ) -> None:
        """Say of wrong outputs that they are those of the call before, on other inputs."""
        now = {name: fingerprint(tensor) for name, tensor in got.items() if tensor.numel()}
        before = self._returned.get(slot.candidate.key, {})
        self._returned[slot.candidate.key] = now
        if verdict.status == "wrong_numbers" and now and _are_equal(now, before):
            why = "these are its outputs for the inputs before, at the same addresses"
            verdict.fail_too("wrong_numbers", why)

    def _fetch(
        self, slot: WorkerSlot, described: Sequence[OutputFacts], right: Wanted
    ) -> dict[str, Any]:
        names = [facts.name for facts in described if facts.name in right.outputs]
        limit = slot.spawner.limits.timeout_s
        arena = self.arenas["outputs"]
        excerpts: list[check.Excerpt] = [(0, name, right.rows) for name in names]
        got = check.fetch(slot.worker, arena, [described], excerpts, limit)
        return dict(zip(names, got, strict=True))

    def _free(self) -> None:
        """Free what the last shape needed, here and in the workers."""
        for slot in self.slots:
            with slot.resumed():
                slot.clean_up(FreeShape())
        release(self.device)


def extra_cases(operator: Operator, shapes: Sequence[Workload], effort: Effort) -> list[Case]:
    """What one run checks beside listed shapes: what it always must, and cases it draws.

    Most lie beside the smallest shape, and two beside larger ones.
    """
    if not shapes or not effort.extra:
        return []
    base = min(shapes, key=lambda shape: operator.cost(shape.axes).bytes)
    cases = list(beside(operator, base.axes, effort.extra_bytes))
    chance = secrets.SystemRandom()
    listed = [shape.axes for shape in shapes]
    cases += larger(operator, listed, effort.large_bytes, effort.large_flop, chance)
    always = [case for case in cases if case.always]
    others = [case for case in cases if not case.always]
    if len(others) > effort.extra:
        drawn = chance.sample(range(len(others)), effort.extra)
        others = [others[index] for index in sorted(drawn)]
    return always + others


def _said(label: str, axes: Mapping[str, Any], inputs: InputSpec) -> str:
    """The label of an extra case, with the sizes and the plain values that it has."""
    values = {name: item.value for name, item in inputs.items() if isinstance(item, ValueInput)}
    all_of = [f"{name} = {_short(value)}" for name, value in {**axes, **values}.items()]
    return f"{label} ({', '.join(one for one in all_of if one != label)})"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else f"{value!s:.60}"


def _torch() -> ModuleType:
    import torch

    return torch


def _are_equal(some: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool:
    return some.keys() == others.keys() and all(
        one.shape == others[name].shape and bool((one == others[name]).all())
        for name, one in some.items()
    )
