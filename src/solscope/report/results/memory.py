"""`solscope memory` in the terminal."""

from __future__ import annotations

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.steps import every_phase
from solscope.report.layout.tables import Column, numbers, table
from solscope.text import clean
from solscope.views.memory import MemoryTable


def _megabytes(size: float | None) -> str:
    return number(None if size is None else size / 1e6)


def _kv_cache(m: MemoryTable) -> str:
    use = m.kv_cache
    if use is None:
        return (
            "KV cache use: not recorded; engines publish it as a metric (vllm:kv_cache_usage_perc, "
            "sglang:token_usage)"
        )
    return (
        f"KV cache use: {pct(use.mean_pct)} on average, {pct(use.peak_pct)} at most "
        f"({use.samples:,} samples of {clean(use.metric)})"
    )


@form_of_each("memory", MemoryTable, "devices")
def memory_parts(m: MemoryTable, screen: Screen, *, top: int) -> list[Printable]:
    """The peak, what is reserved, and what allocates, on one GPU of a profile."""
    where = m.peak_op if m.peak_step is None else f"{m.peak_op}, step {m.peak_step}"
    parts: list[Printable] = [
        Text(
            f"{clean(m.profile)}, GPU {m.device}: peak {_megabytes(m.peak_bytes)} MB in "
            f"{clean(where)}; {_megabytes(m.reserved_bytes)} MB reserved, "
            f"{pct(m.fragmentation_pct)} of it unused",
            style="bold",
        ),
        Text(
            f"{m.events:,} events of the allocator: from {_megabytes(m.first_bytes)} to "
            f"{_megabytes(m.last_bytes)} MB"
        ),
    ]
    if m.allocations_per_step is not None:
        parts.append(
            Text(
                f"per step (mean of {every_phase(m.basis)}): "
                f"{m.allocations_per_step:,.0f} allocations, "
                f"{_megabytes(m.allocated_per_step)} MB taken, "
                f"{_megabytes(m.growth_per_step)} MB kept"
            )
        )
    parts.append(Text(_kv_cache(m)))
    columns = [
        *numbers("MB", "share", "allocations"),
        Column("operator", text=True, code=True),
    ]
    rows = [
        (_megabytes(row.bytes), pct(row.pct), f"{row.calls:,}", row.op) for row in m.operators[:top]
    ]
    rest = m.operators[top:]
    if rest:
        rows.append(
            (
                _megabytes(sum(row.bytes for row in rest)),
                pct(sum(row.pct or 0.0 for row in rest)),
                f"{sum(row.calls for row in rest):,}",
                f"({len(rest):,} more)",
            )
        )
    return [*parts, Text(""), table(columns, rows, screen.width)]
