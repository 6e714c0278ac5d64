"""`solscope report`: the file that was written."""

from __future__ import annotations

from typing import TypedDict

from solscope.report.forms import Screen, form


class WrittenReport(TypedDict):
    """The file of `solscope report`."""

    written: str
    bytes: int
    pages: int


@form("report", WrittenReport)
def _written(result: WrittenReport, _: Screen, *, to_stdout: bool) -> str | None:
    """Its name and size; nothing where it is standard output."""
    return None if to_stdout else f"{result['written']} ({result['bytes'] / 1e6:.2f} MB)"
