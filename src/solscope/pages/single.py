"""The page of one recording on its own: is it steady, and what sets its slow steps apart?"""

from __future__ import annotations

from typing import Literal

import msgspec

from solscope.attribution import Attributed
from solscope.diagnose.changes.counters import by_key, meaning, series
from solscope.diagnose.observe import observe
from solscope.diagnose.single import SingleDiagnosis, diagnose_run, looked_at
from solscope.pages.diagnosis import SensorLine
from solscope.pages.severity import Severity, of_run
from solscope.readers.metric_kinds import metric_kind
from solscope.readers.packed import Observations


class StepOfRun(msgspec.Struct, frozen=True):
    """One step of the recording."""

    number: int
    """As in the profile."""
    start_ms: float
    """From the start of the first step."""
    time_ms: float
    """To the start of the next step."""
    phase: str | None
    looked_at: bool
    """False for a step that the diagnosis leaves out."""


class RunSensor(msgspec.Struct, frozen=True):
    """One sensor over the time of the steps."""

    line: SensorLine
    unit: str
    part: Literal["driver", "consequence"]
    """Whether it can make a run slow, or only shows that it is."""


class SinglePage(msgspec.Struct, frozen=True, tag="single", tag_field="kind"):
    """What one recording shows of itself."""

    title: str
    diagnosis: SingleDiagnosis
    severity: Severity
    """Of the verdict."""
    steps: list[StepOfRun]
    sensors: list[RunSensor]


def single_page(recorded: Attributed) -> SinglePage:
    """One recording."""
    run = observe(recorded)
    rows = set(looked_at(run).tolist())
    found = diagnose_run(run, path=recorded.profile.path)
    return SinglePage(
        title=run.run.name,
        diagnosis=found,
        severity=of_run(found),
        steps=[
            StepOfRun(step.number, step.start_ns / 1e6, step.wall_ns / 1e6, step.phase, row in rows)
            for row, step in enumerate(run.steps)
        ],
        sensors=_sensors(run),
    )


def _sensors(run: Observations) -> list[RunSensor]:
    """Drivers first."""
    found = []
    for (name, device), counter in sorted(by_key(run).items(), key=str):
        about = meaning(name, metric_kind(name).counter, in_cycles=run.anchor is not None)
        line = series(run, counter)
        values = SensorLine(name, device, [line.times_ms.tolist()], [line.values.tolist()])
        found.append(RunSensor(values, about.unit, about.part))
    return sorted(found, key=lambda sensor: sensor.part != "driver")
