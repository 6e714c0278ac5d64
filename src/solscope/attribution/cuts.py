"""Where a profile is cut into steps.

The best source there is decides, in this order:

1. annotations: vLLM `execute_...`, SGLang `step[...]`, `ProfilerStep#n`, or any outermost
   annotation that launches GPU work;
2. graph launches: a large graph is one decode step;
3. kernels that stand once in every pass (sampling or embedding), see `markers.py`;
4. turns of drafts and their verification, where none of these tells (`speculation.py`), or where
   the marks are those of single passes;
5. nothing: the whole profile is one step.

An activity belongs to the step in which it was *launched*, or after which, when it was launched
between two; where activities themselves mark the steps, to the last mark before it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import positions, series, take
from solscope.attribution.markers import holds_passes, marked_passes
from solscope.attribution.phases import PHASE_NAME
from solscope.attribution.stacks import Stacks
from solscope.intervals import Int64s, nest
from solscope.patterns import lazy_pattern
from solscope.queries import collect

BEFORE = "(before the first step)"
"""Name of a step of which the profile shows the end alone."""
_STEP_NAME = lazy_pattern(
    r"^(ProfilerStep#\d+|execute_|step\[|.*(engine|decode|forward|model)[_ ]?step|iteration\b)",
    re.IGNORECASE,
)
_SEQUENCE_NUMBER = lazy_pattern(r",\s*seq\s*=")
_GRAPH_LAUNCH = "GraphLaunch"
_LARGE_GRAPH = 32
"""Fewest kernels in a graph whose replay counts as a whole step."""


class Cut(NamedTuple):
    """Steps, one after another."""

    start: Int64s
    """When each begins: on the host where annotations tell, else on the GPU."""
    names: list[str]
    found_by: str


def cut_steps(stacks: Stacks) -> tuple[pl.Series, Cut]:
    """The step number of each activity, null before the first, and the steps it was taken from."""
    events, activities = stacks.events, stacks.activities
    cut = _by_annotation(stacks)
    if cut is not None:
        return _inside(take(events["start_ns"], activities["launch_row"]), cut), cut
    return _by_activities(events, activities)


def _by_annotation(stacks: Stacks) -> Cut | None:
    """Outermost annotations that launch GPU work; None when there are none."""
    events, activities = stacks.events, stacks.activities
    rows = stacks.rows("annotation")
    used = set(rows.unique().drop_nulls().to_list())
    table = collect(
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", "rank", "pid", "tid")
        .with_row_index("row")
        .filter((pl.col("kind") == "annotation") & pl.col("dur_ns").is_not_null())
    )
    if table.is_empty() or not used:
        return None
    outer = _outermost(table, used)
    if outer.is_empty():
        return None
    names = outer["name"].to_list()
    named = outer.filter(pl.Series([_is_step(n) for n in names], dtype=pl.Boolean))
    other = outer.filter(pl.Series([not _is_operator(n) for n in names], dtype=pl.Boolean))
    chosen = (named if not named.is_empty() else other).sort("start_ns")
    if chosen.is_empty():
        return None
    launched = take(events["start_ns"], activities["launch_row"])
    if named.is_empty() and not holds_passes(activities, launched, chosen["start_ns"].to_numpy()):
        return None
    names = chosen["name"].cast(pl.String).to_list()
    return Cut(chosen["start_ns"].to_numpy(), names, "annotation")


def _outermost(table: pl.DataFrame, used: set[int]) -> pl.DataFrame:
    """Annotations that hold launches and lie in no other; a single wrapper of many is opened."""
    outermost = []
    for thread in table.partition_by(["rank", "pid", "tid"]):
        start = thread["start_ns"].to_numpy()
        end = start + thread["dur_ns"].to_numpy()
        parent = nest(start, end)
        rows = thread["row"].to_list()
        holds = np.zeros(thread.height, dtype=bool)
        for ancestor in (i for i, row in enumerate(rows) if row in used):
            while ancestor >= 0 and not holds[ancestor]:
                holds[ancestor] = True
                ancestor = int(parent[ancestor])
        level = (parent < 0) & holds
        while level.sum() == 1:
            wrapper = int(np.flatnonzero(level)[0])
            inner = holds & (parent == wrapper)
            # Phases inside a step are its passes, not steps of their own.
            wanted = _is_named_step if _is_named_step(thread["name"][wrapper]) else _is_step
            if sum(wanted(name) for name in thread.filter(series("", inner))["name"]) < 2:
                break
            level = inner
        outermost.append(thread.filter(series("", level)))
    return pl.concat(outermost) if outermost else table.clear()


def _is_operator(name: str | None) -> bool:
    """Ranges of torch's `emit_nvtx` name operators and autograd functions, and are no steps."""
    return name is None or "::" in name or _SEQUENCE_NUMBER.search(name) is not None


def _is_named_step(name: str | None) -> bool:
    return bool(name and _STEP_NAME.match(name))


def _is_step(name: str | None) -> bool:
    return _is_named_step(name) or bool(name and PHASE_NAME.search(name))


def _inside(launched: pl.Series, cut: Cut) -> pl.Series:
    """Number of the interval in which each launch lies, or after which it follows."""
    launch_ns = launched.fill_null(np.iinfo(np.int64).min).to_numpy()
    index = np.searchsorted(cut.start, launch_ns, side="right") - 1
    return positions("step", index).cast(pl.Int32)


def _by_activities(events: pl.DataFrame, activities: pl.DataFrame) -> tuple[pl.Series, Cut]:
    """Steps from graph launches or from a kernel that marks them; else one step for everything."""
    starts = _graph_starts(events, activities)
    found_by = "graph_launch"
    if starts.size < 2:
        starts, found_by = marked_passes(activities), "kernel_period"
    if starts.size < 2:
        step = series("step", np.zeros(activities.height, np.int32))
        return step, Cut(np.empty(0, np.int64), ["(whole profile)"], "whole_profile")
    return cut_at(activities, starts, found_by)


def cut_at(activities: pl.DataFrame, starts: Int64s, found_by: str) -> tuple[pl.Series, Cut]:
    """Steps that begin at these times on the GPU."""
    gpu_start = activities["start_ns"].fill_null(np.iinfo(np.int64).min).to_numpy()
    index = np.searchsorted(starts, gpu_start, side="right") - 1
    # What ran before the first mark belongs to a step that the profile does not show whole.
    step = series("step", (index + 1).astype(np.int32))
    names = [BEFORE, *(f"{found_by} {i}" for i in range(starts.size))]
    return step, Cut(starts, names, found_by)


def _graph_starts(events: pl.DataFrame, activities: pl.DataFrame) -> Int64s:
    """When each replay of a large graph began on the GPU."""
    names = take(events["name"], activities["launch_row"]).cast(pl.String)
    replays = (
        activities.select("launch_row", "start_ns")
        .filter(names.str.contains(_GRAPH_LAUNCH).fill_null(False))
        .group_by("launch_row")
        .agg(pl.len(), pl.col("start_ns").min())
        .filter(pl.col("len") >= _LARGE_GRAPH)
        .sort("start_ns")
    )
    return replays["start_ns"].to_numpy()
