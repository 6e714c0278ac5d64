"""Steps: which iteration of the engine each GPU activity belongs to, and that iteration's phase.

Where to cut is taken from the best source there is, in this order:

1. annotations: vLLM `execute_...`, SGLang `step[...]`, `ProfilerStep#n`, or any outermost
annotation
   that launches GPU work;
2. graph launches: a large graph is one decode step;
3. a kernel that occurs once per step (sampling or embedding), when its distances are regular;
4. nothing: the whole profile is one step.

An activity belongs to the step in which it was *launched*, or after which, when it was launched
between two. Activities without a launch that ran before the first step form a step of their own,
marked as cut. Inside a step, annotations that name a phase (`prefill`, `decode`) separate *passes*:
each pass is one run through the model.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.attribution.link import enclosing
from solscope.attribution.phases import (
    PHASE_NAME,
    PHASES,
    Query,
    facts_of,
    phase_by_shapes,
    queries_of,
)
from solscope.intervals import Int64s, find_stray, nest

STEP_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "name": pl.String(),
        "found_by": pl.String(),
        "phase": pl.Enum(PHASES),
        "requests": pl.Int64(),
        "tokens": pl.Int64(),
        "cut": pl.Boolean(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "process": pl.Int32(),
    }
)
"""One row per step; `start_ns` and `end_ns` bound its GPU activities, `process` counts from 0."""

_STEP_NAME = re.compile(
    r"^(ProfilerStep#\d+|execute_|step\[|.*(engine|decode|forward|model)[_ ]?step|iteration\b)",
    re.IGNORECASE,
)
_GRAPH_LAUNCH = "GraphLaunch"
_LARGE_GRAPH = 32
"""Kernels in a graph from which on one replay is taken for a whole step."""


class Steps(NamedTuple):
    """The steps of a profile and where each activity belongs."""

    table: pl.DataFrame
    """`STEP_SCHEMA`."""
    step: pl.Series
    """For each activity its step number, or null."""
    pass_id: pl.Series
    """For each activity a number that is the same within one run through the model."""
    pass_phase: pl.Series
    """Phase of that run, where it is known."""

    def without_phases(self) -> Steps:
        """The same steps, of a model that has no prefill and decode."""
        phase = pl.Enum(PHASES)
        table = self.table.with_columns(pl.lit(None, phase).alias("phase"))
        return self._replace(table=table, pass_phase=self.pass_phase.clear(self.pass_phase.len()))


class _Cut(NamedTuple):
    """Host intervals that are steps."""

    start: Int64s
    end: Int64s
    names: list[str]
    found_by: str


def find_steps(events: pl.DataFrame, activities: pl.DataFrame) -> Steps:
    """Cut the profile into steps and passes; ranks and processes of a merged one by themselves."""
    owner = activities.select(pl.struct("rank", "pid").rank("dense").cast(pl.Int32)).to_series()
    if owner.n_unique() < 2:
        return _find_steps(events, activities)
    parts = [_find_steps(events, activities.filter(owner == number)) for number in owner.unique()]
    return _merge(
        parts, [(owner == number).arg_true() for number in owner.unique()], activities.height
    )


def _merge(parts: list[Steps], rows: list[pl.Series], height: int) -> Steps:
    """Steps of several processes as one numbering; `rows` says whose activities are whose."""
    tables, steps, passes, phases = [], [], [], []
    done = turns = 0
    for process, part in enumerate(parts):
        shifted = part.table.with_columns(
            pl.col("step") + done, pl.lit(process, pl.Int32).alias("process")
        )
        tables.append(shifted)
        steps.append(part.step + done)
        passes.append(part.pass_id + turns)
        phases.append(part.pass_phase)
        done += int(part.table["step"].max() or 0) + 1 if not part.table.is_empty() else 0  # type: ignore[arg-type]
        turns += int(part.pass_id.max() or 0)  # type: ignore[arg-type]
    at = pl.concat(rows)
    columns = [pl.concat(column) for column in (steps, passes, phases)]
    placed = pl.DataFrame([at.alias("at"), *(c.alias(str(n)) for n, c in enumerate(columns))])
    whole = pl.DataFrame({"at": pl.Series(range(height), dtype=at.dtype)}).join(
        placed, on="at", how="left", maintain_order="left"
    )
    return Steps(pl.concat(tables), whole["0"], whole["1"], whole["2"])


def _find_steps(events: pl.DataFrame, activities: pl.DataFrame) -> Steps:
    launched = events["start_ns"].gather(activities["launch_row"])
    cut = _by_annotation(events, activities)
    if cut is not None:
        step = _inside(launched, cut)
    else:
        step, cut = _by_activities(events, activities)
    step, has_head = _head(step, activities)
    step = _without_stray(step, activities)
    names = ["(before the first step)", *cut.names] if has_head else cut.names
    table = _describe(activities, step, cut._replace(names=names))
    pass_id, pass_phase = _passes(events, activities, step, table)
    queries = queries_of(events, activities)
    by_shape = phase_by_shapes(queries)
    pass_phase = pass_phase.zip_with(pass_phase.is_not_null(), _spread(by_shape, pass_id))
    table = _fill_phases(table, step, pass_phase)
    table = _fill_sizes(table, step, queries)
    by_step = dict(table.select("step", pl.col("phase").cast(pl.String)).iter_rows())
    from_step = step.replace_strict(by_step, default=None, return_dtype=pl.String)
    pass_phase = pass_phase.zip_with(pass_phase.is_not_null(), from_step.cast(pl.Enum(PHASES)))
    return Steps(table, step, pass_id, pass_phase)


def _by_annotation(events: pl.DataFrame, activities: pl.DataFrame) -> _Cut | None:
    """Outermost annotations that launch GPU work; None when there are none."""
    rows = enclosing(events, activities, "annotation")
    used = set(rows.drop_nulls().to_list())
    table = (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", "rank", "pid", "tid")
        .with_row_index("row")
        .filter((pl.col("kind") == "annotation") & pl.col("dur_ns").is_not_null())
        .collect()
    )
    if table.is_empty() or not used:
        return None
    outer = _outermost(table, used)
    if outer.is_empty():
        return None
    names = outer["name"].to_list()
    named = outer.filter(pl.Series([_is_step(n) for n in names], dtype=pl.Boolean))
    # Ranges that name an operator (torch's emit_nvtx) are no steps, however far out they lie.
    other = outer.filter(pl.Series(["::" not in (n or "::") for n in names], dtype=pl.Boolean))
    chosen = (named if not named.is_empty() else other).sort("start_ns")
    if chosen.is_empty():
        return None
    start = chosen["start_ns"].to_numpy()
    end = start + chosen["dur_ns"].to_numpy()
    return _Cut(start, end, chosen["name"].cast(pl.String).to_list(), "annotation")


def _outermost(table: pl.DataFrame, used: set[int]) -> pl.DataFrame:
    """Annotations that hold launches and lie in no other; a single wrapper of many is opened."""
    parts = []
    for part in table.partition_by(["rank", "pid", "tid"]):
        start = part["start_ns"].to_numpy()
        end = start + part["dur_ns"].to_numpy()
        parent = nest(start, end)
        rows = part["row"].to_list()
        holds = np.zeros(part.height, dtype=bool)
        for at in (i for i, row in enumerate(rows) if row in used):
            while at >= 0 and not holds[at]:
                holds[at] = True
                at = int(parent[at])
        level = (parent < 0) & holds
        while level.sum() == 1:
            wrapper = int(np.flatnonzero(level)[0])
            inner = holds & (parent == wrapper)
            # Phases inside a step are its passes, not steps of their own.
            wanted = _is_named_step if _is_named_step(part["name"][wrapper]) else _is_step
            if sum(wanted(name) for name in part.filter(pl.Series(inner))["name"]) < 2:
                break
            level = inner
        parts.append(part.filter(pl.Series(level)))
    return pl.concat(parts) if parts else table.clear()


def _is_named_step(name: str | None) -> bool:
    return bool(name and _STEP_NAME.match(name))


def _is_step(name: str | None) -> bool:
    return _is_named_step(name) or bool(name and PHASE_NAME.search(name))


def _inside(launched: pl.Series, cut: _Cut) -> pl.Series:
    """Number of the interval in which each launch lies, or after which it follows."""
    at = launched.fill_null(np.iinfo(np.int64).min).to_numpy()
    index = np.searchsorted(cut.start, at, side="right") - 1
    return pl.Series("step", index).replace(-1, None).cast(pl.Int32)


def _by_activities(events: pl.DataFrame, activities: pl.DataFrame) -> tuple[pl.Series, _Cut]:
    """Steps from graph launches or from a kernel that marks them; else one step for everything."""
    starts = _graph_starts(events, activities)
    found_by = "graph_launch"
    if starts.size < 2:
        starts, found_by = _marker_starts(activities), "kernel_period"
    gpu_start = activities["start_ns"].fill_null(np.iinfo(np.int64).min).to_numpy()
    if starts.size < 2:
        step = pl.Series("step", np.zeros(activities.height, np.int32))
        empty = np.empty(0, np.int64)
        return step, _Cut(empty, empty, ["(whole profile)"], "whole_profile")
    index = np.searchsorted(starts, gpu_start, side="right") - 1
    # What ran before the first mark belongs to a step that the profile does not show whole.
    step = pl.Series("step", (index + 1).astype(np.int32))
    names = ["(before the first step)", *(f"{found_by} {i}" for i in range(starts.size))]
    return step, _Cut(starts, starts, names, found_by)


def _graph_starts(events: pl.DataFrame, activities: pl.DataFrame) -> Int64s:
    """When each replay of a large graph began on the GPU."""
    names = events["name"].gather(activities["launch_row"]).cast(pl.String)
    replays = (
        activities.select("launch_row", "start_ns")
        .filter(names.str.contains(_GRAPH_LAUNCH).fill_null(False))
        .group_by("launch_row")
        .agg(pl.len(), pl.col("start_ns").min())
        .filter(pl.col("len") >= _LARGE_GRAPH)
        .sort("start_ns")
    )
    return replays["start_ns"].to_numpy()


def _marker_starts(activities: pl.DataFrame) -> Int64s:
    """Starts of a kernel that occurs once per step: the rarest regular embedding or sampler."""
    ordered = (
        activities.filter(pl.col("start_ns").is_not_null()).sort("start_ns").with_row_index("at")
    )
    for category in ("embedding", "sampling"):
        groups = (
            ordered.filter(pl.col("category") == category)
            .group_by("name")
            .agg(pl.col("at"), pl.col("start_ns"), pl.len())
            .filter(pl.col("len") >= 3)
            .sort("len", "name")
        )
        for at, start in groups.select("at", "start_ns").iter_rows():
            spacing = np.diff(np.array(at))
            regular = spacing.min() >= _LARGE_GRAPH and np.median(spacing) * 1.5 > spacing.max()
            if regular and not _once_per_layer(ordered, at):
                return np.array(start, dtype=np.int64)
    return np.empty(0, np.int64)


def _once_per_layer(ordered: pl.DataFrame, marks: list[int]) -> bool:
    """True when there is but one attention call from mark to mark: a layer, not a step."""
    mixers = ordered.filter(pl.col("category").is_in(["attention", "linear_attention", "softmax"]))[
        "at"
    ].to_numpy()
    return mixers.size > 0 and bool(np.median(np.diff(np.searchsorted(mixers, marks))) < 2)


def _head(step: pl.Series, activities: pl.DataFrame) -> tuple[pl.Series, bool]:
    """Unlinked activities before the first step become a cut step 0; later ones join others.

    The second value says whether there is such a step, by which all others then move up.
    """
    if activities["launch_row"].null_count() == 0 or step.null_count() == 0:
        return step, False
    lost = activities["launch_row"].is_null()
    table = pl.DataFrame({"step": step, "start_ns": activities["start_ns"], "lost": lost})
    ordered = table.with_row_index("at").sort("start_ns", nulls_last=True)
    joined = ordered.select(
        pl.when(pl.col("lost")).then(pl.col("step").fill_null(strategy="forward")).otherwise("step")
    ).to_series()
    early = ordered["lost"] & joined.is_null()
    if early.any():
        joined = (joined + 1).set(early, 0)
    placed = pl.DataFrame({"at": ordered["at"], "step": joined}).sort("at")["step"]
    return placed.cast(pl.Int32), bool(early.any())


def _without_stray(step: pl.Series, activities: pl.DataFrame) -> pl.Series:
    """Take out of each step the few activities that lie far away from all its others."""
    table = pl.DataFrame(
        {
            "step": step,
            "start": activities["start_ns"],
            "end": activities["start_ns"] + activities["dur_ns"].fill_null(0),
        }
    ).with_row_index("at")
    lost: list[int] = []
    for part in table.drop_nulls().partition_by("step"):
        stray = find_stray(part["start"].to_numpy(), part["end"].to_numpy(), one_in=200)
        if stray is not None:
            lonely = pl.col("start") < stray.end if stray.before else pl.col("start") >= stray.end
            lost += part.filter(lonely)["at"].to_list()
    return step.scatter(lost, None) if lost else step


def _describe(activities: pl.DataFrame, step: pl.Series, cut: _Cut) -> pl.DataFrame:
    """The step table: bounds on the GPU, and what the names tell."""
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    bounds = (
        activities.select(step.alias("step"), "start_ns", end.alias("end_ns"))
        .filter(pl.col("step").is_not_null())
        .group_by("step")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("step")
    )
    rows = []
    for number, start, stop in bounds.iter_rows():
        name = cut.names[number]
        facts = facts_of(name)
        whole = name != "(before the first step)"
        values = (number, name, cut.found_by, *facts, not whole, start, stop, 0)
        rows.append(dict(zip(STEP_SCHEMA, values, strict=True)))
    return pl.DataFrame(rows, schema=STEP_SCHEMA)


def _fill_phases(table: pl.DataFrame, step: pl.Series, pass_phase: pl.Series) -> pl.DataFrame:
    """Phases of steps whose name tells none, from the phases of their passes."""
    seen = (
        pl.DataFrame({"step": step, "seen": pass_phase.cast(pl.String)})
        .drop_nulls()
        .group_by("step")
        .agg(pl.col("seen").unique().sort())
    )
    found = {
        number: phases[0] if len(phases) == 1 else "mixed"
        for number, phases in seen.iter_rows()
        if len(phases) == 1 or set(phases) <= {"prefill", "decode"}
    }
    guess = table["step"].replace_strict(found, default=None, return_dtype=pl.String)
    return table.with_columns(pl.coalesce("phase", guess.cast(pl.Enum(PHASES))).alias("phase"))


def _fill_sizes(table: pl.DataFrame, step: pl.Series, queries: list[Query | None]) -> pl.DataFrame:
    """Requests and tokens of steps whose name tells none, when all their attention calls agree."""
    found = pl.DataFrame(
        {
            "step": step,
            "seen_requests": [None if q is None else q.requests for q in queries],
            "seen_tokens": [None if q is None else q.requests * q.length for q in queries],
        },
        schema_overrides={"seen_requests": pl.Int64, "seen_tokens": pl.Int64},
    ).drop_nulls()
    agreed = (
        found.unique()
        .group_by("step")
        .agg(pl.col("seen_requests", "seen_tokens").first(), pl.len().alias("shapes"))
        .filter(pl.col("shapes") == 1)
    )
    return table.join(agreed, on="step", how="left", maintain_order="left").select(
        pl.coalesce(name, f"seen_{name}").alias(name) if name in ("requests", "tokens") else name
        for name in STEP_SCHEMA
    )


def _spread(phase: pl.Series, pass_id: pl.Series) -> pl.Series:
    """Give every activity the phase that the attention calls of its pass agree on."""
    seen = pl.DataFrame({"pass": pass_id, "phase": phase}).drop_nulls().unique()
    agreed = seen.group_by("pass").agg(pl.col("phase").first(), pl.len()).filter(pl.col("len") == 1)
    joined = pl.DataFrame({"pass": pass_id}).join(
        agreed, on="pass", how="left", maintain_order="left"
    )
    return joined["phase"]


def _passes(
    events: pl.DataFrame, activities: pl.DataFrame, step: pl.Series, table: pl.DataFrame
) -> tuple[pl.Series, pl.Series]:
    """Runs through the model: by annotations that name a phase, else the step itself."""
    names = events.filter(pl.col("kind") == "annotation")["name"].unique().drop_nulls()
    phases = {
        n: f.phase
        for n in names
        if (f := facts_of(n)).phase in ("prefill", "decode", "draft", "verify")
    }
    rows = enclosing(events, activities, "annotation", set(phases))
    frame = pl.DataFrame(
        {"step": step, "mark": rows, "start_ns": activities["start_ns"]}
    ).with_row_index("at")
    # A step whose own name tells its phase is one pass, whatever is marked inside it.
    known = table.filter(pl.col("phase").is_not_null())["step"].to_list()
    frame = frame.with_columns(pl.when(~pl.col("step").is_in(known)).then("mark").alias("mark"))
    # Work between two marked parts belongs to the one before it, work before all to the first.
    ordered = frame.sort("step", "start_ns", nulls_last=True).with_columns(
        pl.col("mark").fill_null(strategy="forward").over("step").alias("mark")
    )
    ordered = ordered.with_columns(
        pl.col("mark").fill_null(strategy="backward").over("step").alias("mark")
    )
    back = ordered.sort("at")
    pass_id = back.select(
        pl.when(pl.col("step").is_not_null()).then(
            pl.struct("step", "mark").rank("dense").cast(pl.Int32)
        )
    ).to_series()
    texts = events["name"].gather(back["mark"]).cast(pl.String)
    phase = texts.replace_strict(phases, default=None, return_dtype=pl.String)
    return pass_id.alias("pass"), phase.cast(pl.Enum(PHASES)).alias("pass_phase")
