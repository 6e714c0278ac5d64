"""`solscope ranks` in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from solscope.ranks.pipeline import Pipeline
from solscope.report.forms import Screen, form, one_below_the_other
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.tables import Column, heading, numbers, table, warning_lines, with_bars
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
    if result.legend is not None:
        parts.append(Text(result.legend, style="dim"))
    parts += [Text(""), _ranks(result, screen.width, screen.draw)]
    if result.pipeline is not None:
        parts += [Text(""), heading("Stages, ms per step"), _stages(result.pipeline, screen.width)]
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
    many = "rank" if len(result.missing) == 1 else "ranks"
    gone = f", {many} {listed(result.missing)} missing" if result.missing else ""
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
    columns, rows = _with_hidden(
        "hidden ms", _RANKS, rows, [row.overlap_ms or 0.0 for row in result.ranks], column_index=4
    )
    column_index = 5 + len(columns) - len(_RANKS)
    return table(
        *with_bars(columns, rows, shares, at=column_index, draw=draw, cells=10, spare=6), width
    )


def _with_hidden(
    title: str,
    columns: Sequence[Column],
    rows: list[list[str]],
    hidden: Sequence[float],
    column_index: int,
) -> tuple[list[Column], list[list[str]]]:
    """The table with communication that computing hides, where there is some."""
    if max(hidden, default=0.0) < 0.005:
        return list(columns), rows
    digits = 2 if title.endswith("ms") else 1
    wider = [
        [*row[:column_index], number(value, digits), *row[column_index:]]
        for row, value in zip(rows, hidden, strict=True)
    ]
    return [*columns[:column_index], Column(title), *columns[column_index:]], wider


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


_STAGES = (
    Column("stage"),
    Column("ranks", text=True),
    *numbers("compute", "receive", "send", "other", "held", "host", "bubble"),
)


def _stages(pipeline: Pipeline, width: int) -> Printable:
    rows = [
        [
            str(row.stage),
            listed(row.ranks),
            number(row.compute_ms),
            number(row.receive_ms),
            number(row.send_ms),
            number(row.other_ms),
            number(row.held_ms),
            number(row.host_ms),
            pct(row.bubble_pct),
        ]
        for row in pipeline.stages
    ]
    return table(_STAGES, rows, width)


_COLLECTIVES = (
    Column("kind", text=True),
    *numbers(
        "bytes", "calls", "transfer µs", "wait µs", ("calm µs", 3), ("bus GB/s", 1), ("bound", 4)
    ),
    Column("class", text=True),
    Column("group", text=True, spare=5),
)


def _collectives(result: RunRanks, width: int) -> Printable:
    shown = result.collectives[:12]
    rows = [_collective(row) for row in shown]
    hidden = [row.hidden_us for row in shown]
    return table(*_with_hidden("hidden µs", _COLLECTIVES, rows, hidden, column_index=5), width)


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
        *(Column(f"rank {row.rank}", spare=index) for index, row in enumerate(result.ranks)),
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
    ways = {
        "collectives": "by the ends of collectives",
        "recorded": "as recorded, which no message contradicts",
        "messages": "between the limits that messages set",
    }
    apart = f" (recorded clocks were {clock.recorded_apart_us or 0.0:,.1f} µs apart)"
    return (
        f"clock: {ways[clock.method]}, within {clock.error_us:.1f} µs"
        f"{'' if clock.method == 'recorded' else apart}; late arrivals of all ranks cost {share} "
        f"of the step{load}"
    )
