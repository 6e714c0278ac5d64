"""`solscope capture` in the terminal: what was recorded, and which sensors there are."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from solscope.capture.attach import Recording
from solscope.capture.sensors import Missing, Sensors
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, heading, table
from solscope.text import clean


class Sensor(msgspec.Struct, frozen=True):
    """A sensor that can be recorded."""

    name: str
    metrics: list[str]


@form("capture", Recording)
def recording_text(recording: Recording, _: Screen) -> str:
    """A few lines about a recording that has ended."""
    lines = [
        f"{recording.path}: {recording.samples:,} samples of process {recording.pid} "
        f"in {recording.seconds:.1f} s; "
        f"the sampler used {recording.sampler_cpu_pct:.2f} % of a core"
    ]
    lines += [f"missing: {sensor.name}: {sensor.reason}" for sensor in recording.missing]
    lines += [f"lost on the way: {name}: {reason}" for name, reason in recording.lost.items()]
    if recording.command_failed:
        lines.append(f"the command ended with exit code {recording.exit_code}")
    return "\n".join(clean(line) for line in lines)


class SensorList(TypedDict):
    """The sensors of `solscope capture --list`."""

    sensors: list[Sensor]
    missing: list[Missing]


def sensor_list(sensors: Sensors) -> SensorList:
    """The sensors that can be read here, and those that cannot."""
    present = [Sensor(_title(sensor), list(sensor.metrics)) for sensor in sensors.present]
    return {"sensors": present, "missing": sensors.missing}


@form("capture_list", SensorList)
def sensors_parts(result: SensorList, screen: Screen) -> list[Printable]:
    """The sensors that can be read here, with their metrics, and those that cannot."""
    columns = [Column("sensor", text=True), Column("metrics", text=True)]
    rows = [(sensor.name, ", ".join(sensor.metrics)) for sensor in result["sensors"]]
    parts: list[Printable] = [heading("sensors"), table(columns, rows, screen.width, whole=True)]
    if result["missing"]:
        reasons = [(missing.name, missing.reason) for missing in result["missing"]]
        columns = [Column("sensor", text=True), Column("why", text=True)]
        parts += [Text(""), heading("missing"), table(columns, reasons, screen.width, whole=True)]
    return parts


def _title(sensor: Any) -> str:
    device = getattr(sensor, "device", None)
    return f"{sensor.name}, {device}" if device else str(sensor.name)
