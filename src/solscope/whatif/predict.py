"""The step of a scenario: every call in its new size, then the host around them.

The step takes as long as the slower of two paths. The path of the GPU is the time of the calls, the
gaps between them and the idle time between steps; the path of the host is the recorded one, less
its waiting for the GPU. Graphs remove the path of the host and leave the time between steps; a
queue that never runs empty has neither. What the recording takes beyond both paths stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2

import msgspec

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis
from solscope.errors import InputError
from solscope.hardware import Hardware
from solscope.operators.from_config import Model
from solscope.whatif.assumptions import assumptions
from solscope.whatif.call_work import (
    costed_pct,
    is_costed,
    least,
    refuse_unknown_peak,
    work_us,
)
from solscope.whatif.ranks import (
    check_ranks,
    collectives_us,
    communication_share,
    more_collectives,
)
from solscope.whatif.recorded_step import Line, RecordedStep, recorded_step, usual_gap_us
from solscope.whatif.scaling import PRODUCTS, in_dtype, rescale, share_out
from solscope.whatif.scenario import Scenario
from solscope.whatif.timing import (
    ATTAINABLE,
    DTYPE_NOISE,
    GPU_NOISE,
    HOST_NOISE,
    NOISE,
    QUANTIZE_US,
    Range,
    carried_over,
    exactly,
)

LEAST_PRICED_PCT = 50.0
"""With a smaller share of the GPU time costed, sizes and peaks say little about the step."""
KNEE_GAIN = 1.5
"""A doubled batch that gives less than this many times the tokens is beyond the knee."""


class Stage(msgspec.Struct, frozen=True):
    """One bar of the waterfall: what one change gives, after those before it."""

    change: str
    step_ms: float
    """Predicted step after this change."""
    saved_ms: float
    """Negative where it costs time."""


class PredictedLine(msgspec.Struct, frozen=True):
    """One operator of the step, all its calls together."""

    operator: str
    recorded_us: float
    predicted_us: float
    low_us: float
    high_us: float


class Prediction(msgspec.Struct, frozen=True):
    """A recorded step under one scenario."""

    scenario: str
    hardware: str
    recorded_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    """The interval; see the docs for how often it holds."""
    speedup: float
    gpu_ms: float
    """Predicted GPU time of a step."""
    limited_by: str
    """`gpu` or `host`: the slower path; `host` also where the GPU waits longer than it works."""
    batch: int | None
    context: float | None
    tokens_per_s: float | None
    """Decode only: requests over the step."""
    waterfall: list[Stage]
    operators: list[PredictedLine]
    """Largest change first."""
    priced_pct: float
    """Share of the GPU time whose cost is known; the rest stays as recorded."""
    assumptions: list[str]


class Predictions(msgspec.Struct, frozen=True):
    """Scenarios of one recorded step, side by side."""

    profile: str
    phase: str | None
    steps: int
    """Steps that the recorded step is the mean of; 0 for a recording without steps."""
    basis: StepBasis
    """These steps, and which ones were left out."""
    hardware: str
    recorded_ms: float
    """Step time: mean from the start of a step to the start of the next."""
    recorded_gpu_ms: float
    """GPU busy: the part of it in which anything runs."""
    batch: int | None
    context: float | None
    predictions: list[Prediction]
    knee: int | None
    """Of a sweep over the batch: the largest batch up to which doubling pays; null without one."""


def predict_many(
    attributed: Attributed,
    scenarios: Sequence[Scenario],
    model: Model | None = None,
    hardware: Hardware | None = None,
) -> Predictions:
    """Predict the usual step for each scenario; `hardware` is that of the profile unless given."""
    step = recorded_step(attributed, model, hardware)
    predictions = [predict(step, scenario) for scenario in scenarios]
    return Predictions(
        profile=step.profile,
        phase=step.phase,
        steps=step.basis.steps,
        basis=step.basis,
        hardware=step.card.name,
        recorded_ms=step.wall_us / 1e3,
        recorded_gpu_ms=step.busy_us / 1e3,
        batch=step.batch,
        context=step.context,
        predictions=predictions,
        knee=_knee(predictions),
    )


def predict(step: RecordedStep, scenario: Scenario) -> Prediction:
    """One scenario of a recorded step."""
    _check(step, scenario)
    times = [(line, _line_time(line, step, scenario)) for line in step.lines]
    gpu = _gpu(step, scenario, times)
    wall = _wall(step, scenario, gpu)
    stages, before = [], step.wall_us
    for change, reached in scenario.stages():
        after = _wall(
            step,
            reached,
            _gpu(step, reached, [(n, _line_time(n, step, reached)) for n in step.lines]),
        ).middle
        stages.append(Stage(change, after / 1e3, (before - after) / 1e3))
        before = after
    batch = scenario.batch or step.batch
    decode = step.phase == "decode" and batch is not None
    card = scenario.gpu or step.card
    return Prediction(
        scenario=scenario.label,
        hardware=card.name,
        recorded_ms=step.wall_us / 1e3,
        predicted_ms=wall.middle / 1e3,
        low_ms=wall.low / 1e3,
        high_ms=wall.high / 1e3,
        speedup=step.wall_us / wall.middle if wall.middle else 1.0,
        gpu_ms=gpu.middle / 1e3,
        limited_by=_limit(step, scenario, gpu.middle, wall.middle),
        batch=batch,
        context=scenario.context or step.context,
        tokens_per_s=1e6 * batch / wall.middle if decode and batch else None,
        waterfall=stages,
        operators=_operators(times),
        priced_pct=costed_pct(step),
        assumptions=assumptions(step, scenario),
    )


def _check(step: RecordedStep, scenario: Scenario) -> None:
    resized = (scenario.gpu, scenario.dtype, scenario.tp, scenario.batch, scenario.context)
    if any(change is not None for change in resized) and costed_pct(step) < LEAST_PRICED_PCT:
        raise InputError(
            f"{step.profile}: the cost of only {costed_pct(step):.1f} % of the GPU time is known, "
            "too little to predict other sizes or GPUs; add --with an eager profile, or --model "
            "CONFIG"
        )
    if scenario.batch is not None and step.batch is None:
        raise InputError(
            f"{step.profile}: the batch was not recorded, so --batch has nothing to scale from; "
            "record shapes, or give --model and --recorded-batch"
        )
    if scenario.context is not None and step.context is None:
        raise InputError(
            f"{step.profile}: the context was not recorded, so --context has nothing to scale "
            "from; record shapes, or give --model and --recorded-context"
        )
    if scenario.context is not None and step.phase != "decode":
        raise InputError(
            f"{step.profile}: --context is for decode steps; most time is in {step.phase}"
        )
    names = {line.kind.operator for line in step.lines} | {line.name for line in step.lines}
    for name in scenario.reach:
        if name not in names:
            present = ", ".join(
                sorted({str(n.kind.operator) for n in step.lines if n.kind.operator})
            )
            raise InputError(f"{step.profile}: no operator {name!r} in this step; it has {present}")
    check_ranks(step, scenario)
    card = scenario.gpu or step.card
    for line in step.lines:
        if is_costed(line, step.card):
            after = least(str(line.kind.operator), _axes(line, step, scenario), card)
            refuse_unknown_peak(line, after, card, scenario.dtype)


def _line_time(line: Line, step: RecordedStep, scenario: Scenario) -> Range:
    """Time of the calls of a line per step."""
    share = communication_share(line, step, scenario)
    return _sized(line, step, scenario).times(share)


def _sized(line: Line, step: RecordedStep, scenario: Scenario) -> Range:
    """Time of the calls of a line per step in their new sizes."""
    time = line.time_us
    if line.kind.operator is None or line.kind.cost is None:
        return exactly(line.calls * time)
    name = line.kind.operator
    was = least(name, line.kind.axes, step.card)
    works = work_us(was, least(name, _axes(line, step, scenario), scenario.gpu or step.card))
    if works is None:
        return exactly(line.calls * time)
    before, after = works
    estimate = carried_over(time, before, after)
    if scenario.dtype is not None and name in PRODUCTS and before != after:
        estimate = Range(
            estimate.low * (1 - DTYPE_NOISE), estimate.middle, estimate.high * (1 + DTYPE_NOISE)
        )
    share = scenario.reach.get(name, scenario.reach.get(line.name))
    if share is not None:
        estimate = Range(*(min(value, max(after / share, 0.0)) for value in estimate))
    estimate = estimate * line.calls
    if scenario.fuse and line.fused_us:
        left = 1 - line.fused_us / (line.calls * time)
        estimate = estimate * left
    return estimate


def _axes(line: Line, step: RecordedStep, scenario: Scenario) -> dict[str, object]:
    name, axes = str(line.kind.operator), line.kind.axes
    if scenario.dtype is not None:
        axes = in_dtype(name, axes, scenario.dtype)
    if scenario.tp is not None:
        axes = share_out(name, axes, line.role, scenario.tp / step.ranks)
    batch = scenario.batch / step.batch if scenario.batch and step.batch else 1.0
    context = scenario.context / step.context if scenario.context and step.context else 1.0
    return rescale(name, axes, batch, context)


def _gpu(step: RecordedStep, scenario: Scenario, times: list[tuple[Line, Range]]) -> Range:
    """GPU time of a step; kernels that ran at once go on doing so."""
    total = exactly(0.0)
    for _, time in times:
        total = total.plus(time)
    total = total * (1 / step.overlapped)
    if scenario.dtype is not None:
        total = total.plus(_quantizing(step, scenario))
    total = total.plus(collectives_us(step, scenario))
    if scenario == Scenario():
        return total
    noise = NOISE if scenario.gpu is None else GPU_NOISE
    return Range(total.low * (1 - noise), total.middle, total.high * (1 + noise))


def _quantized(step: RecordedStep, scenario: Scenario) -> list[Line]:
    """Lines whose inputs a narrower dtype makes someone quantize."""
    dtype = scenario.dtype
    return [
        line
        for line in step.lines
        if dtype in ("fp4", "fp8")
        and line.kind.operator in PRODUCTS
        and line.kind.axes.get("dtype") in ("bf16", "fp16")
    ]


def _quantizing(step: RecordedStep, scenario: Scenario) -> Range:
    """Time per step of quantizing the inputs of products: a tiny kernel, and bytes at HBM."""
    rate = (scenario.gpu or step.card).value("hbm.bandwidth")
    total = exactly(0.0)
    for line in _quantized(step, scenario):
        axes = _axes(line, step, scenario)
        rows, inner = axes.get("m", axes.get("tokens", 1)), axes.get("k", 0)
        moved = 3.0 * float(str(rows)) * float(str(inner))
        streamed = 0.0 if rate is None else 1e6 * moved / rate / ATTAINABLE
        own = Range(*(base + streamed if base else 0.0 for base in QUANTIZE_US))
        total = total.plus(own * line.calls)
    return total


def _host(step: RecordedStep, scenario: Scenario) -> float:
    """The path of the host; it launches added collectives as fast as other kernels."""
    if scenario.graphs or scenario.no_host_gaps:
        return 0.0
    return step.host_us * (1 + more_collectives(step, scenario) / max(1.0, step.kernels))


def _gpu_path(step: RecordedStep, scenario: Scenario, gpu: float) -> float:
    kernels = step.kernels
    if scenario.fuse:
        kernels -= sum(line.calls * line.kernels for line in step.lines if line.fused_us) / 2
    kernels += sum(line.calls for line in _quantized(step, scenario))
    kernels += more_collectives(step, scenario)
    gap = usual_gap_us(scenario.gpu or step.card)
    gaps = step.gaps_us + (kernels - step.kernels) * gap if step.replayed else kernels * gap
    if scenario.no_host_gaps:
        gaps = min(gaps, kernels * gap)
    return gpu + gaps


def _between(step: RecordedStep, scenario: Scenario) -> float:
    """Idle time between steps; a queue that never runs empty has none."""
    return 0.0 if scenario.no_host_gaps else step.between_us


def _limit(step: RecordedStep, scenario: Scenario, gpu_us: float, wall_us: float) -> str:
    """The longer path; the host as well where the GPU waits for longer than it works."""
    path = _gpu_path(step, scenario, gpu_us)
    longer = _host(step, scenario) > path + _between(step, scenario)
    return "host" if longer or wall_us > 2 * path else "gpu"


def _wall(step: RecordedStep, scenario: Scenario, gpu: Range) -> Range:
    """The slower path, and what the recording takes beyond both."""
    if scenario == Scenario():
        return exactly(step.wall_us)
    recorded = max(step.host_us, _gpu_path(step, Scenario(), step.busy_us) + step.between_us)
    removed = scenario.graphs or scenario.no_host_gaps
    rest = 0.0 if removed else step.wall_us - recorded
    host = _host(step, scenario)

    def longer(gpu_us: float, factor: float) -> float:
        path = _gpu_path(step, scenario, gpu_us) + factor * _between(step, scenario)
        return max(factor * host, path) + rest

    return Range(
        longer(gpu.low, 1 / HOST_NOISE), longer(gpu.middle, 1.0), longer(gpu.high, HOST_NOISE)
    )


def _operators(times: list[tuple[Line, Range]]) -> list[PredictedLine]:
    times_of: dict[str, tuple[float, Range]] = {}
    for line, time in times:
        name = line.kind.operator or line.name
        recorded, total = times_of.get(name, (0.0, exactly(0.0)))
        times_of[name] = (recorded + line.calls * line.time_us, total.plus(time))
    rows = [PredictedLine(n, was, t.middle, t.low, t.high) for n, (was, t) in times_of.items()]
    return sorted(rows, key=lambda row: -abs(row.predicted_us - row.recorded_us))


def _knee(predictions: list[Prediction]) -> int | None:
    """The last batch of a sweep up to which doubling gives `KNEE_GAIN` times the tokens."""
    points = [(p.batch, p.tokens_per_s) for p in predictions if p.batch and p.tokens_per_s]
    batches = [batch for batch, _ in points]
    if len(points) < 3 or batches != sorted(set(batches)):
        return None
    knee = batches[0]
    for (batch, rate), (more, higher) in pairwise(points):
        if log2(higher / rate) < log2(KNEE_GAIN) * log2(more / batch):
            return knee
        knee = more
    return None
