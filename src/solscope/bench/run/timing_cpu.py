"""Method `cpu-v1`: the evaluator's own clock around requests of several calls.

The round trip of an empty request is taken off. The clock is not in the candidate's process.
"""

from __future__ import annotations

import time
from typing import Any

from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.slot import Seat
from solscope.bench.run.statistics import is_noisy
from solscope.bench.run.timed_calls import check_calls
from solscope.bench.run.timing import (
    REMEMBERS,
    SETS,
    Measured,
    Plan,
    Round,
    recalled,
    recalls,
)

SAMPLE_US = 2000.0
"""A sample takes at least about this long, in as many calls as that needs."""
MOST_CALLS = 3000
MOST_UPDATES = 24
"""Calls in a sample of an operator that updates its inputs: values must not run away."""
LEAST_SAMPLES = 3
RECALL_US = 1000.0
"""Smallest difference that indicates cached results; caches and schedulers make smaller ones."""
LATER_CALLS = 9
"""On values seen before, in a trial: enough for a busy machine to delay one or two of them."""
RESOLUTION_US = 1.0
"""Differences of round trips below this are noise."""


def sample_cpu(
    seat: Seat, sets: InputSets, part: Round, measured: Measured, plan: Plan, seconds: float
) -> None:
    """Time one process of one candidate on the CPU."""
    task = seat.candidate.task
    order = list(range(SETS))
    empty = min(_wall(seat, [])[0] for _ in range(9))
    first, reply = _wall(seat, order, keep=True)
    check_calls(seat, sets, part.right, reply["outputs"], order, measured.verdict)
    if not measured.verdict.ok:
        return
    each = max((first - empty) / SETS, 0.05)
    many = _enough_calls(seat, order, empty, MOST_UPDATES if task.mutates else MOST_CALLS)
    samples: list[float] = []
    end = time.monotonic() + seconds
    while len(samples) < plan.samples or is_noisy(samples):
        if task.mutates:
            seat.ask("restore")
        samples.append(max(_wall(seat, many)[0] - empty, RESOLUTION_US) / len(many))
        if time.monotonic() > end and len(samples) >= LEAST_SAMPLES:
            break
    if task.mutates:
        seat.ask("restore")
    _, reply = _wall(seat, order, keep=True)
    check_calls(seat, sets, part.right, reply["outputs"], order, measured.verdict)
    measured.add("cpu-v1", samples, "evaluator")

    def trial() -> tuple[list[float], list[float]]:
        walls = []
        for _ in range(1 + LATER_CALLS):
            walls.append((_wall(seat, order)[0] - empty) / SETS)
            if task.mutates:
                seat.ask("restore")
        return walls[:1], walls[1:]

    if recalled([each], samples, RECALL_US) and recalls(seat, sets, trial, RECALL_US):
        measured.verdict.fail("cheating", REMEMBERS)


def _enough_calls(seat: Seat, order: list[int], empty: float, most: int) -> list[int]:
    """Calls that together take about as long as a sample should."""
    many = order
    while len(many) < most and _wall(seat, many)[0] - empty < SAMPLE_US:
        many = many * 4
    return many[:most]


def _wall(seat: Seat, order: list[int], *, keep: bool = False) -> tuple[float, dict[str, Any]]:
    """Microseconds from the request to its reply."""
    start = time.perf_counter()
    reply = seat.ask("calls", order=order, keep=keep)
    return 1e6 * (time.perf_counter() - start), reply
