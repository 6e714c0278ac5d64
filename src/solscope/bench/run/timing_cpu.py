"""Method `cpu-v1`: the evaluator's own clock around requests of several calls.

The round trip of an empty request is taken off. The clock is not in the candidate's process.
"""

from __future__ import annotations

import time

from solscope.bench.base import SETS
from solscope.bench.pool.slot import WorkerSlot
from solscope.bench.run.statistics import is_noisy
from solscope.bench.run.timed_calls import check_calls
from solscope.bench.run.timing import CACHED_REASON, Trial, is_cached, looks_cached
from solscope.bench.worker.messages import CallSets, OutputFacts, RestoreInputs

SAMPLE_US = 2000.0
"""A sample takes at least about this long, in as many calls as that needs."""
MOST_CALLS = 3000
"""Calls in one sample, at most."""
MOST_UPDATES = 24
"""Calls in a sample of an operator that updates its inputs: values must not run away."""
LEAST_SAMPLES = 3
"""Samples, at least, however little time is left."""
MIN_CACHED_GAIN_US = 1000.0
"""Smallest difference that indicates cached results; caches and schedulers make smaller ones."""
LATER_CALLS = 9
"""On values seen before, in a trial: enough for a busy machine to delay one or two of them."""
RESOLUTION_US = 1.0
"""Differences of round trips below this are noise."""


def sample_cpu(trial: Trial) -> None:
    """Time one process of one candidate on the CPU."""
    slot, measured, mutates = trial.slot, trial.measured, trial.task.mutates
    order = list(range(SETS))
    empty = min(_wall(slot, [])[0] for _ in range(9))
    first, outputs = _wall(slot, order, keep=True)
    check_calls(trial, outputs, order)
    if not measured.verdict.ok:
        return
    each = max((first - empty) / SETS, 0.05)
    many = _enough_calls(slot, order, empty, MOST_UPDATES if mutates else MOST_CALLS)
    samples: list[float] = []
    end = time.monotonic() + trial.seconds
    while len(samples) < trial.plan.samples or is_noisy(samples):
        if mutates:
            slot.ask(RestoreInputs())
        samples.append(max(_wall(slot, many)[0] - empty, RESOLUTION_US) / len(many))
        if time.monotonic() > end and len(samples) >= LEAST_SAMPLES:
            break
    if mutates:
        slot.ask(RestoreInputs())
    _, outputs = _wall(slot, order, keep=True)
    check_calls(trial, outputs, order)
    measured.add("cpu-v1", samples, "evaluator")

    def first_and_later() -> tuple[list[float], list[float]]:
        walls = []
        for _ in range(1 + LATER_CALLS):
            walls.append((_wall(slot, order)[0] - empty) / SETS)
            if mutates:
                slot.ask(RestoreInputs())
        return walls[:1], walls[1:]

    suspicious = looks_cached([each], samples, MIN_CACHED_GAIN_US)
    if suspicious and is_cached(slot, trial.sets, first_and_later, MIN_CACHED_GAIN_US):
        measured.verdict.fail("cheating", CACHED_REASON)


def _enough_calls(slot: WorkerSlot, order: list[int], empty: float, most: int) -> list[int]:
    """Calls that together take about as long as a sample should."""
    many = order
    while len(many) < most and _wall(slot, many)[0] - empty < SAMPLE_US:
        many = many * 4
    return many[:most]


def _wall(
    slot: WorkerSlot, order: list[int], *, keep: bool = False
) -> tuple[float, list[list[OutputFacts]]]:
    """Microseconds from the request to its reply, and the outputs that are kept."""
    start = time.perf_counter()
    reply = slot.ask(CallSets(order, keep))
    return 1e6 * (time.perf_counter() - start), reply.outputs
