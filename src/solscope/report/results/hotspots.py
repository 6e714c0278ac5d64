"""`solscope hotspots` in the terminal."""

from __future__ import annotations

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.steps import mean_step
from solscope.report.layout.tables import BAR_WIDTH, Column, numbers, table, with_bars
from solscope.report.results.operators import axes_text, known_costs
from solscope.text import clean
from solscope.views.hotspots import Hotspot, HotspotTable

ROOMY, NARROW_BAR = 120, 5
"""In a terminal narrower than this, bars have fewer cells."""


@form_of_each("hotspots", HotspotTable)
def hotspots_parts(result: HotspotTable, screen: Screen, *, top: int) -> list[Printable]:
    """The first rows of the work list, each with its arithmetic and what to do about it."""
    shown = result.hotspots[:top]
    shares = [row.recoverable_pct_of_step for row in shown]
    rows = [_row(row) for row in shown]
    cells, spare = (BAR_WIDTH, 4) if screen.width >= ROOMY else (NARROW_BAR, 1)
    return [
        Text(_heading(result), style="bold"),
        *([] if result.hardware else [Text(f"no bounds: {result.no_hardware}")]),
        Text(""),
        table(
            *with_bars(
                _columns(result), rows, shares, at=3, draw=screen.draw, cells=cells, spare=spare
            ),
            screen.width,
        ),
        Text(""),
        *(
            Text(
                clean(
                    f"{row.rank}. {_name(row)}: {row.why}; would save {_saving(row, result)} "
                    f"(confidence: {row.confidence}). {row.advice}"
                )
            )
            for row in shown
        ),
        Text(""),
        Text(_NOTE.format(target=result.target_pct)),
        *_together(result),
        Text(known_costs(result.coverage.cost_pct, result.coverage.graph_replays)),
    ]


_NOTE = (
    "S = bound / µs; an operator saves what is above {target:.4g} % of its bound, or of a longer "
    "time that its line names"
)


def _columns(result: HotspotTable) -> tuple[Column, ...]:
    return (
        *numbers("#", "saves µs", f"of {_whole(result)}", "µs", ("bound µs", 3), ("S", 2)),
        Column("limit", text=True, spare=4),
        Column("calls", spare=5),
        Column("kind", text=True),
        Column("role", text=True, spare=6),
        Column("what", text=True, code=True),
    )


def _heading(result: HotspotTable) -> str:
    card = f" on {result.hardware}" if result.hardware else ""
    return clean(f"{result.profile}{card}; per {mean_step(result.basis)}")


def _together(result: HotspotTable) -> list[Text]:
    """What all rows save, listed or not: their savings share no time."""
    total = sum(row.recoverable_us for row in result.hotspots)
    if len(result.hotspots) < 2:
        return []
    return [
        Text(
            f"all {len(result.hotspots)} rows together save {total / 1e3:,.3f} of the "
            f"{result.step_ms:,.3f} ms of the {_whole(result)}"
        )
    ]


def _row(row: Hotspot) -> list[str]:
    return [
        str(row.rank),
        number(row.recoverable_us),
        pct(row.recoverable_pct_of_step),
        number(row.time_us),
        number(row.bound_us),
        pct(row.efficiency_pct),
        row.limiter or "-",
        number(row.calls_per_step, 1),
        row.kind,
        row.role or "-",
        _name(row),
    ]


def _name(row: Hotspot) -> str:
    return f"{row.operator} {axes_text(row.axes)}".rstrip()


def _saving(row: Hotspot, result: HotspotTable) -> str:
    share = f"{row.recoverable_pct_of_step:.1f} % of the {_whole(result)}"
    return f"{row.recoverable_us:,.2f} µs, {share}"


def _whole(result: HotspotTable) -> str:
    return "step" if result.basis.steps else "recording"
