"""The page of a diagnosis: what changed between two runs, with their steps and sensors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from solscope.attribution import Attributed
from solscope.diagnose.changes.counters import by_key, series
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.observe import observe
from solscope.pages.severity import Severity, of_diagnosis
from solscope.readers.packed import Counter, Observations
from solscope.views.verdict import Figure


class StepTime(msgspec.Struct, frozen=True):
    """One step of a run."""

    start_ms: float
    """From the start of the run's first step."""
    time_ms: float
    phase: str | None
    whole: bool
    """False for a step that the recording shows only in part."""


class SensorLine(msgspec.Struct, frozen=True):
    """One sensor in both runs, over the time of their steps."""

    name: str
    device: int | None
    times_ms: list[list[float]]
    values: list[list[float]]
    """Readings, or rates of a count that grows, in the unit that the diagnosis names."""


class DiagnosisPage(msgspec.Struct, frozen=True, tag="diagnosis", tag_field="kind"):
    """What changed between two runs, and why."""

    title: str
    labels: list[str]
    diagnosis: Diagnosis
    figures: list[Figure]
    """Of the verdict, with the names of the runs."""
    severity: Severity
    """Of the verdict."""
    steps: list[list[StepTime]]
    """Of the normal and of the abnormal run."""
    sensors: list[SensorLine]


def diagnosis_page(runs: Sequence[Attributed], labels: Sequence[str]) -> DiagnosisPage:
    """A normal and an abnormal run."""
    observed = [observe(run) for run in runs]
    found = diagnose_runs(observed[0], observed[1])
    names = dict(zip(("normal", "abnormal"), labels, strict=True))
    return DiagnosisPage(
        title=" → ".join(labels),
        labels=list(labels),
        diagnosis=found,
        figures=[
            replace(figure, name=names.get(figure.name, figure.name)) for figure in found.figures
        ],
        severity=of_diagnosis(found),
        steps=[
            [
                StepTime(step.start_ns / 1e6, step.wall_ns / 1e6, step.phase, step.whole)
                for step in run.steps
            ]
            for run in observed
        ],
        sensors=_sensors(observed),
    )


def _sensors(observed: Sequence[Observations]) -> list[SensorLine]:
    sides = [by_key(run) for run in observed]
    keys = sorted({key for side in sides for key in side}, key=str)
    return [_sensor(observed, [side.get(key) for side in sides], *key) for key in keys]


def _sensor(
    observed: Sequence[Observations],
    counters: Sequence[Counter | None],
    name: str,
    device: int | None,
) -> SensorLine:
    lines = [series(run, counter) for run, counter in zip(observed, counters, strict=True)]
    return SensorLine(
        name=name,
        device=device,
        times_ms=[line.times_ms.tolist() for line in lines],
        values=[line.values.tolist() for line in lines],
    )
