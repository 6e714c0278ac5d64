"""`solscope doctor` in the terminal."""

from __future__ import annotations

from solscope.environment import Capability, Environment
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, heading, table
from solscope.text import clean


@form("doctor", Environment)
def doctor_parts(environment: Environment, screen: Screen) -> list[Printable]:
    """All findings, grouped."""
    parts: list[Printable] = [
        Text(
            f"solscope {environment.version}, Python {environment.python}, "
            f"{clean(environment.platform)}"
        ),
        Text(f"reader core: {environment.reader_core} ({environment.reader_core_why})"),
        Text(f"cache: {clean(environment.cache.detail)}"),
    ]
    for title, group in (
        ("formats", environment.readers),
        ("packages", environment.packages),
        ("extras", environment.extras),
        ("tools on PATH", environment.tools),
        ("sensors", environment.sensors),
    ):
        parts += [Text(""), heading(title), _parts(group, screen.width)]
    parts += [
        Text(""),
        heading("GPUs"),
        *(Text(clean(gpu)) for gpu in environment.gpus or ["none found"]),
    ]
    return parts


def _parts(group: list[Capability], width: int) -> Printable:
    columns = [Column("", text=True), Column("", text=True), Column("", text=True)]
    rows = [("yes" if check.ok else "no", check.name, check.detail) for check in group]
    out = table(columns, rows, width)
    out.show_header = False
    return out
