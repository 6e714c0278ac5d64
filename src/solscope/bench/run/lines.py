"""From what was found to the line of a results file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from solscope.bench.base import EVALUATOR, Sensors, ShapeResult, Status, Timing
from solscope.bench.bounds import MIN_SHARE_OF_BOUND, ShapeBound, shape_bound
from solscope.bench.pool.slot import Candidate
from solscope.bench.run.correctness import Checked
from solscope.bench.run.statistics import median
from solscope.bench.run.timing import Measured
from solscope.bench.workloads import DEFAULT_SUITE, Workload
from solscope.hardware import Hardware
from solscope.operators.base import Axes, Operator


@dataclass(frozen=True)
class Lines:
    """Makes the lines of one run."""

    device: str
    method: str
    scale: float
    hardware: Hardware | None
    about: dict[str, Any]

    def bound(self, operator: Operator, shape: Workload, realized: Axes) -> ShapeBound:
        """The bound of a shape, by the axes that its inputs realized."""
        published = shape.suite == DEFAULT_SUITE and self.scale == 1
        return shape_bound(operator, shape.axes, realized, self.hardware, published=published)

    def checked(
        self,
        candidate: Candidate,
        shape: Workload,
        checked: Checked,
        bound: ShapeBound,
        status: Status,
        reason: str | None,
    ) -> ShapeResult:
        """A line without times."""
        verdict = checked.verdict(shape.shape)
        return ShapeResult(
            operator=candidate.operator,
            shape=shape.shape,
            solution=candidate.name,
            status=status,
            device=self.device,
            method=self.method,
            reason=reason,
            bound_us=bound.bound_us,
            limiter=bound.limiter,
            published_us=bound.published_us,
            measured_bound_us=bound.measured_bound_us,
            bound_reason=bound.reason,
            max_error=verdict.max_error if verdict.calls else None,
            rms_error=verdict.rms_error,
            reference=checked.reference.get(shape.shape),
            rounds=checked.rounds.get(shape.shape, 0) + checked.extra_cases,
            seeds=checked.seeds.get(shape.shape, []),
            axes=shape.axes,
            scale=self.scale,
            weight=shape.weight,
            calls=shape.calls,
            importance=shape.importance,
            suite=shape.suite,
            solution_hash=candidate.hash,
            run=self.about,
            evaluator=EVALUATOR,
            declined=list(checked.declined),
        )

    def timed(
        self, line: ShapeResult, measured: Measured, sensors: Sensors, seeds: list[int]
    ) -> ShapeResult:
        """The line with its times; the bound is compared here."""
        timings = measured.timings()
        main = timings.get(self.method, Timing())
        status, reason = measured.verdict.status, measured.verdict.reason
        s = line.bound_us / main.median_us if line.bound_us and main.median_us else None
        if status == "passed" and s is not None and s > 1 / MIN_SHARE_OF_BOUND:
            status, reason = "faster_than_bound", "faster than any correct kernel can be"
        return msgspec.structs.replace(
            line,
            status=status,
            reason=reason,
            **main.as_main(),
            iqr_us=main.iqr_us,
            s=s,
            max_error=max(line.max_error or 0.0, measured.verdict.max_error),
            checked_calls=measured.verdict.calls,
            seconds=round(measured.seconds, 3),
            setup_us=median(measured.setup_us) if measured.setup_us else None,
            prepare_us=median(measured.prepare_us) if measured.prepare_us else None,
            sets_checked=measured.sets_checked,
            host_us=median(measured.host_us) if measured.host_us else None,
            methods={
                name: msgspec.structs.replace(t, samples=[] if t is main else t.samples)
                for name, t in timings.items()
            },
            sensors=sensors,
            seeds=[*line.seeds, *seeds],
        )
