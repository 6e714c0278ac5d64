"""Method `cpu-v1`: the evaluator's own clock around requests of several calls.

The round trip of an empty request is taken off, and what it takes to copy the outputs that will be
judged: copies are made before the reply, so that nothing can be filled in after the clock stopped.
The clock is not in the candidate's process.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from solscope.bench.base import SETS
from solscope.bench.pool.slot import ROUND_TRIPS, returned
from solscope.bench.run.changed_rows import change_rows
from solscope.bench.run.remembered import is_suspicious, judge_memory
from solscope.bench.run.statistics import is_noisy, median
from solscope.bench.run.timed_calls import check_calls
from solscope.bench.run.timing import Trial
from solscope.bench.worker.messages import CallSets, DescribeOutputs, OutputFacts, RestoreInputs

if TYPE_CHECKING:
    import torch

SAMPLE_US = 2000.0
"""A sample takes at least about this long, in as many calls as that needs."""
MOST_CALLS = 3000
"""Calls in one sample, at most."""
MAX_CPU_SHARE = 1.3
"""Processor time of a worker per second and thread that it may use."""
LEAST_CPU_S = 0.05
"""Processor time that proves nothing: garbage is collected, caches are filled."""
LONG_US = 50_000.0
"""From here on a sample is one call per set."""
LEAST_SAMPLES = 3
"""Samples, at least, however little time is left."""
MIN_CACHED_GAIN_US = 1000.0
"""Smallest difference that indicates cached results; caches and schedulers make smaller ones."""
MOST_LATER = 19
"""Requests on values seen before in a trial of remembered results: three such trials decide."""
LEAST_LATER = 5
"""The same for long calls, of which more would take too long."""
LATER_US = 1_000_000.0
"""Time for them in a trial, about."""
RESOLUTION_US = 1.0
"""Differences of round trips below this are noise."""


def sample_cpu(trial: Trial) -> None:
    """Time one process of one candidate on the CPU."""
    slot, measured, mutates = trial.slot, trial.measured, trial.task.mutates
    order = list(range(SETS))
    first, outputs = _wall(trial, order)  # at once: nobody has time to compute before
    check_calls(trial, outputs, order)
    if not measured.verdict.ok:
        return
    # No more than before the solution was there, which can make empty requests slow.
    empty = min(slot.round_trip_us, *(_wall(trial, [])[0] for _ in range(ROUND_TRIPS)))
    empty += _copying_us(trial)
    each = max((first - empty) / SETS, 0.05)
    # A call that updates its inputs is made on what they were: once per set and request.
    many = order if mutates or each > LONG_US else _enough_calls(trial, order, empty, MOST_CALLS)
    samples, steady = _samples(trial, many, empty)
    if measured.verdict.status != "passed":
        return
    measured.add("cpu-v1", samples, "evaluator")

    if not is_suspicious([each], steady, MIN_CACHED_GAIN_US):
        return
    fit = int(LATER_US / (SETS * median(steady)))
    later_calls = max(LEAST_LATER, min(MOST_LATER, fit))

    def first_and_later() -> tuple[list[float], list[float]]:
        walls = []
        for _ in range(1 + later_calls):
            walls.append((_wall(trial, order)[0] - empty) / SETS)
            if mutates:
                slot.ask(RestoreInputs())
        return walls[:1], walls[1:]

    judge_memory(trial, first_and_later, MIN_CACHED_GAIN_US)


def _samples(trial: Trial, many: list[int], empty: float) -> tuple[list[float], list[float]]:
    """Microseconds per call of requests of which some calls are judged; rows change on the way.

    Also those on values that were seen in the request before: without the first after the change.
    """
    slot, measured, mutates = trial.slot, trial.measured, trial.task.mutates
    samples: list[float] = []
    change_at = 1 + secrets.randbelow(LEAST_SAMPLES - 1)
    end = time.monotonic() + trial.seconds
    cpu_s = wall_s = 0.0
    while len(samples) < trial.plan.samples or is_noisy(samples):
        if len(samples) == change_at:
            change_rows(trial)
        if mutates:
            slot.ask(RestoreInputs())
        before = slot.cpu_s()
        wall, outputs = _wall(trial, many)
        cpu_s, wall_s = cpu_s + slot.cpu_s() - before, wall_s + wall / 1e6
        samples.append(max(wall - empty, RESOLUTION_US) / len(many))
        late = time.monotonic() > end and len(samples) >= LEAST_SAMPLES
        if late or len(samples) <= LEAST_SAMPLES or not secrets.randbelow(4):
            check_calls(trial, outputs, sorted(set(many)))
        if late or not measured.verdict.ok:
            break
    threads = slot.spawner.limits.threads
    if cpu_s > MAX_CPU_SHARE * threads * wall_s + LEAST_CPU_S:
        why = f"took {cpu_s / wall_s:.1f} s of processor time per second with {threads} thread"
        measured.verdict.fail("cheating", f"{why}{'s' * (threads > 1)} allowed")
    return samples, [sample for index, sample in enumerate(samples) if index != change_at]


def _enough_calls(trial: Trial, order: list[int], empty: float, most: int) -> list[int]:
    """Calls that together take about as long as a sample should."""
    many = order * 2  # never as few as in a request that only checks
    while len(many) < most and _wall(trial, many)[0] - empty < SAMPLE_US:
        many = many * 4
    return many[:most]


def _wall(trial: Trial, order: list[int]) -> tuple[float, list[list[OutputFacts]]]:
    """Microseconds from the request to its reply, and the outputs of a call on each set.

    What was updated is taken as it is when the reply comes: the worker is stopped at once.
    """
    slot, sets, mutates = trial.slot, trial.sets, trial.task.mutates
    start = time.perf_counter()
    slot.ask(CallSets(order, keep=True))
    wall = 1e6 * (time.perf_counter() - start)
    if mutates:
        with slot.paused():
            for index in (one for one in set(order) if trial.references[one] is not None):
                views = sets.tensors(index)
                trial.updated[index] = {name: views[name].clone() for name in mutates}
    # Not on the clock: a description takes as long as a small call.
    return wall, slot.ask(DescribeOutputs(sorted(set(order)))).outputs


def _copying_us(trial: Trial) -> float:
    """Microseconds that it takes at least to copy the outputs of a call on each set.

    Measured here: what a worker says about it, or makes of it, would be taken off its time.
    """
    import torch

    wanted = trial.reference
    if wanted is None:
        return 0.0
    outputs = [
        torch.zeros(wanted.shape(name), dtype=trial.task.outputs[name].torch_dtype(wanted.inputs))
        for name in returned(trial.task)
        if name in wanted.outputs
        for _ in range(SETS)
    ]
    return min(_cloning_us(outputs) for _ in range(5))


def _cloning_us(tensors: Sequence[torch.Tensor]) -> float:
    start = time.perf_counter()
    clones = [tensor.clone() for tensor in tensors]
    taken = time.perf_counter() - start
    del clones
    return 1e6 * taken
