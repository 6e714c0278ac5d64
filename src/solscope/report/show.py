"""`solscope show` in the terminal: one profile on a page, several side by side, ranks of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from solscope.report.terminal import (
    Column,
    heading,
    micro,
    number,
    pct,
    table,
    to_text,
    warning_lines,
)
from solscope.text import clean, shorten
from solscope.views.idle import CAUSES
from solscope.views.ranks import Run
from solscope.views.summary import CategoryTime, Summary

SIDE_BY_SIDE = 4
"""Up to this many profiles stand beside each other; more become a table with a row each."""


def render_show(
    summaries: Sequence[Summary], runs: Sequence[Run], *, width: int, color: bool, full_names: bool
) -> str:
    """Text for one or several profiles."""
    # One file that merges its ranks is a page with a table of devices, not a run of files.
    spread = [run for run in runs if len({row.path for row in run.ranks}) > 1]
    in_runs = {row.path for run in spread for row in run.ranks}
    parts: list[RenderableType] = []
    for run in spread:
        parts += _rank_table(run, width)
    others = [s for s in summaries if s.path not in in_runs]
    if len(others) == 1:
        parts += _page(others[0], width, full_names)
    elif 1 < len(others) <= SIDE_BY_SIDE:
        parts += _columns(others, width)
    elif others:
        parts += _rows(others, width)
    return to_text(parts, width, color)


def _page(s: Summary, width: int, full_names: bool) -> list[RenderableType]:
    facts = [s.format, *dict.fromkeys(s.devices), s.framework, s.stage, _rank_of(s)]
    parts: list[RenderableType] = [
        Text.assemble(
            (clean(Path(s.path).name), "bold"), "  ", clean(" · ".join(f for f in facts if f))
        ),
        Text(f"{s.events:,} events, {s.kernels:,} kernels"),
        Text(""),
        _times(s, width),
    ]
    if len(s.per_device) > 1:
        parts += [Text(""), heading("devices"), _device_table(s, width)]
    parts += [Text(""), heading("where the GPU time goes"), _category_table(s, width)]
    parts += [Text(""), heading("top kernels"), kernel_lines(s, width, full_names)]
    parts += [Text(""), Text(coverage_line(s)), *warning_lines(s.warnings)]
    return parts


def _times(s: Summary, width: int) -> RenderableType:
    rows: list[tuple[str, str, str, str]] = []
    if s.gpu_span_ms is not None:
        idle_ms = s.gpu_span_ms - (s.gpu_busy_ms or 0.0)
        rows += [
            ("GPU span", number(s.gpu_span_ms), "", "first start to last end"),
            ("busy", number(s.gpu_busy_ms), pct(s.gpu_busy_pct), "at least one activity running"),
            ("idle", number(idle_ms), pct(s.gpu_idle_pct), ""),
        ]
        rows += [
            (
                f"  {part.cause}",
                number(part.time_ms),
                pct(_of(part.time_ms, s.gpu_span_ms)),
                CAUSES[part.cause],
            )
            for part in s.idle
        ]
    rows.append(("kernel time", number(s.kernel_time_ms), "", "sum over kernels"))
    if s.comm_ms or s.exposed_comm_ms:
        rows.append(("communication", number(s.comm_ms), "", ""))
        rows.append(
            (
                "  exposed",
                number(s.exposed_comm_ms),
                pct(s.exposed_comm_pct),
                "not hidden by compute",
            )
        )
    if s.memcpy_ms:
        rows.append(("memcpy", number(s.memcpy_ms), "", ""))
        exposed = _of(s.exposed_memcpy_ms, s.gpu_span_ms)
        rows.append(
            ("  exposed", number(s.exposed_memcpy_ms), pct(exposed), "not hidden by other work")
        )
    columns = [Column("", text=True), Column("ms"), Column("of span"), Column("", text=True)]
    return table(columns, rows, width)


def _category_table(s: Summary, width: int) -> RenderableType:
    return table(
        [Column("category", text=True), Column("calls"), Column("ms"), Column("share")],
        [(c.category, f"{c.calls:,}", number(c.time_ms, 3), pct(c.pct)) for c in s.categories],
        width,
    )


def kernel_lines(s: Summary, width: int, full_names: bool) -> RenderableType:
    """The most expensive kernels."""
    columns = [
        Column("ms"),
        Column("share"),
        Column("calls", spare=1),
        Column("mean µs", spare=2),
        Column("category", text=True),
        Column("kernel", text=True),
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
    return table(columns, rows, width, whole=full_names)


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
    ("busy", lambda s: pct(s.gpu_busy_pct)),
    ("idle", lambda s: pct(s.gpu_idle_pct)),
    ("kernel time ms", lambda s: number(s.kernel_time_ms)),
    ("comm ms", lambda s: number(s.comm_ms)),
    ("exposed comm", lambda s: pct(s.exposed_comm_pct)),
    ("memcpy ms", lambda s: number(s.memcpy_ms)),
    ("linked", lambda s: pct(s.coverage.linked_pct)),
    ("classified", lambda s: pct(s.coverage.classified_pct)),
)


def _columns(summaries: Sequence[Summary], width: int) -> list[RenderableType]:
    """A column per profile: the main figures, then time by category in ms and share."""
    names = distinct_names([s.path for s in summaries])
    room = max(14, (width - 18) // len(summaries) - 2)
    head = [Column("", text=True), *(Column(shorten(name, room)) for name in names)]
    lines = [(label, *(shorten(show(s), room) for s in summaries)) for label, show in _LINES]
    times = [{c.category: c for c in s.categories} for s in summaries]
    order = {c.category: None for s in summaries for c in s.categories}
    ranked = sorted(order, key=lambda c: -max(t[c].pct if c in t else 0.0 for t in times))
    shares = [(category, *(_time_and_share(t.get(category)) for t in times)) for category in ranked]
    parts: list[RenderableType] = [
        table(head, lines, width),
        Text(""),
        heading("time by category, ms and share"),
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
            shorten(", ".join(dict.fromkeys(s.devices)) or "-", 24),
            name,
        )
        for name, s in zip(names, summaries, strict=True)
    ]
    return [table(columns, rows, width), *_all_warnings(summaries, names)]


def _rank_table(run: Run, width: int) -> list[RenderableType]:
    size = f" of {run.world_size}" if run.world_size else ""
    slowest = max(run.ranks, key=lambda row: row.kernel_time_ms - row.comm_ms)
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
            f"{row.rank}" + (" *" if row is slowest else ""),
            f"{row.kernels:,}",
            number(row.gpu_span_ms),
            pct(row.gpu_busy_pct),
            number(row.kernel_time_ms - row.comm_ms),
            number(row.comm_ms),
            pct(row.exposed_comm_pct),
            row.device,
        )
        for row in run.ranks
    ]
    parts: list[RenderableType] = [
        heading(f"{Path(run.name).name}: {len(run.ranks)} ranks{size}"),
        table(columns, rows, width),
        Text("* most compute time: the others wait for it in collectives"),
    ]
    if run.missing:
        parts.append(Text(f"no file for rank {', '.join(map(str, run.missing))}", style="yellow"))
    return [*parts, Text("")]


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
    )
    known = [f"{label} {value:.1f} %" for label, value in shares if value is not None]
    return "coverage of GPU time: " + (", ".join(known) or "nothing ran")


def distinct_names(paths: Sequence[str]) -> list[str]:
    """The shortest endings of the paths that tell them apart."""
    for depth in range(1, 6):
        names = ["/".join(Path(path).parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def _rank_of(s: Summary) -> str | None:
    if s.rank is None or (s.world_size or 1) == 1:
        return None
    return f"rank {s.rank} of {s.world_size}" if s.world_size else f"rank {s.rank}"


def _of(part: float | None, whole: float | None) -> float | None:
    return 100.0 * part / whole if part is not None and whole else None
