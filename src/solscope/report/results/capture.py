"""`solscope capture` in the terminal: what was recorded, and which sensors there are."""

from __future__ import annotations

from typing import Any

from solscope.capture.attach import Recording
from solscope.capture.sensors import Sensors
from solscope.text import clean


def render_recording(recording: Recording) -> str:
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


def render_sensors(found: Sensors, *, width: int, color: bool) -> str:
    """The sensors that can be read here, with their metrics, and those that cannot."""
    from solscope.report.layout.lines import Printable, Text
    from solscope.report.layout.tables import Column, heading, table, to_text

    columns = [Column("sensor", text=True), Column("metrics", text=True)]
    rows = [(_title(sensor), ", ".join(sensor.metrics)) for sensor in found.present]
    parts: list[Printable] = [heading("sensors"), table(columns, rows, width, whole=True)]
    if found.missing:
        reasons = [(missing.name, missing.reason) for missing in found.missing]
        columns = [Column("sensor", text=True), Column("why", text=True)]
        parts += [Text(""), heading("missing"), table(columns, reasons, width, whole=True)]
    return to_text(parts, width, color)


def sensors_json(found: Sensors) -> dict[str, Any]:
    """The same for machines."""
    present = [{"name": _title(sensor), "metrics": sensor.metrics} for sensor in found.present]
    return {"sensors": present, "missing": found.missing}


def _title(sensor: Any) -> str:
    device = getattr(sensor, "device", None)
    return f"{sensor.name}, {device}" if device else str(sensor.name)
