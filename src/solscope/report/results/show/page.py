"""`solscope show` of one profile: a page."""

from __future__ import annotations

from pathlib import Path

from solscope.attribution.usual_steps import OUTLIER
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted, mean_count, micro, number, pct
from solscope.report.layout.sparkline import sparkline
from solscope.report.layout.steps import every_phase
from solscope.report.layout.tables import (
    WIDE,
    Column,
    heading,
    listing,
    numbers,
    table,
    warning_lines,
    with_bars,
)
from solscope.report.results.show.lines import coverage_line, execution_lines, verdict_lines
from solscope.text import clean
from solscope.views.idle import CAUSES
from solscope.views.percent import percent_of
from solscope.views.steps import LEAST_STEPS, StepTimes
from solscope.views.summary import Summary

LINE, LONGEST_LINE = 9, 40
"""Columns of the line of step times: at least, at most."""
STEP_NUMBERS = 89
"""Columns taken by the numbers next to it."""


def show_page(s: Summary, width: int, full_names: bool, times: StepTimes | None) -> list[Printable]:
    """What one profile holds, from the whole down to its kernels."""
    facts = [s.format, *dict.fromkeys(s.devices), s.framework, s.stage, _rank_of(s)]
    title = (clean(Path(s.path).name), "bold")
    parts: list[Printable] = [
        Text.assemble(title, "  ", clean(" · ".join(fact for fact in facts if fact))),
        *verdict_lines(s.verdict),
        Text(""),
        Text(_contents(s)),
        *execution_lines(s.execution),
    ]
    if s.kernel_time_ms or s.gpu_span_ms is not None:
        parts += [Text(""), heading(_times_title(s)), _times(s, width)]
    if len(s.per_device) > 1:
        parts += [Text(""), heading("devices"), _device_table(s, width)]
    if s.categories:
        title_line = heading("where the GPU time goes (share of the time of all activities)")
        parts += [Text(""), title_line, _category_table(s, width, times is not None)]
    if s.steps.phases and s.steps.found_by != "whole_profile":
        parts += [Text(""), heading(_steps_title(s)), _step_table(s, width, times or {})]
        parts += _steps_notes(s)
    if s.top_kernels:
        parts += [Text(""), heading("top kernels"), _kernel_table(s, width, full_names)]
    if s.categories:
        parts += [Text(""), Text(coverage_line(s))]
    return parts + warning_lines(s.warnings)


def _contents(s: Summary) -> str:
    if s.gpu_span_ms is None and s.kernels:
        return (
            f"{s.events:,} rows, {s.kernels:,} kernel launches; "
            "a summary has no timeline, so no span, busy or idle"
        )
    sensors = f", {len(s.metrics)} sensors" if s.metrics else ""
    return f"{s.events:,} events, {s.kernels:,} kernels{sensors}"


def _times_title(s: Summary) -> str:
    """What the figures below are of, and what the sentence above them is about."""
    steps = "; the sentence above is about one step" if s.verdict.steps else ""
    return f"the whole recording{steps}"


def _times(s: Summary, width: int) -> Printable:
    span = s.gpu_span_ms
    digits = 2 if (span or s.kernel_time_ms or 0.0) >= 10 else 4
    rows: list[tuple[str, float | None, float | None, str]] = []
    if span is not None:
        rows += [
            ("GPU span", span, None, _span_note(s)),
            ("busy", s.gpu_busy_ms, s.gpu_busy_pct, "computing, copying or communicating"),
            ("idle", span - (s.gpu_busy_ms or 0.0), s.gpu_idle_pct, ""),
        ]
        rows += [
            (f"  {p.cause}", p.time_ms, percent_of(p.time_ms, span), CAUSES[p.cause])
            for p in s.idle
        ]
    rows.append(("kernel time", s.kernel_time_ms, None, "sum over kernels"))
    for label, total, exposed, why in (
        ("communication", s.comm_ms, s.exposed_comm_ms, "not hidden by compute"),
        ("memcpy", s.memcpy_ms, s.exposed_memcpy_ms, "not hidden by other work"),
    ):
        if total:
            rows.append((label, total, None, ""))
            if exposed is not None:
                rows.append(("  exposed", exposed, percent_of(exposed, span), why))
    share = (lambda _: "-") if _is_stray(s) else pct
    cells = [(a, number(b, digits), "" if c is None else share(c), d) for a, b, c, d in rows]
    columns = [Column("", text=True), Column("ms"), Column("of span"), Column("", text=True)]
    if span is None:
        columns.pop(2)
        cells = [(a, b, d) for a, b, _, d in cells]  # type: ignore[misc]
    return table(columns, cells, width)


def _is_stray(s: Summary) -> bool:
    """Whether a few activities far from all others make shares of the span meaningless."""
    return any(warning.code == "stray_activity" for warning in s.warnings)


def _span_note(s: Summary) -> str:
    if _is_stray(s):
        return "its shares say little: see warning stray_activity"
    if len(s.per_device) > 1:
        return f"first start to last end, summed over {len(s.per_device)} GPUs"
    return "first start to last end"


def _category_table(s: Summary, width: int, draw: bool) -> Printable:
    columns, rows = with_bars(
        [Column("category", text=True), Column("calls"), Column("ms"), Column("share")],
        [(c.category, f"{c.calls:,}", number(c.time_ms, 3), pct(c.pct)) for c in s.categories],
        [c.pct for c in s.categories],
        at=4,
        draw=draw,
    )
    return table(columns, rows, width)


def _kernel_table(s: Summary, width: int, full_names: bool) -> Printable:
    columns = [
        *numbers("ms", "share", ("calls", 1), ("mean µs", 2)),
        Column("category", text=True),
        Column("kernel", text=True, code=True),
    ]
    rows = [
        (
            number(row.total_ns / 1e6, 3),
            pct(row.pct),
            f"{row.calls:,}",
            micro(row.mean_ns),
            row.category,
            row.name if full_names else row.short_name,
        )
        for row in s.top_kernels
    ]
    whole = full_names and width < WIDE
    return listing(columns, rows) if whole else table(columns, rows, width)


def _steps_title(s: Summary) -> str:
    how = s.steps.found_by or ""
    # The name of an anchor is that of a function, and stays as it is.
    how = how if how.startswith("anchor ") else how.replace("_", " ")
    stated = any(phase.basis.measured == "stated" for phase in s.steps.phases)
    time = (
        "as the file states it" if stated else "from the start of a step to the start of the next"
    )
    return f"{counted(s.steps.count, 'step')} (found by {how}), step time {time}"


def _step_table(s: Summary, width: int, times: StepTimes) -> Printable:
    several = any(len(phase_times) > 1 for phase_times in times.values())
    columns = [
        Column("phase", text=True),
        *numbers("steps", "mean ms", ("p50 ms", 4), ("p90 ms", 5), ("p99 ms", 5)),
        *numbers(("slowest ms", 5), ("gap p50 ms", 2)),
        *numbers(("requests", 1), ("tokens", 1), "tokens/s"),
        *([Column("in order", text=True, spare=3, style="cyan")] if several else []),
    ]
    size = min(max(LINE, width - STEP_NUMBERS), LONGEST_LINE)
    rows = [
        (
            p.phase or "not known",
            f"{p.basis.steps:,}",
            number(p.basis.step_ms, 3),
            number(p.p50_ms, 3),
            number(p.p90_ms, 3),
            number(p.p99_ms, 3),
            number(p.slowest_ms, 3),
            number(p.gap_p50_ms, 3),
            mean_count(p.requests),
            mean_count(p.tokens),
            number(p.tokens_per_s, 0),
            *([sparkline(times[p.phase], size) if p.count > 1 else ""] if several else []),
        )
        for p in s.steps.phases
    ]
    return table(columns, rows, width)


def _steps_notes(s: Summary) -> list[Printable]:
    """Which steps the table is about, and what is missing in it."""
    bases = [phase.basis for phase in s.steps.phases]
    notes = []
    if any(basis.of > 1 for basis in bases):
        notes.append(f"mean over {every_phase(bases)}")
    if any(basis.left_out.outlier for basis in bases):
        notes.append(f"quantiles and slowest include steps over {OUTLIER:g} times the median")
    if any(basis.measured == "extent" for basis in bases):
        notes.append("where no step follows, the step time ends with the last activity of the step")
    if any(phase.p99_ms is None for phase in s.steps.phases):
        notes.append(f"-: p90 needs {LEAST_STEPS[0.9]} steps, p99 {LEAST_STEPS[0.99]}")
    if any((phase.gap_p50_ms or 0.0) < 0 for phase in s.steps.phases):
        notes.append("negative gap: a step starts on the GPU before the last one ends")
    return [Text(note) for note in notes]


def _device_table(s: Summary, width: int) -> Printable:
    columns = [
        Column("rank", text=True, spare=1),
        *numbers("GPU", ("kernels", 4), ("span ms", 1), ("busy ms", 3)),
        *numbers("busy", ("kernel ms", 2), ("comm ms", 1), "exposed"),
        Column("name", text=True),
    ]
    rows = [
        [
            "" if d.rank is None else str(d.rank),
            "-" if d.device is None else str(d.device),
            f"{d.kernels:,}",
            number(d.gpu_span_ms),
            number(d.gpu_busy_ms),
            pct(d.gpu_busy_pct),
            number(d.kernel_time_ms, 3),
            number(d.comm_ms),
            pct(d.exposed_comm_pct),
            d.name,
        ]
        for d in s.per_device
    ]
    if all(d.rank is None for d in s.per_device):
        columns, rows = columns[1:], [row[1:] for row in rows]
    return table(columns, rows, width)


def _rank_of(s: Summary) -> str | None:
    if s.rank is None or (s.world_size or 1) == 1:
        return None
    return f"rank {s.rank} of {s.world_size}" if s.world_size else f"rank {s.rank}"
