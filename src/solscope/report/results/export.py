"""`solscope export`: the files that were written."""

from __future__ import annotations

from typing import TypedDict

from solscope.export.files import Written
from solscope.report.forms import Screen, form


class Exported(TypedDict):
    """The files of `solscope export`."""

    written: list[Written]
    redacted: dict[str, int] | None


@form("export", Exported)
def _exported(result: Exported, _: Screen, *, to_stdout: bool) -> str | None:
    """Their names; nothing where one of them is standard output."""
    return None if to_stdout else "\n".join(written.path for written in result["written"])
