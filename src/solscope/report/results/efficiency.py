"""`solscope efficiency` in the terminal."""

from __future__ import annotations

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.steps import every_phase
from solscope.report.layout.tables import Column, numbers, table
from solscope.text import clean
from solscope.views.efficiency import LEAST_COST_PCT, EfficiencyTable, Rates

_HEADS = {"phase": "phase", "step": "step", "layer": "kind of layer"}
_NOTE = (
    "MFU = FLOP / peak, MBU = weights and caches / HBM, both over ms; SOL = sum of bounds, "
    "overlapped: the busiest unit alone; costed = GPU time whose FLOP and bytes are known"
)
_TIME = {
    "phase": "ms = step time, mean, to the start of the next; GPU ms = sum of kernel times; ",
    "step": "ms = step time, to the start of the next; GPU ms = sum of kernel times; ",
    "layer": "ms = GPU ms = sum of kernel times of a layer, mean; ",
}


@form_of_each("efficiency", EfficiencyTable)
def efficiency_parts(result: EfficiencyTable, screen: Screen) -> list[Printable]:
    """Rates by phase, step or kind of layer, after the peaks that they are compared with."""
    peaks = [
        f"{pipe.removeprefix('tensor.')} {rate / 1e12:,.4g} TFLOP/s"
        for pipe, rate in result.peaks.items()
        if pipe != "hbm"
    ]
    if "hbm" in result.peaks:
        peaks.append(f"HBM {result.peaks['hbm'] / 1e12:,.4g} TB/s")
    columns = [
        *numbers("ms", ("GPU ms", 3), "MFU", "MBU", ("all bytes", 5), ("SOL ms", 2), "SOL"),
        *numbers(("overlapped", 4), ("tokens/s", 1), "costed", ("count", 6)),
        Column(_HEADS[result.by], text=True),
    ]
    parts: list[Printable] = [
        Text(f"{clean(result.profile)} on {result.hardware}: {', '.join(peaks)}", style="bold"),
        Text(""),
        table(columns, [_cells(row) for row in result.rows], screen.width),
        Text(""),
        Text(_TIME[result.by] + _NOTE),
    ]
    if result.by != "step":
        parts.append(Text(f"over {every_phase(result.basis)}"))
    if any((row.cost_pct or 0.0) < LEAST_COST_PCT for row in result.rows):
        why = (
            "kernels of graphs have no recorded shapes; add --with an eager profile, or "
            if result.graph_replays
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
