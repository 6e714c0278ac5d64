"""`solscope efficiency` in the terminal."""

from __future__ import annotations

from typing import TypedDict

from solscope.report.forms import Screen, form, one_below_the_other
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, number, numbers, pct, table
from solscope.text import clean
from solscope.views.efficiency import LEAST_COST_PCT, EfficiencyTable, Rates

_HEADS = {"phase": "phase", "step": "step", "layer": "kind of layer"}
_NOTE = (
    "MFU = FLOP / peak, MBU = weights and caches / HBM, both over ms; SOL = sum of bounds, "
    "overlapped: the busiest unit alone; costed = GPU time whose FLOP and bytes are known"
)
_TIME = {
    "phase": "ms = mean time from the start of a step to the start of the next; ",
    "step": "ms = from the start of a step to the start of the next; ",
    "layer": "ms = mean GPU time of a layer; ",
}


class EfficiencyTables(TypedDict):
    """One table per profile."""

    profiles: list[EfficiencyTable]


@form("efficiency", EfficiencyTables)
def efficiency_parts(result: EfficiencyTables, screen: Screen) -> list[Printable]:
    """One table per profile, one below the other."""
    return one_below_the_other(_page(found, screen.width) for found in result["profiles"])


def _page(found: EfficiencyTable, width: int) -> list[Printable]:
    peaks = [
        f"{pipe.removeprefix('tensor.')} {rate / 1e12:,.4g} TFLOP/s"
        for pipe, rate in found.peaks.items()
        if pipe != "hbm"
    ]
    if "hbm" in found.peaks:
        peaks.append(f"HBM {found.peaks['hbm'] / 1e12:,.4g} TB/s")
    columns = [
        *numbers("ms", ("GPU ms", 3), "MFU", "MBU", ("all bytes", 5), ("SOL ms", 2), "SOL"),
        *numbers(("overlapped", 4), ("tokens/s", 1), "costed", ("count", 6)),
        Column(_HEADS[found.by], text=True),
    ]
    parts: list[Printable] = [
        Text(f"{clean(found.profile)} on {found.hardware}: {', '.join(peaks)}", style="bold"),
        Text(""),
        table(columns, [_cells(row) for row in found.rows], width),
        Text(""),
        Text(_TIME[found.by] + _NOTE),
    ]
    if any((row.cost_pct or 0.0) < LEAST_COST_PCT for row in found.rows):
        why = (
            "kernels of graphs have no recorded shapes; add --with an eager profile, or "
            if found.graph_replays
            else "operators without recorded shapes or a cost model take the rest; add "
        )
        parts.append(
            Text(f"-: less than {LEAST_COST_PCT:.0f} % is costed: {why}--model CONFIG.json")
        )
    return parts


def _cells(row: Rates) -> list[str]:
    return [
        number(row.time_ms, 3),
        number(row.gpu_ms, 3),
        pct(row.mfu_pct),
        pct(row.mbu_pct),
        pct(row.hbm_pct),
        number(row.sol_ms, 3),
        pct(row.sol_pct),
        pct(row.overlap_sol_pct),
        number(row.tokens_per_s, 0),
        pct(row.cost_pct),
        f"{row.count:,}",
        row.name,
    ]
