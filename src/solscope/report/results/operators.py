"""`solscope operators` in the terminal."""

from __future__ import annotations

from typing import Any

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import Ready
from solscope.report.layout.quantities import number, pct, share_known
from solscope.report.layout.tables import Column, numbers, table, with_bars
from solscope.text import clean
from solscope.views.costs import STATED
from solscope.views.operators import MEMORIES, NoCost, OperatorRow, OperatorTable


@form_of_each("operators", OperatorTable)
def operators_parts(result: OperatorTable, screen: Screen, *, top: int | None) -> list[Printable]:
    """A row per operator or shape, most time first, then what has no cost; shares sum to 100 %."""
    shown = result.operators[:top]
    rest = result.operators[len(shown) :]
    rows = [_row(row) for row in shown]
    if rest:
        rows.append(_sum_row(Ready(f"({len(rest)} more)"), rest))
    if result.no_cost:
        rows.append(_sum_row(Ready("no cost (see below)"), result.no_cost))
    card = f" on {result.hardware}" if result.hardware else ""
    parts: list[Printable] = [
        Text(f"{clean(result.profile)}{card}; {_said(result)}", style="bold"),
        *([] if result.hardware else [Text(f"no bounds: {result.no_hardware}")]),
        Text(""),
        table(
            *with_bars(*_without_empty(rows), [row.pct for row in shown], at=1, draw=screen.draw),
            screen.width,
        ),
        Text(""),
        *_legend(shown),
        Text(known_costs(result.cost_pct, result.graph_replays) + _inferred(result)),
    ]
    if result.no_cost:
        reasons = [[pct(r.pct), f"{r.calls:,}", r.reason, r.op] for r in result.no_cost[:REASONS]]
        parts += [Text(""), table(_NO_COST, reasons, screen.width)]
    return parts


def _without_empty(rows: list[list[str]]) -> tuple[list[Column], list[list[str]]]:
    """Columns and rows without the likely time, where no row has one."""
    likely = _COLUMNS.index(_LIKELY)
    any_likely = any(row[likely] for row in rows)
    used = [index for index in range(len(_COLUMNS)) if index != likely or any_likely]
    return [_COLUMNS[index] for index in used], [[row[index] for index in used] for row in rows]


def _legend(rows: list[OperatorRow]) -> list[Printable]:
    """What the columns beside S mean, where they differ from it."""
    said = []
    if any(map(_differs, rows)):
        said.append("likely: S where the bound assumes luck, such as few experts")
    if any((row.hbm_pct or 0.0) > CLEARLY * (row.efficiency_pct or 0.0) for row in rows):
        said.append("HBM: S if all bytes came from HBM; the bound allows for caches")
    return [Text("; ".join(said))] if said else []


def _differs(row: OperatorRow) -> bool:
    """Whether more than the bound is likely."""
    return row.expected_us is not None and row.expected_us != row.bound_us


CLEARLY = 1.2
"""A share of HBM that exceeds S by this factor needs an explanation."""
LITTLE_PCT = 80.0
"""If costs are known for less of the GPU time than this, print how to get more."""


def known_costs(cost_pct: float | None, graph_replays: bool) -> str:
    """For how much of the GPU time FLOP and bytes are known, and what can give the rest sizes."""
    sentence = f"FLOP and bytes known for {share_known(cost_pct)} of GPU time"
    if cost_pct is None or cost_pct >= LITTLE_PCT:
        return sentence
    eager = " or --with an eager profile or capture" if graph_replays else ""
    return f"{sentence}; for the rest, use --model config.json{eager}"


def _said(result: OperatorTable) -> str:
    published = "; bounds as the public suite computes them, which kernels can beat"
    return "figures are means per call" + (published if result.bound == "published" else "")


REASONS = 8
"""How many of the reasons are printed; JSON has them all."""

_LIKELY = Column("likely", spare=1)
_COLUMNS = (
    *numbers("share", "calls", "µs", "bound µs", "S"),
    _LIKELY,
    Column("HBM", spare=1),
    Column("limit", text=True, spare=1),
    *numbers(("GFLOP", 4), ("MB", 3), ("FLOP/B", 6), ("TFLOP/s", 2), ("TB/s", 2)),
    Column("operator", text=True, code=True),
)
_NO_COST = (
    *numbers("share", "calls"),
    Column("reason", text=True),
    Column("no cost", text=True, code=True),
)


def _row(row: OperatorRow) -> list[str]:
    return [
        pct(row.pct),
        f"{row.calls:,}",
        number(row.time_us),
        number(row.bound_us),
        pct(row.efficiency_pct),
        pct(row.expected_pct) if _differs(row) else "",
        pct(row.hbm_pct),
        _limiter(row),
        number(row.flop / 1e9) if row.flop else "-",
        number(row.bytes / 1e6),
        number(row.intensity, 1),
        number(row.tflops, 1),
        number(row.tbps),
        " ".join(filter(None, (row.op, axes_text(row.axes), _mark(row)))),
    ]


def _limiter(row: OperatorRow) -> str:
    limiter = row.limiter or "-"
    if limiter.startswith(("tensor", "interconnect", "host", "launch")):
        return limiter
    return limiter + "".join(f" ({term} unknown)" for term in row.missing if term in MEMORIES)


def _mark(row: OperatorRow) -> str:
    if row.source is not None:
        return "(lengths of step)" if row.source == STATED else "(from config)"
    return "(inferred)" if row.inferred_calls == row.calls else ""


def axes_text(axes: dict[str, Any] | None) -> str:
    """Axes as `m=8944 n=2816`."""
    return " ".join(f"{name}={value}" for name, value in (axes or {}).items())


def _sum_row(label: str, rows: list[OperatorRow] | list[NoCost]) -> list[str]:
    share, calls = sum(r.pct for r in rows), sum(r.calls for r in rows)
    return [pct(share), f"{calls:,}", *([""] * (len(_COLUMNS) - 3)), label]


def _inferred(result: OperatorTable) -> str:
    calls = sum(row.inferred_calls for row in result.operators)
    source = "took their inputs from the same kernel sequence elsewhere"
    return f"; {calls:,} calls whose launch is not recorded {source}" if calls else ""
