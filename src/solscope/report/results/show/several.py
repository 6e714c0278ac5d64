"""`solscope show` of several profiles: side by side, or a row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solscope.report.layout.labels import distinct_names, headings
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct, share_known
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.report.results.show.lines import warnings_by_name
from solscope.text import clean, shorten
from solscope.views.idle import CAUSES
from solscope.views.percent import percent_of
from solscope.views.summary import CategoryTime, Summary
from solscope.views.verdict import KINDS

_LINES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("devices", lambda s: ", ".join(dict.fromkeys(s.devices)) or "-"),
    ("framework", lambda s: s.framework or "-"),
    ("kernels", lambda s: f"{s.kernels:,}"),
    ("GPU span ms", lambda s: number(s.gpu_span_ms)),
    ("busy ms", lambda s: number(s.gpu_busy_ms)),
    ("busy, of a step", lambda s: pct(s.verdict.busy_pct)),
    ("busy, of span", lambda s: pct(s.gpu_busy_pct)),
    ("idle, of span", lambda s: pct(s.gpu_idle_pct)),
    *((f"  {cause}", lambda s, cause=cause: pct(_idle_pct(s, cause))) for cause in CAUSES),
    ("kernel time ms", lambda s: number(s.kernel_time_ms)),
    ("comm ms", lambda s: number(s.comm_ms)),
    ("  exposed, of span", lambda s: pct(s.exposed_comm_pct)),
    ("memcpy ms", lambda s: number(s.memcpy_ms)),
    ("  exposed, of span", lambda s: pct(percent_of(s.exposed_memcpy_ms, s.gpu_span_ms))),
    ("linked", lambda s: share_known(s.coverage.linked_pct)),
    ("classified", lambda s: share_known(s.coverage.classified_pct)),
    ("with operator", lambda s: share_known(s.coverage.op_pct)),
    ("with shapes", lambda s: share_known(s.coverage.shapes_pct)),
)


def show_columns(summaries: Sequence[Summary], width: int) -> list[Printable]:
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
    verdicts: list[Printable] = [
        Text.assemble((f"{clean(name)}: ", "bold"), clean(s.verdict.sentence))
        for name, s in zip(names, summaries, strict=True)
    ]
    parts: list[Printable] = [
        *verdicts,
        Text(""),
        table(head, lines, width),
        Text(""),
        heading("time by category: ms, and share of the time of all activities"),
        table(head, shares, width),
    ]
    return parts + warnings_by_name(summaries, names)


def _time_and_share(time: CategoryTime | None) -> str:
    return "-" if time is None else f"{time.time_ms:,.2f}  {time.pct:5.1f} %"


def show_rows(summaries: Sequence[Summary], width: int) -> list[Printable]:
    """A row per profile, for many."""
    names = distinct_names([s.path for s in summaries])
    columns = [
        *numbers(
            "kernels", "span ms", "busy in step", "kernel ms", ("exp. comm", 1), ("classified", 4)
        ),
        Column("GPU", text=True, spare=3),
        Column("verdict", text=True, spare=2),
        Column("profile", text=True),
    ]
    rows = [
        (
            f"{s.kernels:,}",
            number(s.gpu_span_ms),
            pct(s.verdict.busy_pct),
            number(s.kernel_time_ms),
            pct(s.exposed_comm_pct),
            share_known(s.coverage.classified_pct),
            shorten(", ".join(dict.fromkeys(s.devices)) or "-", 24),
            KINDS[s.verdict.kind],
            name,
        )
        for name, s in zip(names, summaries, strict=True)
    ]
    return [table(columns, rows, width, whole=True), *warnings_by_name(summaries, names)]


def _idle_pct(s: Summary, cause: str) -> float | None:
    return percent_of(
        sum(cause_time.time_ms for cause_time in s.idle if cause_time.cause == cause), s.gpu_span_ms
    )
