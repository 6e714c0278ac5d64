"""`solscope host` in the terminal."""

from __future__ import annotations

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.sparkline import sparkline
from solscope.report.layout.steps import every_phase
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.text import clean
from solscope.views.host import HostTable
from solscope.views.host_stacks import Waiting

LINE = 40
"""Columns of the line of the queue."""


@form_of_each("host", HostTable)
def host_parts(h: HostTable, screen: Screen, *, top: int) -> list[Printable]:
    """What the GPU waits for, by section, operator and frame, then the critical path."""
    parts: list[Printable] = [
        Text(
            f"{clean(h.profile)}: the GPU waits {number(h.waiting_ms)} of {number(h.span_ms)} ms "
            f"of the recording for the host ({pct(h.waiting_pct)})",
            style="bold",
        ),
        Text(_launches(h)),
    ]
    if h.queue:
        parts.append(Text(_queue(h, screen)))
    if h.between_steps_ms is not None:
        waited = f"between steps: {number(h.between_steps_ms, 3)} ms of waiting each"
        parts.append(Text(f"{waited}, mean of {every_phase(h.basis)}"))
    for title, rows in (
        ("by section (innermost annotation)", h.sections),
        ("by operator (outermost)", h.operators),
        ("by Python frame (innermost)", h.frames),
        ("between steps", h.between),
    ):
        if rows:
            parts += [Text(""), heading(f"waiting {title}"), _waiting(rows, screen.width, top)]
    return [*parts, Text(""), *_critical_path(h, screen.width, top)]


def _critical_path(h: HostTable, width: int, top: int) -> list[Printable]:
    total = h.path_gpu_ms + h.path_host_ms + h.path_launch_ms + h.path_sync_ms
    categories = [
        Column("category", text=True),
        *numbers("ms", "on the path", ("idle after ms", 1)),
    ]
    operators = [
        *numbers("ms", "on the path", ("least slack µs", 1), "median slack µs", ("activities", 2)),
        Column("operator", text=True, code=True),
    ]
    return [
        heading(
            f"critical path {number(total)} ms: host {number(h.path_host_ms)}, GPU "
            f"{number(h.path_gpu_ms)}, launch latency {number(h.path_launch_ms)}, "
            f"return of waits {number(h.path_sync_ms)}"
        ),
        table(
            categories,
            [
                (p.category, *(number(ms, 3) for ms in (p.time_ms, p.on_path_ms, p.idle_after_ms)))
                for p in h.path[:top]
            ],
            width,
        ),
        Text(""),
        heading("slack: how much later an activity could end without delaying the end"),
        table(
            operators,
            [
                (
                    *(number(ms, 3) for ms in (o.time_ms, o.on_path_ms)),
                    *(number(us, 1) for us in (o.least_slack_us, o.median_slack_us)),
                    f"{o.activities:,}",
                    clean(o.operator),
                )
                for o in h.path_operators[:top]
            ],
            width,
        ),
    ]


def _queue(h: HostTable, screen: Screen) -> str:
    """The queue along the span: drawn, or the mean of each tenth."""
    means = [part.mean for part in h.queue]
    if screen.draw:
        most = max(part.most for part in h.queue)
        return f"queue over time, at most {most:,} deep: {sparkline(means, LINE)}"
    tenths = [means[len(means) * n // 10 : len(means) * (n + 1) // 10] for n in range(10)]
    shown = " ".join(f"{sum(part) / len(part):,.1f}" for part in tenths if part)
    return f"queue over time, mean of each tenth of the span: {shown}"


def _launches(h: HostTable) -> str:
    facts = [f"{h.launches:,} launches"]
    if h.launches_per_s is not None:
        facts[0] += f", {h.launches_per_s:,.0f} per second"
    if h.launch_us is not None:
        facts.append(f"{number(h.launch_us)} µs per call")
    if h.faster_ms is not None:
        facts.append(f"at {h.faster_launches_us:g} µs at most {number(h.faster_ms)} ms are saved")
    if h.queue_mean is not None:
        facts.append(f"queue {h.queue_mean:.1f} deep, empty {pct(h.queue_empty_pct)} of the time")
    return "; ".join(facts)


def _waiting(rows: list[Waiting], width: int, top: int) -> Printable:
    columns = [Column("ms"), Column("share"), Column("", text=True, code=True)]
    cells = [(number(r.wait_ms, 3), pct(r.pct), clean(r.name)) for r in rows[:top]]
    rest = rows[top:]
    if rest:
        share = sum(row.pct or 0.0 for row in rest)
        total = sum(row.wait_ms for row in rest)
        cells.append((number(total, 3), pct(share), f"({len(rest):,} more)"))
    return table(columns, cells, width)
