"""`solscope show` of the ranks of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.report.results.show.lines import coverage_line, warnings_by_name
from solscope.views.runs import Run, computes_longest
from solscope.views.summary import Summary


def show_run(run: Run, members: Sequence[Summary], width: int) -> list[Printable]:
    """The ranks of a run, and what is unsafe about each."""
    longest = computes_longest(run)
    columns = [
        Column("rank", text=True),
        *numbers(("kernels", 3), ("span ms", 2), "busy", "compute ms", ("comm ms", 1), "exposed"),
        Column("GPU", text=True),
    ]
    rows = [
        (
            f"{row.rank}" + (" *" if row.rank in longest else ""),
            f"{row.kernels:,}",
            number(row.gpu_span_ms),
            pct(row.gpu_busy_pct),
            number(row.compute_ms),
            number(row.comm_ms),
            pct(row.exposed_comm_pct),
            row.device,
        )
        for row in run.ranks
    ]
    size = f" of {run.world_size}" if run.world_size else ""
    parts: list[Printable] = [
        heading(f"{_title(run)}: {len(run.ranks)} ranks{size}"),
        table(columns, rows, width),
    ]
    if longest:
        parts.append(Text("* computes longest"))
    parts += _skew_lines(run, width)
    if run.missing:
        missing = ", ".join(map(str, run.missing))
        parts.append(Text(f"no file for rank {missing}", style="yellow"))
    ordered = sorted(members, key=lambda s: s.rank or 0)
    names = [f"rank {s.rank}" for s in ordered]
    return [*parts, Text(""), Text(coverage_line(*ordered)), *warnings_by_name(ordered, names)]


def _title(run: Run) -> str:
    """The name that the files have in common, else that of their folder."""
    path = Path(run.name)
    while path.name.startswith("*") and path.parent.name:
        path = path.parent
    return path.name


def _skew_lines(run: Run, width: int) -> list[Printable]:
    """Waiting in collectives, or why it is not known."""
    if run.skew is None:
        return []
    if run.skew.reason is not None:
        return [Text(f"waiting in collectives: cannot tell, {run.skew.reason}")]
    columns = [
        Column("rank", text=True),
        *numbers("collectives", "transfer ms", "wait ms"),
    ]
    rows = [
        (str(r.rank), f"{r.collectives:,}", number(r.transfer_ms, 3), number(r.wait_ms, 3))
        for r in run.skew.ranks
    ]
    # Sums over a whole recording hold the start of every rank's profiler: they name nobody.
    why = "waiting in collectives, start of the recording included"
    hint = Text("Run `solscope ranks` on these files to find the rank that the others wait for.")
    return [Text(""), heading(why), table(columns, rows, width), hint]
