"""Methods `cold-v1`, `warm-v1` and `graph-v2`.

Cold and warm are device times of single calls, taken in the worker: the evaluator cannot time
another process's kernels. Short calls are timed by Kineto, long ones by events. The graph is timed
here, by the evaluator's clock around replays, and no single call may claim far less than that.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from solscope.bench.base import METHODS, SETS
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed, clean_text
from solscope.bench.pool.slot import WorkerSlot, returned
from solscope.bench.run.changed_rows import change_rows
from solscope.bench.run.remembered import is_suspicious, judge_memory
from solscope.bench.run.statistics import is_noisy, median
from solscope.bench.run.timed_calls import check_calls
from solscope.bench.run.timing import Measured, Plan, Trial
from solscope.bench.worker.messages import (
    CallTimes,
    CaptureGraph,
    DescribeOutputs,
    DropOutputs,
    OutputFacts,
    ReplayGraph,
    RestoreInputs,
    TimeCalls,
)
from solscope.operators.task import Task

if TYPE_CHECKING:
    import torch

COLD, WARM, GRAPH = METHODS.values()
SHORT_US = 60.0
"""Calls that events give less than this are timed by Kineto: events add a few microseconds."""
FIRST_SPIN_US = 1500.0
"""Head start of the host for the first calls, whose time to queue is not known yet."""
KEPT_BYTES = 4 << 30
"""Outputs that a worker keeps for questions, at most."""
COPIED_BYTES = 1 << 30
"""Copies of updated tensors that a worker keeps, at most."""
MOST_SAMPLES = 200
"""Cold samples of one process, at most, however noisy they are."""
FLUSH_US = 60.0
"""About what a flush and its surroundings take."""
MIN_CACHED_GAIN_US = 50.0
"""Smallest difference that indicates cached results."""
MAX_LAG_US = 60.0
"""Work that continues for longer than this after the stream is done ran elsewhere."""
GRAPH_CALLS = 12
"""Calls in a graph of short calls."""
LONG_US = 1000.0
"""From here on a graph holds one call per set."""
GRAPH_SAMPLES = 5
"""Samples of a graph."""
GRAPH_SAMPLE_US = 3000.0
"""Microseconds of replays in one sample, at least."""
GRAPH_PARTS = 3
"""Runs of the graph in a long request for each in a short one."""
GRAPH_LONG_US = 50_000.0
"""From here on what a request takes by itself does not matter."""
LONG_RUN_US = 50_000.0
"""Microseconds that a run takes if the claim is true: a request by itself does not matter then."""
LEAST_US = 0.1
"""No call is shorter, whatever it claims."""
MOST_REPLAYS = 1 << 14
"""Replays in one request, at most."""
MIN_SHARE_OF_GRAPH = 0.5
"""A cold call that claims less than this share of a call in the graph is not believed.

The worker times cold calls itself, the evaluator times the graph. Caches are warm in a graph, so an
honest cold call is slower than that; half leaves room for noise. Example: 40 us claimed, 200 us per
call in the graph: 40 < 0.5 * (200 - 3)."""
GRAPH_GAP_US = 3.0
"""Gap between calls in a graph, at most, which the span of a single call does not have."""


@dataclass
class Singles:
    """Samples of single calls."""

    cold_us: list[float] = field(default_factory=list)
    warm_us: list[float] = field(default_factory=list)
    clock: str = "events"


def sample_gpu(trial: Trial) -> None:
    """Time one process of one candidate on the GPU."""
    slot, measured, methods = trial.slot, trial.measured, trial.plan.methods
    rotation = [(index, True) for index in range(SETS)]
    first = _batch(trial, rotation, FIRST_SPIN_US, _known_sizes(trial))
    call_us = median(first.events_us)
    host_us = median(first.host_us)
    measured.host_us.append(host_us)
    spin_us = min(max(1.5 * host_us, 10.0), 2000.0)
    sizes = _output_sizes(trial, first.outputs[0])
    again = 3 * SETS
    if SETS * call_us / 1e6 > trial.seconds / 2:
        samples = _few(trial, first, sizes)
    else:
        slot.ask(DropOutputs())
        pace = Pace(call_us, spin_us, sizes, trial.seconds)
        samples = _singles(trial, pace)
        again = max(again, pace.batch(trial.plan.samples, warm=WARM in methods))

    def first_and_later() -> tuple[list[float], list[float]]:
        # As samples are taken: what remembers within one request must not know this one.
        kineto = samples.clock == "kineto"
        order = _order(trial.plan, again)
        times = _batch(trial, order, spin_us, sizes, kineto=kineto).events_us
        slot.ask(DropOutputs())
        return times[:SETS], times[SETS:again]

    if is_suspicious(first.events_us, samples.cold_us, MIN_CACHED_GAIN_US):
        judge_memory(trial, first_and_later, MIN_CACHED_GAIN_US)
    taken = {COLD: samples.cold_us, WARM: samples.warm_us}
    for method in methods:
        if method != GRAPH:
            measured.add(method, taken[method], samples.clock)
    if GRAPH in methods and measured.verdict.ok:
        why = trial.uncaptured.get(slot.candidate.key)
        if why is None:
            _graph(trial, median(samples.cold_us))
        else:
            measured.reasons[GRAPH] = why


def _timed(
    slot: WorkerSlot,
    order: list[tuple[int, bool]],
    spin_us: float,
    reserved: Sequence[int] = (),
    *,
    kineto: bool = False,
    copied: Sequence[int] = (),
) -> CallTimes:
    """Let the worker time one call per entry (set, cold)."""
    times = slot.ask(TimeCalls(order, kineto, spin_us, list(copied), list(reserved)))
    per_call = [len(times.outputs), len(times.events_us), len(times.host_us), len(times.lag_us)]
    if times.span_us is not None:
        per_call += [len(times.span_us), len(times.activities)]
    if any(count != len(order) for count in per_call):
        raise WorkerFailed("cheating", "the reply does not cover every call", dead=False)
    return times


def _batch(
    trial: Trial,
    order: list[tuple[int, bool]],
    spin_us: float,
    sizes: Sequence[int],
    *,
    kineto: bool = False,
) -> CallTimes:
    """Time calls of which what some update is copied."""
    copied = _copied(trial.sets, trial.task, len(order))
    return _timed(trial.slot, order, spin_us, sizes, kineto=kineto, copied=copied)


def _order(plan: Plan, calls: int) -> list[tuple[int, bool]]:
    """As many cold calls, on one set after the other, and warm ones behind where asked for."""
    cold = [(number % SETS, True) for number in range(calls)]
    return cold + [(0, False)] * (calls if WARM in plan.methods else 0)


def _copied(sets: InputSets, task: Task, calls: int) -> list[int]:
    """Calls of which updated tensors are copied when the clock stops, so that these are checked.

    As many as can be kept, drawn at random.
    """
    updated = [sets.tensors(0)[name] for name in task.mutates]
    size = sum(tensor.numel() * tensor.element_size() for tensor in updated)
    if not size:
        return []
    return secrets.SystemRandom().sample(range(calls), min(calls, COPIED_BYTES // size))


@dataclass(frozen=True)
class Pace:
    """What is known about a call before its samples are taken."""

    call_us: float
    spin_us: float
    output_sizes: Sequence[int]
    """Bytes of each output."""
    seconds: float

    def batch(self, most: int, *, warm: bool) -> int:
        """Calls in a batch: no more than the time allows, and than outputs can be kept."""
        per_call = (self.call_us + self.spin_us + FLUSH_US + 40.0) * (2 if warm else 1) / 1e6
        keepable = KEPT_BYTES // max(1, sum(self.output_sizes))
        return max(3, min(most, int(self.seconds / per_call), keepable))


def _known_sizes(trial: Trial) -> list[int]:
    """Sizes of the outputs of a call that a reference tells."""
    task, right = trial.task, trial.reference
    if right is None:
        return []
    names = [name for name in returned(task) if name in right.outputs]
    return [right.bytes(name, task.outputs[name]) for name in names]


def _output_sizes(trial: Trial, described: Sequence[OutputFacts]) -> list[int]:
    """Sizes of the outputs of a call, with dtypes of the task and shapes of a reference, if any.

    Those of a reply may be forged; what the call returned is checked with its values.
    """
    outputs, inputs = trial.task.outputs, trial.sets.tensors(0)
    right = trial.reference

    def shape(facts: OutputFacts) -> list[int]:
        if right is None or facts.name not in right.outputs:
            return facts.shape
        return right.shape(facts.name)

    return [
        math.prod(shape(facts)) * outputs[facts.name].torch_dtype(inputs).itemsize
        for facts in described
        if facts.name in outputs and facts.name not in trial.task.mutates
    ]


def _few(trial: Trial, first: CallTimes, sizes: Sequence[int]) -> Singles:
    """Samples of a call that is so long that the first calls use up the time."""
    samples = Singles(cold_us=first.events_us)
    _check_lag(first, trial.measured)
    check_calls(trial, first.outputs, range(SETS))
    trial.slot.ask(DropOutputs())
    if trial.measured.verdict.ok:
        _after_change(trial, FIRST_SPIN_US, sizes)
    if WARM in trial.plan.methods:
        samples.warm_us = _timed(trial.slot, [(0, False)] * 2, FIRST_SPIN_US, sizes).events_us
        trial.slot.ask(DropOutputs())
    return samples


def _check_lag(times: CallTimes, measured: Measured) -> None:
    """Work that goes on after the stream is done ran on another one, beside the clock."""
    lag = median(times.lag_us)
    if lag > MAX_LAG_US + 0.1 * median(times.events_us):
        why = f"work continued for {lag:.0f} us after its stream was done"
        measured.verdict.fail("cheating", why)


def _singles(trial: Trial, pace: Pace) -> Singles:
    """Cold and warm samples of single calls, batch by batch until the noise is small."""
    slot, measured, plan = trial.slot, trial.measured, trial.plan
    samples = Singles()
    short = "kineto" if pace.call_us < SHORT_US else "events"
    kineto = measured.clock.get(COLD, short) == "kineto"
    batch = pace.batch(plan.samples, warm=WARM in plan.methods)
    order = _order(plan, batch)
    end = time.monotonic() + pace.seconds
    while True:
        times = _batch(trial, order, pace.spin_us, pace.output_sizes, kineto=kineto)
        if kineto and times.span_us is None:
            measured.reasons["kineto"] = clean_text(times.span_reason)
            kineto = False
        values = times.span_us if kineto and times.span_us is not None else times.events_us
        samples.clock = "kineto" if kineto else "events"
        samples.cold_us += values[:batch]
        samples.warm_us += values[batch:]
        if kineto:
            measured.activities = median(times.activities)
        _check_lag(times, measured)
        check_calls(trial, times.outputs, [index for index, _ in order])
        slot.ask(DropOutputs())
        done = len(samples.cold_us)
        quiet = done >= plan.samples and not is_noisy(samples.cold_us)
        if not measured.verdict.ok or quiet or done >= MOST_SAMPLES or time.monotonic() > end:
            break
    if measured.verdict.ok:
        _after_change(trial, pace.spin_us, pace.output_sizes)
    return samples


def _after_change(trial: Trial, spin_us: float, sizes: Sequence[int]) -> None:
    """Time calls as before on inputs with changed rows, which are not samples, and judge them.

    Of sets without a reference nothing could be said: they are left out.
    """
    if not change_rows(trial):
        return
    judged = [index for index, wanted in enumerate(trial.references) if wanted is not None]
    times = _timed(trial.slot, [(index, True) for index in judged], spin_us, sizes)
    check_calls(trial, times.outputs, judged)
    trial.slot.ask(DropOutputs())


def _graph(trial: Trial, cold_us: float) -> None:
    """Time a graph of calls by the evaluator's clock, and hold the cold time against it."""
    slot, measured = trial.slot, trial.measured
    order = list(range(SETS)) * (GRAPH_CALLS // SETS if cold_us < LONG_US else 1)
    try:
        slot.ask(CaptureGraph(order), slow=True)
    except WorkerFailed as failed:
        if failed.dead:
            raise
        why = f"cannot be captured: {failed.reason}"[:300]
        measured.reasons[GRAPH] = why
        if failed.status != "oom":
            trial.uncaptured[slot.candidate.key] = why
        slot.close()  # a failed capture leaves its process unusable
        return
    samples, whole_us = _graph_samples(slot, len(order), trial.seconds)
    measured.add(GRAPH, samples, "evaluator")
    if not trial.task.mutates:
        if change_rows(trial):
            _replay(slot, 1)  # or results that were recorded with the graph would do
        check_calls(trial, slot.ask(DescribeOutputs(order)).outputs, order)
    else:
        _check_updates(trial)
    if _is_too_little(cold_us, whole_us):
        per_call = _long_run(slot, len(order), cold_us)
        if _is_too_little(cold_us, per_call):
            why = f"claims {cold_us:.1f} us for a call that takes {per_call:.1f} us in a graph"
            measured.verdict.fail("cheating", why)


def _check_updates(trial: Trial) -> None:
    """A graph of calls that update their inputs must change what one of the calls changes.

    Each call goes on from the last, so more cannot be said: rows that a call changes have to be
    others after a replay, most of them, since a few may come back to what they were.
    """
    trial.slot.ask(RestoreInputs())
    _replay(trial.slot, 1)
    for index, right in enumerate(trial.references):
        if right is None:
            continue
        views = trial.sets.tensors(index)
        for name in trial.task.mutates:
            if name not in right.outputs or not right.outputs[name].numel():
                continue
            before, now = right.at_rows(right.inputs[name]), right.at_rows(views[name])
            due = _differing_rows(before, right.outputs[name].to(before.dtype))
            left = due & ~_differing_rows(before, now)
            if 2 * int(left.sum()) > int(due.sum()):
                trial.measured.verdict.fail("cheating", f"its graph leaves {name} as it was")


def _differing_rows(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """By row, whether any byte differs."""
    import torch

    one, other = (
        tensor.contiguous().view(torch.uint8).reshape(tensor.shape[0], -1)
        for tensor in (some, others)
    )
    return (one != other).any(1)


def _is_too_little(cold_us: float, graph_us: float) -> bool:
    """Whether a single call that takes `graph_us` in a graph cannot be as short as it claims."""
    return cold_us < MIN_SHARE_OF_GRAPH * (graph_us - GRAPH_GAP_US)


def _graph_samples(slot: WorkerSlot, calls: int, seconds: float) -> tuple[list[float], float]:
    """Microseconds per call of the captured graph; and of its shortest run, nothing taken off.

    A request takes time of its own, after a long wait more than after a short one, so an empty
    request tells it only about: it is what is left when short and long runs lie on a line. A worker
    that stops in short runs can make that too much, so claims are compared with complete runs.
    """
    _replay(slot, 1)  # the first one uploads the graph
    empty = min(_replay(slot, 0) for _ in range(3))
    enough = min(max(GRAPH_SAMPLE_US, empty), GRAPH_LONG_US / 2)
    times = 1
    while (once := _replay(slot, times) - empty) < enough and times < MOST_REPLAYS:
        times *= 2
    parts = GRAPH_PARTS if once < GRAPH_LONG_US else 1
    short: list[float] = []
    long: list[float] = []
    end = time.monotonic() + seconds
    while len(long) < GRAPH_SAMPLES and (len(long) < 2 or time.monotonic() < end):
        if parts > 1:
            short.append(_replay(slot, times))
        long.append(_replay(slot, parts * times))
    own = request_us(short, long, parts)
    runs = parts * times * calls
    return [(value - own) / runs for value in long], min(long) / runs


def request_us(short: Sequence[float], long: Sequence[float], parts: int) -> float:
    """Time that a request takes beside its runs: `long` is of `parts` times the runs of `short`.

    No more than half of a long request: its runs take longer than a request does by itself.
    Example: a request takes 100 us by itself, its runs 1,000. Short requests take 1,100 us, long
    ones with 3 times the runs 3,100: (3 * 1,100 - 3,100) / 2 = 100.
    """
    if not short:
        return 0.0
    own = (parts * median(short) - median(long)) / (parts - 1)
    return min(max(0.0, own), min(short), min(long) / 2)


def _long_run(slot: WorkerSlot, calls: int, cold_us: float) -> float:
    """Microseconds per call, all of the request included, of a run that a true claim makes long.

    Nothing that the worker does can make it look shorter than it was.
    """
    claimed = max(cold_us, LEAST_US) * calls
    times = min(math.ceil(LONG_RUN_US / claimed), MOST_REPLAYS)
    return _replay(slot, times) / (times * calls)


def _replay(slot: WorkerSlot, times: int) -> float:
    """Microseconds from the request to its reply."""
    start = time.perf_counter()
    slot.ask(ReplayGraph(times))
    return 1e6 * (time.perf_counter() - start)
