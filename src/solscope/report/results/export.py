"""`solscope export`: the files that were written."""

from __future__ import annotations

from textwrap import fill
from typing import TypedDict

from solscope.export.files import Written
from solscope.export.runs import AlignedRun
from solscope.report.forms import Screen, form
from solscope.report.layout.quantities import counted
from solscope.run import listed


class Exported(TypedDict):
    """The files of `solscope export`."""

    written: list[Written]
    redacted: dict[str, int] | None
    run: AlignedRun | None
    """For the ranks of a run."""


@form("export", Exported)
def _exported(result: Exported, screen: Screen, *, to_stdout: bool) -> str | None:
    """Their names, and what is in the file of a run; nothing for standard output."""
    if to_stdout:
        return None
    paths = "\n".join(written.path for written in result["written"])
    run = result["run"]
    return paths if run is None else f"{paths}\n{fill(_describe(run), screen.width)}"


def _describe(run: AlignedRun) -> str:
    clock = "their clocks as recorded, because the ranks share too few collectives to align them"
    if run.clock != "durations":
        error = "" if run.clock_error_us is None else f" within {run.clock_error_us:,.1f} µs"
        clock = f"on one clock{error}"
    ranks = counted(len(run.ranks) - len(run.without_step), "rank")
    text = f"{ranks}, {clock}; {counted(run.collectives, 'collective')} joined by arrows"
    if run.without_step:
        text += f"; rank {listed(run.without_step)} did not record this step"
    if run.left_out:
        parts = ", ".join(f"{count:,} of kind {kind}" for kind, count in run.left_out.items())
        text += (
            f"; left out, because viewers cannot open more: {parts} (--step N has all of a step)"
        )
    return text
