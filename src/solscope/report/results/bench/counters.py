"""`solscope bench profile`: kernels of a call beside the bound."""

from __future__ import annotations

from solscope.bench.counters import Counters
from solscope.names import short_name
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.tables import Column, heading, numbers, table


@form("bench_profile", Counters)
def counters_parts(counters: Counters, screen: Screen) -> list[Printable]:
    """A row per kernel, the call in sum, then what follows from the counters."""
    who = f" by {counters.solution}" if counters.solution else ""
    where = f", {counters.hardware}" if counters.hardware else ""
    source = {"ncu": "Nsight Compute", "kineto": "Kineto", "file": "export of Nsight Compute"}
    title = f"{counters.operator} shape {counters.shape}{who}{where}: {source[counters.tool]}"
    columns = (
        *numbers("launches", "time µs", "DRAM MB", ("occupancy", 2), ("DRAM", 1), ("SM", 3)),
        Column("kernel", text=True),
    )
    cells = [
        (
            f"{kernel.launches:g}",
            _us(kernel.time_us),
            _mb(kernel.dram_bytes),
            pct(kernel.occupancy_pct),
            pct(kernel.dram_pct),
            pct(kernel.sm_pct),
            short_name(kernel.kernel),
        )
        for kernel in counters.kernels
    ]
    kept = [index for index in range(len(columns)) if any(row[index] != "-" for row in cells)]
    shown = table(
        [columns[index] for index in kept],
        [[row[index] for index in kept] for row in cells],
        screen.width,
    )
    return [heading(title), shown, Text(""), *map(Text, _notes(counters))]


def _notes(counters: Counters) -> list[str]:
    notes = [f"kernels of a call: {_us(counters.time_us)} µs, {_mb(counters.dram_bytes)} MB"]
    if counters.bound_us is None:
        notes.append(f"no bound: {counters.bound_reason}; --hardware names a GPU")
    else:
        s = pct(None if counters.s is None else 100 * counters.s)
        notes.append(f"bound: {_us(counters.bound_us)} µs ({counters.limiter}); S {s}")
    needs = f"{_mb(counters.operator_bytes)} MB and {number(counters.operator_flop / 1e9, 2)} GFLOP"
    notes.append(f"the operator needs {needs}")
    if counters.dram_bytes is None:
        notes.append("bytes are not known: only ncu counts them, with dram__bytes_read and _write")
    return notes + counters.findings


def _us(value: float | None) -> str:
    return "-" if value is None else number(value, 2 if value < 1000 else 0)


def _mb(value: float | None) -> str:
    return "-" if value is None else number(value / 1e6, 2)
