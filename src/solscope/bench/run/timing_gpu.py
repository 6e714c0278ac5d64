"""Methods `cold-v1`, `warm-v1` and `graph-v2`.

Cold and warm are device times of single calls, taken in the worker: the evaluator cannot time
another process's kernels. Short calls are timed by Kineto, long ones by events. The graph is timed
here, by the evaluator's clock around replays, and no single call may claim far less than that.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solscope.bench.base import METHODS
from solscope.bench.pool.inputs import InputSets
from solscope.bench.pool.process import WorkerFailed
from solscope.bench.pool.slot import Seat
from solscope.bench.run.statistics import is_noisy, median
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
from solscope.operators.task import Task

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
FLUSH_US = 60.0
"""About what a flush and its surroundings take."""
RECALL_US = 50.0
"""Smallest difference that indicates cached results."""
LAG_US = 60.0
"""Work that continues for longer than this after the stream is done ran elsewhere."""
GRAPH_CALLS = 12
LONG_US = 1000.0
"""From here on a graph holds one call per set."""
GRAPH_SAMPLES = 5
GRAPH_SAMPLE_US = 3000.0
GRAPH_PARTS = 3
"""Runs of the graph in a long request for each in a short one."""
GRAPH_LONG_US = 50_000.0
"""From here on what a request takes by itself does not matter."""
LONG_RUN_US = 50_000.0
LEAST_US = 0.1
"""No call is shorter, whatever it claims."""
MOST_REPLAYS = 1 << 14
CLAIM = 0.5
"""A cold call that claims less than this share of a call in the graph is not believed."""
GRAPH_GAP_US = 3.0
"""Gap between calls in a graph, at most, which the span of a single call does not have."""


def sample_gpu(
    seat: Seat, sets: InputSets, part: Round, measured: Measured, plan: Plan, seconds: float
) -> None:
    """Time one process of one candidate on the GPU."""
    rotation = [[index, True] for index in range(SETS)]
    first = _timed(seat, rotation, FIRST_SPIN_US)
    call_us = median(first["events_us"])
    host_us = median(first["host_us"])
    measured.host_us.append(host_us)
    spin_us = min(max(1.5 * host_us, 10.0), 2000.0)
    singles = [m for m in plan.methods if m != GRAPH]
    if SETS * call_us / 1e6 > seconds / 2:
        samples = _few(seat, sets, part, measured, plan, first)
    else:
        seat.ask("drop")
        pace = Pace(call_us, spin_us, _output_bytes(first["outputs"][0]), seconds)
        samples = _singles(seat, sets, part, measured, plan, pace)

    def trial() -> tuple[list[float], list[float]]:
        times = _timed(seat, rotation * 3, spin_us)["events_us"]
        seat.ask("drop")
        return times[:SETS], times[SETS:]

    suspicious = recalled(first["events_us"], samples[COLD], RECALL_US)
    if suspicious and recalls(seat, sets, trial, RECALL_US):
        measured.verdict.fail("cheating", REMEMBERS)
    for method in singles:
        measured.add(method, samples[method], samples["clock"])
    if GRAPH in plan.methods and measured.verdict.ok:
        why = plan.uncaptured.get(seat.candidate.key)
        if why is None:
            _graph(seat, sets, part, measured, plan, seconds, median(samples[COLD]))
        else:
            measured.reasons[GRAPH] = why


def _timed(
    seat: Seat,
    order: Sequence[Sequence[Any]],
    spin_us: float,
    *,
    kineto: bool = False,
    copied: Sequence[int] = (),
) -> dict[str, Any]:
    """Let the worker time one call per entry [set, cold]."""
    return seat.ask("timed", order=order, kineto=kineto, spin_us=spin_us, copied=copied)


def _copied(sets: InputSets, task: Task, calls: int) -> list[int]:
    """Calls of which updated tensors are copied, so that more than the last ones can be checked.

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
    output_bytes: int
    seconds: float

    def batch(self, most: int, *, warm: bool) -> int:
        """Calls in a batch: no more than the time allows, and than outputs can be kept."""
        per_call = (self.call_us + self.spin_us + FLUSH_US + 40.0) * (2 if warm else 1) / 1e6
        kept = KEPT_BYTES // max(1, self.output_bytes)
        return max(3, min(most, int(self.seconds / per_call), kept))


def _output_bytes(described: Sequence[Mapping[str, Any]]) -> int:
    import torch

    return sum(
        math.prod(facts["shape"]) * getattr(torch, facts["dtype"]).itemsize for facts in described
    )


def _few(
    seat: Seat,
    sets: InputSets,
    part: Round,
    measured: Measured,
    plan: Plan,
    first: dict[str, Any],
) -> dict[str, Any]:
    """Samples of a call that is so long that the first calls use up the time."""
    found: dict[str, Any] = {COLD: first["events_us"], WARM: [], "clock": "events"}
    _check_lag(first, measured)
    check_calls(seat, sets, part.right, first["outputs"], range(SETS), measured.verdict)
    seat.ask("drop")
    if WARM in plan.methods:
        found[WARM] = _timed(seat, [[0, False]] * 2, FIRST_SPIN_US)["events_us"]
        seat.ask("drop")
    return found


def _check_lag(reply: dict[str, Any], measured: Measured) -> None:
    lag = median(reply["lag_us"])
    if lag > LAG_US + 0.1 * median(reply["events_us"]):
        why = f"work continued for {lag:.0f} us after its stream was done"
        measured.verdict.fail("cheating", why)


def _singles(
    seat: Seat, sets: InputSets, part: Round, measured: Measured, plan: Plan, pace: Pace
) -> dict[str, Any]:
    """Cold and warm samples of single calls, batch by batch until the noise is small."""
    warm = WARM in plan.methods
    found: dict[str, Any] = {COLD: [], WARM: [], "clock": "events"}
    short = "kineto" if pace.call_us < SHORT_US else "events"
    kineto = measured.clock.get(COLD, short) == "kineto"
    batch = pace.batch(plan.samples, warm=warm)
    end = time.monotonic() + pace.seconds
    while True:
        cold = [[number % SETS, True] for number in range(batch)]
        order = cold + ([[0, False]] * batch if warm else [])
        copied = _copied(sets, seat.candidate.task, len(order))
        reply = _timed(seat, order, pace.spin_us, kineto=kineto, copied=copied)
        if kineto and "span_us" not in reply:
            measured.reasons["kineto"] = reply.get("span_reason", "")
            kineto = False
        values = reply["span_us"] if kineto else reply["events_us"]
        found["clock"] = "kineto" if kineto else "events"
        found[COLD] += values[:batch]
        found[WARM] += values[batch:]
        if kineto:
            measured.activities = median(reply["activities"])
        _check_lag(reply, measured)
        indices = [index for index, _ in order]
        check_calls(seat, sets, part.right, reply["outputs"], indices, measured.verdict)
        seat.ask("drop")
        done = len(found[COLD])
        quiet = done >= plan.samples and not is_noisy(found[COLD])
        if not measured.verdict.ok or quiet or done >= MOST_SAMPLES or time.monotonic() > end:
            return found


def _graph(
    seat: Seat,
    sets: InputSets,
    part: Round,
    measured: Measured,
    plan: Plan,
    seconds: float,
    cold_us: float,
) -> None:
    """Time a graph of calls by the evaluator's clock, and hold the cold time against it."""
    order = list(range(SETS)) * (GRAPH_CALLS // SETS if cold_us < LONG_US else 1)
    try:
        seat.ask("capture", slow=True, order=order)
    except WorkerFailed as failed:
        if failed.dead:
            raise
        why = f"cannot be captured: {failed.reason}"[:300]
        measured.reasons[GRAPH] = why
        if failed.status != "oom":
            plan.uncaptured[seat.candidate.key] = why
        seat.close()  # a failed capture leaves its process unusable
        return
    samples, whole_us = _graph_samples(seat, len(order), seconds)
    measured.add(GRAPH, samples, "evaluator")
    if not seat.candidate.task.mutates:
        described = seat.ask("described", order=order)["outputs"]
        check_calls(seat, sets, part.right, described, order, measured.verdict)
    if _is_too_little(cold_us, whole_us):
        per_call = _long_run(seat, len(order), cold_us)
        if _is_too_little(cold_us, per_call):
            why = f"claims {cold_us:.1f} us for a call that takes {per_call:.1f} us in a graph"
            measured.verdict.fail("cheating", why)


def _is_too_little(cold_us: float, graph_us: float) -> bool:
    """Whether a single call that takes `graph_us` in a graph cannot be as short as it claims."""
    return cold_us < CLAIM * (graph_us - GRAPH_GAP_US)


def _graph_samples(seat: Seat, calls: int, seconds: float) -> tuple[list[float], float]:
    """Microseconds per call of the captured graph; and of its shortest run, nothing taken off.

    A request takes time of its own, after a long wait more than after a short one, so an empty
    request tells it only about: it is what is left when short and long runs lie on a line. A worker
    that stops in short runs can make that too much, so claims are compared with complete runs.
    """
    _replay(seat, 1)  # the first one uploads the graph
    empty = min(_replay(seat, 0) for _ in range(3))
    enough = min(max(GRAPH_SAMPLE_US, empty), GRAPH_LONG_US / 2)
    times = 1
    while (once := _replay(seat, times) - empty) < enough and times < MOST_REPLAYS:
        times *= 2
    parts = GRAPH_PARTS if once < GRAPH_LONG_US else 1
    short: list[float] = []
    long: list[float] = []
    end = time.monotonic() + seconds
    while len(long) < GRAPH_SAMPLES and (len(long) < 2 or time.monotonic() < end):
        if parts > 1:
            short.append(_replay(seat, times))
        long.append(_replay(seat, parts * times))
    own = request_us(short, long, parts)
    runs = parts * times * calls
    return [(value - own) / runs for value in long], min(long) / runs


def request_us(short: Sequence[float], long: Sequence[float], parts: int) -> float:
    """Time that a request takes beside its runs: `long` is of `parts` times the runs of `short`.

    No more than half of a long request: its runs take longer than a request does by itself.
    """
    if not short:
        return 0.0
    own = (parts * median(short) - median(long)) / (parts - 1)
    return min(max(0.0, own), min(short), min(long) / 2)


def _long_run(seat: Seat, calls: int, cold_us: float) -> float:
    """Microseconds per call, all of the request included, of a run that a true claim makes long.

    Nothing that the worker does can make it look shorter than it was.
    """
    claimed = max(cold_us, LEAST_US) * calls
    times = min(math.ceil(LONG_RUN_US / claimed), MOST_REPLAYS)
    return _replay(seat, times) / (times * calls)


def _replay(seat: Seat, times: int) -> float:
    """Microseconds from the request to its reply."""
    start = time.perf_counter()
    seat.ask("replay", times=times)
    return 1e6 * (time.perf_counter() - start)
