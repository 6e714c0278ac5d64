"""Why a rank came late: what lay before its late arrivals, compared with the other ranks.

Its GPU was idle with nothing launched: the host. Its GPU did not run what was launched, or took
longer for the same kernels with the same inputs: the GPU. It had other or larger kernels, or more
rows: the load. It left the collective before later than others: the load where it received more,
else the link.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.waiting import PARTS, Waiting
from solscope.run import Run

Floats = NDArray[np.float64]

ENOUGH = 0.4
"""A reason is named when it explains this share of a rank's lateness."""
MORE = 1.1
"""A rank has more work when it has this many times as much as the others."""


class Why(msgspec.Struct, frozen=True):
    """The reason of a rank's lateness, with its evidence."""

    why: str
    """`gpu`, `host`, `load`, `link` or `unknown`."""
    late_ms: float
    """What it came later than the middle of the other ranks, per step."""
    parts_ms: dict[str, float]
    """Of that: `host`, `gpu`, `load`, `link`, per step."""
    evidence: list[str]


class Work(msgspec.Struct, frozen=True):
    """What a rank has to do per step, beside that of the others."""

    mine: float | None
    others: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as much as the others."""
        return self.mine / self.others if self.mine and self.others else None


def explain(
    run: Run,
    split: Waiting,
    rank_index: int,
    rows: NDArray[np.bool_],
    steps: list[set[int]],
    work: dict[str, Work],
    uneven_ns: float = 0.0,
) -> Why:
    """Why the rank at position `at` is late in the collectives `rows`.

    `steps` holds, by rank, the numbers that it gives to the steps of the run; `uneven_ns` is what
    all-to-alls take longer because this rank has most rows.
    """
    count = max(1, len(steps[rank_index]))
    excess = {
        name: max(0.0, float(np.nansum(_beyond(split.parts[name][rows], rank_index)))) / count / 1e6
        for name in PARTS
    }
    slower, more = _kernels(run, rank_index, steps)
    uneven = uneven_ns / count / 1e6
    loaded = [name for name, value in work.items() if (value.ratio or 0.0) > MORE]
    busy_gpu = min(excess["busy"], slower) if excess["busy"] else 0.0
    parts = {
        "host": excess["idle"],
        "gpu": excess["held"] + busy_gpu,
        "load": excess["busy"] - busy_gpu + (excess["late"] if loaded else 0.0) + uneven,
        "link": 0.0 if loaded else excess["late"],
    }
    late = sum(parts.values())
    most = max(parts, key=lambda name: parts[name])
    why = most if late > 0 and parts[most] >= ENOUGH * late else "unknown"
    if why == "gpu" and loaded and more > slower:
        why = "load"
    return Why(why, late, parts, _evidence(why, parts, excess, slower, uneven, work))


def explain_stage(run: Run, rank_index: int, steps: list[set[int]], work: dict[str, Work]) -> Why:
    """Why the stage of a rank is occupied longer than the others: its GPU, or its load."""
    held = [
        int(rank.steps.filter(pl.col("step").is_in(sorted(own)))["held_ns"].sum())
        for rank, own in zip(run.ranks, steps, strict=True)
    ]
    count = max(1, len(steps[rank_index]))
    others = held[:rank_index] + held[rank_index + 1 :]
    excess = max(0.0, held[rank_index] - float(np.median(others or [0]))) / count / 1e6
    slower, more = _kernels(run, rank_index, steps)
    parts = {"host": 0.0, "gpu": excess + slower, "load": more, "link": 0.0}
    late = sum(parts.values())
    most = max(parts, key=lambda name: parts[name])
    why = most if late > 0 and parts[most] >= ENOUGH * late else "unknown"
    shown = {"late": 0.0, "busy": slower + more, "held": excess, "idle": 0.0}
    return Why(why, late, parts, _evidence(why, parts, shown, slower, 0.0, work))


def _beyond(values: Floats, rank_index: int) -> Floats:
    """What the rank at `at` has more than the middle of the others, by collective."""
    others = np.delete(values, rank_index, axis=1)
    timed = ~np.isnan(others).all(1) & ~np.isnan(values[:, rank_index])
    beyond = np.full(values.shape[0], np.nan)
    if timed.any():
        beyond[timed] = values[timed, rank_index] - np.nanmedian(others[timed], axis=1)
    return beyond


def _kernels(run: Run, rank_index: int, steps: list[set[int]]) -> tuple[float, float]:
    """Milliseconds per step that a rank's kernels take longer: for the same work, and for more.

    Groups come in an order that changes from run to run. `fsum` rounds once, at the end, so that
    the sum does not depend on it: in plain floats, `1e16 + 1 - 1e16` is 0, `1e16 - 1e16 + 1` is 1.
    """
    tables = [
        rank.work.filter(pl.col("step").is_in(sorted(steps[number])))
        .group_by("name", "work")
        .agg(pl.col("calls").sum(), pl.col("total_ns").sum())
        .with_columns(pl.lit(number).alias("rank"))
        for number, rank in enumerate(run.ranks)
    ]
    everyone = pl.concat(tables)
    others = (
        everyone.filter(pl.col("rank") != rank_index)
        .with_columns((pl.col("total_ns") / pl.col("calls")).alias("each"))
        .group_by("name", "work")
        .agg(pl.col("each").median())
    )
    own = tables[rank_index].join(others, on=("name", "work"), how="left")
    same = own.filter(pl.col("each").is_not_null())
    slower = math.fsum(same["total_ns"] - same["each"] * same["calls"])
    whole = [float(table["total_ns"].sum()) for table in tables]
    middle = (
        float(np.median(whole[:rank_index] + whole[rank_index + 1 :])) if len(whole) > 1 else 0.0
    )
    count = 1e6 * max(1, len(steps[rank_index]))
    return max(0.0, slower) / count, max(0.0, whole[rank_index] - middle - max(0.0, slower)) / count


def _evidence(
    why: str,
    parts: dict[str, float],
    excess: dict[str, float],
    slower: float,
    uneven: float,
    work: dict[str, Work],
) -> list[str]:
    """Sentences about what was measured; the reason's own first."""
    late = sum(parts.values())
    lines = []

    def say(name: str, value: float, text: str) -> None:
        if late > 0 and value >= 0.05 * late:
            lines.append((name != why, -value, f"{text}: {value:.2f} ms per step"))

    say("host", excess["idle"], "its GPU has nothing launched for longer than the others")
    say("gpu", excess["held"], "launched work waits on its GPU longer than on the others")
    say("gpu", min(excess["busy"], slower), "the same kernels with the same inputs take longer")
    say("load", uneven, "all-to-alls take longer, because it has most rows")
    busy = parts["load"] - uneven - (excess["late"] if parts["link"] == 0.0 else 0.0)
    say("load", busy, "it has other or larger kernels")
    left = "load" if parts["link"] == 0.0 else "link"
    say(left, excess["late"], "it leaves the previous collective later than the others")
    lines.sort()
    sentences = [text for _, _, text in lines]
    for name, value in work.items():
        ratio = value.ratio
        if ratio is not None and (ratio > MORE or ratio < 1 / MORE):
            sentences.append(f"{name} per step: {value.mine:,.0f}, the others {value.others:,.0f}")
    return sentences
