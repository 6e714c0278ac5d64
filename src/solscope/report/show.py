"""`solscope show` in the terminal: one profile on a page, several side by side, ranks of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from solscope.report.markdown import to_markdown
from solscope.report.names import distinct_names, headings
from solscope.report.sparkline import sparkline
from solscope.report.terminal import (
    WIDE,
    Column,
    counted,
    heading,
    listing,
    mean_count,
    micro,
    number,
    pct,
    share_known,
    table,
    to_text,
    warning_lines,
    with_bars,
)
from solscope.text import clean, shorten
from solscope.views.idle import CAUSES
from solscope.views.ranks import Run, computes_longest
from solscope.views.steps import StepTimes
from solscope.views.summary import CategoryTime, Summary

SIDE_BY_SIDE = 4
"""Up to this many profiles stand beside each other; more become a table with a row each."""
LINE, LONGEST_LINE = 9, 40
"""Columns of the line of step times: at least, at most."""
STEP_NUMBERS = 89
"""Columns that the numbers beside it take."""


def render_show(
    summaries: Sequence[Summary],
    runs: Sequence[Run],
    *,
    width: int,
    color: bool,
    full_names: bool,
    drawn: Mapping[str, StepTimes] | None = None,
) -> str:
    """Text for one or several profiles.

    `drawn` has the step times of each, by path; null where nothing can be drawn.
    """
    return to_text(_parts(summaries, runs, width, full_names, drawn), width, color)


def markdown_show(summaries: Sequence[Summary], runs: Sequence[Run], *, full_names: bool) -> str:
    """The same as Markdown."""
    return to_markdown(_parts(summaries, runs, WIDE, full_names, None))


def _parts(
    summaries: Sequence[Summary],
    runs: Sequence[Run],
    width: int,
    full_names: bool,
    drawn: Mapping[str, StepTimes] | None,
) -> list[RenderableType]:
    # One file that merges its ranks is a page with a table of devices, not a run of files.
    spread = [run for run in runs if len({row.path for row in run.ranks}) > 1]
    in_runs = {row.path for run in spread for row in run.ranks}
    blocks: list[list[RenderableType]] = [
        _run(run, [s for s in summaries if s.path in {row.path for row in run.ranks}], width)
        for run in spread
    ]
    others = [s for s in summaries if s.path not in in_runs]
    if len(others) == 1:
        times = None if drawn is None else drawn[others[0].path]
        blocks.append(_page(others[0], width, full_names, times))
    elif 1 < len(others) <= SIDE_BY_SIDE:
        blocks.append(_columns(others, width))
    elif others:
        blocks.append(_rows(others, width))
    return [part for block in blocks for part in (*block, Text(""))][:-1]


def _page(
    s: Summary, width: int, full_names: bool, times: StepTimes | None
) -> list[RenderableType]:
    facts = [s.format, *dict.fromkeys(s.devices), s.framework, s.stage, _rank_of(s)]
    title = (clean(Path(s.path).name), "bold")
    parts: list[RenderableType] = [
        Text.assemble(title, "  ", clean(" · ".join(fact for fact in facts if fact))),
        Text(_contents(s)),
    ]
    if s.kernel_time_ms or s.gpu_span_ms is not None:
        parts += [Text(""), _times(s, width)]
    if len(s.per_device) > 1:
        parts += [Text(""), heading("devices"), _device_table(s, width)]
    if s.categories:
        title_line = heading("where the GPU time goes (share of the time of all activities)")
        parts += [Text(""), title_line, _category_table(s, width, times is not None)]
    if s.steps.phases and s.steps.found_by != "whole_profile":
        parts += [Text(""), heading(_steps_title(s)), _step_table(s, width, times or {})]
    if s.top_kernels:
        parts += [Text(""), heading("top kernels"), _kernel_table(s, width, full_names)]
    if s.categories:
        parts += [Text(""), Text(coverage_line(s))]
    return parts + warning_lines(s.warnings)


def _contents(s: Summary) -> str:
    if s.gpu_span_ms is None and s.kernels:
        return (
            f"{s.events:,} rows, {s.kernels:,} kernel launches; "
            "a summary has no time line, so no span, busy or idle"
        )
    sensors = f", {len(s.metrics)} sensors beside it" if s.metrics else ""
    return f"{s.events:,} events, {s.kernels:,} kernels{sensors}"


def _times(s: Summary, width: int) -> RenderableType:
    span = s.gpu_span_ms
    digits = 2 if (span or s.kernel_time_ms or 0.0) >= 10 else 4
    rows: list[tuple[str, float | None, float | None, str]] = []
    if span is not None:
        rows += [
            ("GPU span", span, None, _span_note(s)),
            ("busy", s.gpu_busy_ms, s.gpu_busy_pct, "at least one activity running"),
            ("idle", span - (s.gpu_busy_ms or 0.0), s.gpu_idle_pct, ""),
        ]
        rows += [(f"  {p.cause}", p.time_ms, _of(p.time_ms, span), CAUSES[p.cause]) for p in s.idle]
    rows.append(("kernel time", s.kernel_time_ms, None, "sum over kernels"))
    for label, total, exposed, why in (
        ("communication", s.comm_ms, s.exposed_comm_ms, "not hidden by compute"),
        ("memcpy", s.memcpy_ms, s.exposed_memcpy_ms, "not hidden by other work"),
    ):
        if total:
            rows.append((label, total, None, ""))
            if exposed is not None:
                rows.append(("  exposed", exposed, _of(exposed, span), why))
    cells = [(a, number(b, digits), "" if c is None else pct(c), d) for a, b, c, d in rows]
    columns = [Column("", text=True), Column("ms"), Column("of span"), Column("", text=True)]
    if span is None:
        columns.pop(2)
        cells = [(a, b, d) for a, b, _, d in cells]  # type: ignore[misc]
    return table(columns, cells, width)


def _span_note(s: Summary) -> str:
    if len(s.per_device) > 1:
        return f"first start to last end, summed over {len(s.per_device)} GPUs"
    return "first start to last end"


def _category_table(s: Summary, width: int, draw: bool) -> RenderableType:
    columns, rows = with_bars(
        [Column("category", text=True), Column("calls"), Column("ms"), Column("share")],
        [(c.category, f"{c.calls:,}", number(c.time_ms, 3), pct(c.pct)) for c in s.categories],
        [c.pct for c in s.categories],
        at=4,
        draw=draw,
    )
    return table(columns, rows, width)


def _kernel_table(s: Summary, width: int, full_names: bool) -> RenderableType:
    columns = [
        Column("ms"),
        Column("share"),
        Column("calls", spare=1),
        Column("mean µs", spare=2),
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
    cut = f", {s.steps.cut} cut off and not counted below" if s.steps.cut else ""
    how = s.steps.found_by or ""
    # The name of an anchor is that of a function, and stays as it is.
    how = how if how.startswith("anchor ") else how.replace("_", " ")
    return f"{counted(s.steps.count, 'step')} (found by {how}{cut})"


def _step_table(s: Summary, width: int, times: StepTimes) -> RenderableType:
    several = any(len(one) > 1 for one in times.values())
    columns = [
        Column("phase", text=True),
        Column("steps"),
        Column("p50 ms"),
        Column("p90 ms"),
        Column("p99 ms"),
        Column("gap p50 ms"),
        Column("requests", spare=2),
        Column("tokens", spare=2),
        Column("tokens/s"),
        Column("TPOT ms"),
        *([Column("in order", text=True, spare=1, style="cyan")] if several else []),
    ]
    size = min(max(LINE, width - STEP_NUMBERS), LONGEST_LINE)
    rows = [
        (
            p.phase or "not known",
            f"{p.count:,}",
            number(p.p50_ms, 3),
            number(p.p90_ms, 3),
            number(p.p99_ms, 3),
            number(p.gap_p50_ms, 3),
            mean_count(p.requests),
            mean_count(p.tokens),
            number(p.tokens_per_s, 0),
            number(p.tpot_ms, 3),
            *([sparkline(times[p.phase], size) if p.count > 1 else ""] if several else []),
        )
        for p in s.steps.phases
    ]
    return table(columns, rows, width)


def _device_table(s: Summary, width: int) -> RenderableType:
    columns = [
        Column("rank", text=True, spare=1),
        Column("GPU"),
        Column("kernels"),
        Column("span ms"),
        Column("busy ms", spare=2),
        Column("busy"),
        Column("kernel ms"),
        Column("comm ms"),
        Column("exposed"),
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


_LINES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("devices", lambda s: ", ".join(dict.fromkeys(s.devices)) or "-"),
    ("framework", lambda s: s.framework or "-"),
    ("kernels", lambda s: f"{s.kernels:,}"),
    ("GPU span ms", lambda s: number(s.gpu_span_ms)),
    ("busy ms", lambda s: number(s.gpu_busy_ms)),
    ("busy, of span", lambda s: pct(s.gpu_busy_pct)),
    ("idle, of span", lambda s: pct(s.gpu_idle_pct)),
    *((f"  {cause}", lambda s, cause=cause: pct(_idle_pct(s, cause))) for cause in CAUSES),
    ("kernel time ms", lambda s: number(s.kernel_time_ms)),
    ("comm ms", lambda s: number(s.comm_ms)),
    ("  exposed, of span", lambda s: pct(s.exposed_comm_pct)),
    ("memcpy ms", lambda s: number(s.memcpy_ms)),
    ("  exposed, of span", lambda s: pct(_of(s.exposed_memcpy_ms, s.gpu_span_ms))),
    ("linked", lambda s: share_known(s.coverage.linked_pct)),
    ("classified", lambda s: share_known(s.coverage.classified_pct)),
    ("with operator", lambda s: share_known(s.coverage.op_pct)),
    ("with shapes", lambda s: share_known(s.coverage.shapes_pct)),
)


def _columns(summaries: Sequence[Summary], width: int) -> list[RenderableType]:
    """A column per profile: the main figures, then time by category in ms and share."""
    names = distinct_names([s.path for s in summaries])
    room = max(14, (width - 20) // len(summaries) - 2)
    head = [Column("", text=True), *(Column(name) for name in headings(names, room))]
    lines = [(label, *(shorten(show(s), room) for s in summaries)) for label, show in _LINES]
    lines = [line for line in lines if not set(line[1:]) <= {"-", "0.0 %", "0.00"}]
    times = [{c.category: c for c in s.categories} for s in summaries]
    order = dict.fromkeys(c.category for s in summaries for c in s.categories)
    ranked = sorted(order, key=lambda c: -max(t[c].pct if c in t else 0.0 for t in times))
    shares = [(c, *(_time_and_share(t.get(c)) for t in times)) for c in ranked]
    parts: list[RenderableType] = [
        table(head, lines, width),
        Text(""),
        heading("time by category: ms, and share of the time of all activities"),
        table(head, shares, width),
    ]
    return parts + _all_warnings(summaries, names)


def _time_and_share(time: CategoryTime | None) -> str:
    return "-" if time is None else f"{time.time_ms:,.2f}  {time.pct:5.1f} %"


def _rows(summaries: Sequence[Summary], width: int) -> list[RenderableType]:
    """A row per profile, for many."""
    names = distinct_names([s.path for s in summaries])
    columns = [
        Column("kernels"),
        Column("span ms"),
        Column("busy"),
        Column("kernel ms"),
        Column("exp. comm", spare=1),
        Column("classified", spare=3),
        Column("GPU", text=True, spare=2),
        Column("profile", text=True),
    ]
    rows = [
        (
            f"{s.kernels:,}",
            number(s.gpu_span_ms),
            pct(s.gpu_busy_pct),
            number(s.kernel_time_ms),
            pct(s.exposed_comm_pct),
            share_known(s.coverage.classified_pct),
            shorten(", ".join(dict.fromkeys(s.devices)) or "-", 24),
            name,
        )
        for name, s in zip(names, summaries, strict=True)
    ]
    return [table(columns, rows, width, whole=True), *_all_warnings(summaries, names)]


def _run(run: Run, members: Sequence[Summary], width: int) -> list[RenderableType]:
    """The ranks of a run, and what is unsafe about each."""
    longest = computes_longest(run)
    columns = [
        Column("rank", text=True),
        Column("kernels"),
        Column("span ms"),
        Column("busy"),
        Column("compute ms"),
        Column("comm ms"),
        Column("exposed"),
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
    parts: list[RenderableType] = [
        heading(f"{Path(run.name).name}: {len(run.ranks)} ranks{size}"),
        table(columns, rows, width),
    ]
    if longest:
        parts.append(Text("* computes longest"))
    parts += _skew_lines(run, width)
    if run.missing:
        missing = ", ".join(map(str, run.missing))
        parts.append(Text(f"no file for rank {missing}", style="yellow"))
    ordered = sorted(members, key=lambda s: s.rank or 0)
    lines = [Text(f"rank {s.rank}: {coverage_line(s)}") for s in ordered]
    names = [f"rank {s.rank}" for s in ordered]
    return [*parts, Text(""), *lines, *_all_warnings(ordered, names)]


def _skew_lines(run: Run, width: int) -> list[RenderableType]:
    """Waiting in collectives, or why it cannot be told."""
    if run.skew is None:
        return []
    if run.skew.reason is not None:
        return [Text(f"waiting in collectives: cannot tell, {run.skew.reason}")]
    columns = [
        Column("rank", text=True),
        Column("collectives"),
        Column("transfer ms"),
        Column("wait ms"),
    ]
    rows = [
        (str(r.rank), f"{r.collectives:,}", number(r.transfer_ms, 3), number(r.wait_ms, 3))
        for r in run.skew.ranks
    ]
    why = f"waiting in collectives: the others wait for rank {run.skew.slowest}"
    return [Text(""), heading(why), table(columns, rows, width)]


def _all_warnings(summaries: Sequence[Summary], names: Sequence[str]) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("")]
    for name, s in zip(names, summaries, strict=True):
        if s.warnings:
            parts += [Text(clean(name), style="bold"), *warning_lines(s.warnings)]
    return parts if len(parts) > 1 else []


def coverage_line(s: Summary) -> str:
    """What is known, in one line."""
    c = s.coverage
    shares = (
        ("linked to a launch", c.linked_pct),
        ("classified", c.classified_pct),
        ("by family only", c.generic_pct),
        ("with operator", c.op_pct),
        ("with shapes", c.shapes_pct),
        ("placed in a layer", c.layer_pct),
        ("with role", c.role_pct),
    )
    known = [f"{label} {share_known(value)}" for label, value in shares if value is not None]
    return "coverage of GPU time: " + (", ".join(known) or "nothing ran")


def _rank_of(s: Summary) -> str | None:
    if s.rank is None or (s.world_size or 1) == 1:
        return None
    return f"rank {s.rank} of {s.world_size}" if s.world_size else f"rank {s.rank}"


def _idle_pct(s: Summary, cause: str) -> float | None:
    return _of(sum(part.time_ms for part in s.idle if part.cause == cause), s.gpu_span_ms)


def _of(part: float | None, whole: float | None) -> float | None:
    return 100.0 * part / whole if part is not None and whole else None
