"""`solscope ranks` in the terminal."""

from __future__ import annotations

from typing import TypedDict

from solscope.report.forms import Screen, form, one_below_the_other
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import (
    Column,
    heading,
    number,
    numbers,
    pct,
    table,
    warning_lines,
    with_bars,
)
from solscope.run import listed
from solscope.text import clean
from solscope.views.ranks import CollectiveRow, RankTimes, RunRanks


class Runs(TypedDict):
    """Several runs, one after the other."""

    runs: list[RunRanks]


@form("ranks_several", Runs)
def _several(result: Runs, screen: Screen) -> list[Printable]:
    return one_below_the_other(ranks_parts(run, screen) for run in result["runs"])


@form("ranks", RunRanks)
def ranks_parts(result: RunRanks, screen: Screen) -> list[Printable]:
    """Who waits for whom, ranks, collectives and load."""
    parts: list[Printable] = [
        heading(_title(result)),
        Text(clean(result.verdict), style="bold"),
    ]
    straggler = result.straggler
    if straggler.rank is None and straggler.leader is not None and straggler.evidence:
        parts.append(Text(f"About rank {straggler.leader}, which costs the others most:"))
    parts += [Text(f"  {clean(line)}") for line in straggler.evidence]
    parts += [Text(""), _ranks(result, screen.width, screen.draw)]
    if result.collectives:
        parts += [
            Text(""),
            heading("Collectives, mean per call"),
            _collectives(result, screen.width),
        ]
    if result.imbalance.by_layer:
        parts += [
            Text(""),
            heading("Rows received by experts, per step"),
            _layers(result, screen.width),
        ]
    parts += [Text(""), Text(_clock(result)), *warning_lines(result.warnings)]
    return parts


def _title(result: RunRanks) -> str:
    size = f" of {result.world_size}" if result.missing else ""
    gone = f", ranks {listed(result.missing)} missing" if result.missing else ""
    steps = f"{result.steps} steps" if result.steps else "no whole step"
    return f"{result.name}: {len(result.ranks)} ranks{size}{gone}; per step, mean of {steps}"


_RANKS = (
    Column("rank", text=True),
    *numbers("step ms", "compute ms", "comm ms", "wait ms", "costs ms", ("host ms", 1)),
    *numbers(("held ms", 3), ("last", 2), ("tokens", 4), ("received", 5)),
    Column("GPU", text=True, spare=7),
)


def _ranks(result: RunRanks, width: int, draw: bool) -> Printable:
    rows = [_rank(row, result.straggler.rank) for row in result.ranks]
    shares = [
        100 * row.wait_ms / row.step_ms if row.wait_ms and row.step_ms else 0
        for row in result.ranks
    ]
    return table(*with_bars(_RANKS, rows, shares, at=5, draw=draw, cells=10, spare=6), width)


def _rank(row: RankTimes, straggler: int | None) -> list[str]:
    return [
        f"{row.rank}" + (" *" if row.rank == straggler else ""),
        number(row.step_ms),
        number(row.compute_ms),
        number(row.comm_ms),
        number(row.wait_ms),
        number(row.cost_ms),
        number(row.host_ms),
        number(row.held_ms),
        str(row.last),
        number(row.tokens, 0),
        number(row.received_tokens, 0),
        row.device or "-",
    ]


_COLLECTIVES = (
    Column("kind", text=True),
    *numbers(
        "bytes", "calls", "transfer µs", "wait µs", ("calm µs", 3), ("bus GB/s", 1), ("bound", 4)
    ),
    Column("class", text=True),
    Column("group", text=True, spare=5),
)


def _collectives(result: RunRanks, width: int) -> Printable:
    return table(_COLLECTIVES, [_collective(row) for row in result.collectives[:12]], width)


def _collective(row: CollectiveRow) -> list[str]:
    return [
        row.kind,
        number(row.bytes, 0),
        f"{row.calls:,}",
        number(row.transfer_us, 1),
        number(row.wait_us, 1),
        number(row.baseline_us, 1),
        number(row.busbw_gbs, 2),
        number(row.bound_gbs, 0),
        row.kind_class,
        row.group or "-",
    ]


def _layers(result: RunRanks, width: int) -> Printable:
    columns = [
        *numbers("layer", "max / mean"),
        *(Column(f"rank {row.rank}", spare=at) for at, row in enumerate(result.ranks)),
    ]
    rows = [
        [
            str(layer.layer),
            number(layer.max_over_mean),
            *(number(tokens, 0) for tokens in layer.tokens),
        ]
        for layer in result.imbalance.by_layer
    ]
    return table(columns, rows, width)


def _clock(result: RunRanks) -> str:
    clock = result.clock
    if clock.error_us is None:
        return "no common clock: waiting is estimated from durations"
    uneven = result.imbalance
    load = ""
    if uneven.tokens_max_over_mean is not None and uneven.rank is not None:
        what = (uneven.of or "tokens").replace("_", " ")
        load = f"; {what}: max / mean {uneven.tokens_max_over_mean:.2f}, most on rank {uneven.rank}"
    share = pct(result.straggler.all_share_pct)
    return (
        f"clock: by the ends of collectives, within {clock.error_us:.1f} µs (recorded clocks were "
        f"{clock.recorded_apart_us or 0.0:,.1f} µs apart); late arrivals of all ranks cost {share} "
        f"of the step{load}"
    )
