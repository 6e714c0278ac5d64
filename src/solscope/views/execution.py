"""How a program runs on the GPU: graphs, compiled regions, speculation, overlap, dtypes, backends.

Every fact comes from what the recording holds: launch calls, names of steps and kernels, recorded
types. Where the recording cannot tell, the fact is null and `unknown` says why; nothing is taken
from the name of the framework.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import holds, take
from solscope.attribution import Attributed
from solscope.attribution.graphs import graph_calls, replayed
from solscope.intervals import overlap, union
from solscope.views.device_time import DeviceTime, bounds
from solscope.views.percent import percent_of

MIXES = ("gemm", "moe", "attention")
"""Categories whose dtype sets the peak that a step is measured against."""
SHARE_FROM = 10.0
"""A backend or dtype with a smaller share (%) of its category's time is not listed."""
COMPILED_RULE = "inductor."
"""Rules of kernels that a compiler generated from operators."""
REGION = r"^Torch-Compiled Region|^## Call CompiledFxGraph"
"""Annotations of compiled code."""
_STATES_MODE = r"^execute_|^step\["
"""Names of steps that state what kind of tokens are in a step."""

_WORDS = (
    ("fp4", r"nvfp4|mxfp4|e2m1|(?<![a-z])fp4"),
    ("fp8", r"e4m3|e5m2|(?<![a-z])fp8(?!kvcache)|float8|nvjet_(?:sm\d+_)?qq"),
    ("int8", r"int8(?!_t)|imma_"),
    ("bf16", r"bf16|bfloat16|_bbs_|_b_bs_|nvjet_(?:sm\d+_)?tst"),
    (
        "fp16",
        r"(?<!mma_)(?<![bc])f16|(?<!b)fp16|half|_hhs_|_h_hs_|h884|h1688|h16816|nvjet_(?:sm\d+_)?hsh",
    ),
    ("tf32", r"tf32|s1688"),
    ("fp32", r"f32f32|sgemm|_sss_|float32|<float"),
)
"""How libraries write the types of operands into kernel names, in lower case; the narrowest counts.

cuDNN writes `wgmma_f16` and `wmma_f16` for both 16-bit types, so it says nothing."""
_TYPES = (
    ("fp4", r"float4|e2m1"),
    ("fp8", r"float8"),
    ("int8", r"signed char|int8|unsigned char"),
    ("bf16", r"bfloat16"),
    ("fp16", r"half"),
    ("fp32", r"^float$|float32"),
)


class GraphUse(msgspec.Struct, frozen=True):
    """Kernels replayed from graphs, of one phase or of the whole profile."""

    phase: str | None
    """Null for the whole profile."""
    kernels: int
    """Kernels of that phase, replayed or not."""
    kernels_pct: float
    time_pct: float | None
    """Share of the time of those kernels."""


class Share(msgspec.Struct, frozen=True):
    """One of several, by GPU time."""

    name: str
    pct: float


class Execution(msgspec.Struct, frozen=True):
    """How the program ran. Null: not known, and `unknown` has the reason under the same name."""

    graphs: GraphUse | None
    """Replayed from CUDA or HIP graphs, in the whole profile."""
    graph_launches: int | None
    graphs_by_phase: list[GraphUse]
    compiled_pct: float | None
    """Share of kernel time in kernels that a compiler generated from several operators."""
    compiled_regions: int | None
    """Calls of compiled regions on the host; null where the host was not recorded."""
    speculative: bool | None
    """Whether passes draft or verify tokens."""
    chunked_prefill: bool | None
    """Whether prompts and generated tokens share a run through the model."""
    overlap_pct: float | None
    """Share of communication time during which other kernels run."""
    concurrent_pct: float | None
    """Share of busy time during which two or more activities run."""
    dtypes: list[Share]
    """Narrowest operand type of products and attention, by their time; `unknown` for the rest."""
    attention: list[Share] | None
    """Kernel families of attention, as the classification rules name them."""
    moe: list[Share] | None
    """Kernel families of routed experts, likewise."""
    unknown: dict[str, str]


def execution(attributed: Attributed, times: list[DeviceTime]) -> Execution:
    """How the program ran, from its activities, launches and steps."""
    unknown: dict[str, str] = {}
    rows = _rows(attributed)
    graphs, launches, by_phase = _graphs(attributed, unknown)
    overlapped, concurrent = _overlap(times, unknown)
    return Execution(
        graphs=graphs,
        graph_launches=launches,
        graphs_by_phase=by_phase,
        compiled_pct=_compiled(rows, unknown),
        compiled_regions=_regions(attributed, unknown),
        speculative=_speculative(attributed, unknown),
        chunked_prefill=_chunked(attributed, unknown),
        overlap_pct=overlapped,
        concurrent_pct=concurrent,
        dtypes=_dtypes(rows, unknown),
        attention=_backend(attributed, rows, "attention", unknown),
        moe=_backend(attributed, rows, "moe", unknown),
        unknown=unknown,
    )


def _rows(attributed: Attributed) -> pl.DataFrame:
    """Kernels as `name`, `category`, `rule`, `types` and their total `ns`."""
    texts = ("name", "category", "rule")
    if attributed.profile.is_aggregate:
        table = attributed.aggregates.filter(pl.col("kind") == "kernel")
        rows = table.select(*texts, pl.lit(None, pl.Categorical()).alias("types"), ns="total_ns")
    else:
        every = attributed.activities.select("kind", *texts, "types_borrowed", "dur_ns", "op_row")
        table = every.filter(pl.col("kind") == "kernel")
        types = take(attributed.profile.events["input_types"], table["op_row"])
        rows = table.select(
            *texts,
            pl.coalesce(types, "types_borrowed").alias("types"),
            pl.col("dur_ns").fill_null(0).alias("ns"),
        )
    sums = rows.group_by(*texts, "types", maintain_order=True).agg(pl.col("ns").sum())
    return sums.with_columns(pl.col(*texts, "types").cast(pl.String))


def _graphs(
    attributed: Attributed, unknown: dict[str, str]
) -> tuple[GraphUse | None, int | None, list[GraphUse]]:
    if attributed.profile.is_aggregate:
        unknown["graphs"] = "a summary has no launches"
        return None, None, []
    table = attributed.activities.select("kind", "phase", "dur_ns", "launch_row", "graph_node")
    table = table.filter(pl.col("kind").is_in(["kernel", "graph"]))
    events = attributed.profile.events
    from_graph = replayed(events, table)
    if table.is_empty():
        unknown["graphs"] = "no kernel ran"
        return None, None, []
    # Without any launch call, only node ids could tell.
    if not from_graph.any() and table["launch_row"].null_count() == table.height:
        unknown["graphs"] = "the profile holds no launch calls"
        return None, None, []
    rows = table.select(
        pl.col("phase").cast(pl.String),
        pl.col("dur_ns").fill_null(0),
        from_graph,
        pl.col("launch_row"),
    )
    calls = int(graph_calls(events).sum())
    phase_rows = rows.filter(pl.col("phase").is_not_null()).partition_by(
        "phase", maintain_order=True
    )
    phases = [_use(rows_of_phase["phase"][0], rows_of_phase) for rows_of_phase in phase_rows]
    by_phase = phases if len(phases) > 1 else []
    return _use(None, rows), calls, sorted(by_phase, key=lambda use: -use.kernels)


def _use(phase: str | None, rows: pl.DataFrame) -> GraphUse:
    own = rows.filter("replayed")
    return GraphUse(
        phase=phase,
        kernels=rows.height,
        kernels_pct=100.0 * own.height / rows.height,
        time_pct=percent_of(int(own["dur_ns"].sum()), int(rows["dur_ns"].sum())),
    )


def _compiled(rows: pl.DataFrame, unknown: dict[str, str]) -> float | None:
    if rows.is_empty():
        unknown["compiled_pct"] = "no kernel ran"
        return None
    generated = rows.filter(pl.col("rule").str.starts_with(COMPILED_RULE))
    return percent_of(int(generated["ns"].sum()), int(rows["ns"].sum()))


def _regions(attributed: Attributed, unknown: dict[str, str]) -> int | None:
    events = attributed.profile.events
    host = events.select("kind", "name").filter(pl.col("kind").is_in(["cpu_op", "annotation"]))
    if host.is_empty():
        unknown["compiled_regions"] = "no operators of the host were recorded"
        return None
    names = host["name"]
    names_of_regions = names.filter(holds(names, lambda texts: texts.str.contains(REGION))).cast(
        pl.String
    )
    # A region calls its graph; both are annotated, and the outer one counts.
    regions = names_of_regions.filter(names_of_regions.str.starts_with("Torch"))
    return regions.len() or names_of_regions.len()


def _speculative(attributed: Attributed, unknown: dict[str, str]) -> bool | None:
    steps = attributed.steps
    phases = set(steps["phase"].cast(pl.String).drop_nulls())
    passes = set(attributed.activities["phase"].unique().cast(pl.String).drop_nulls())
    if (phases | passes) & {"draft", "verify"}:
        return True
    if phases and steps["name"].str.contains(_STATES_MODE).all():
        return False
    unknown["speculative"] = "neither names of steps nor turns of two models state it"
    return None


def _chunked(attributed: Attributed, unknown: dict[str, str]) -> bool | None:
    # A step may run a prefill and then a decode; only a shared pass is chunked prefill.
    phases = set(attributed.activities["phase"].unique().cast(pl.String).drop_nulls())
    if "mixed" in phases:
        return True
    unknown["chunked_prefill"] = (
        "no pass holds both prompts and generated tokens"
        if phases
        else "the phases of the steps are not known"
    )
    return None


def _overlap(times: list[DeviceTime], unknown: dict[str, str]) -> tuple[float | None, float | None]:
    communicating = hidden = busy = total = 0
    for time in times:
        rows = time.rows.select("category", "start_ns", "dur_ns")
        comm = union(*bounds(rows.filter(pl.col("category") == "comm")))
        communicating += comm.length
        hidden += int(overlap(comm.start, comm.end, time.compute).sum())
        busy += time.busy.length
        total += _concurrent(time)
    if not times:
        unknown["overlap_pct"] = unknown["concurrent_pct"] = "there is no time line"
    elif not communicating:
        unknown["overlap_pct"] = "no communication ran"
    return percent_of(hidden, communicating), percent_of(total, busy) if times else None


def _concurrent(time: DeviceTime) -> int:
    """Nanoseconds in which at least two activities run: what each adds to those before it."""
    start, end = bounds(time.rows)
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if start.size < 2:
        return 0
    reached = np.maximum.accumulate(end)[:-1]
    return union(start[1:], np.maximum(np.minimum(end[1:], reached), start[1:])).length


def _dtypes(rows: pl.DataFrame, unknown: dict[str, str]) -> list[Share]:
    mixing = rows.filter(pl.col("category").is_in(MIXES))
    distinct = mixing.group_by("name", "types").agg(pl.col("ns").sum())
    time_of: dict[str, int] = defaultdict(int)
    for name, types, ns in distinct.iter_rows():
        time_of[_dtype(name, types) or "unknown"] += ns
    if not time_of:
        unknown["dtypes"] = "no product or attention ran"
    elif time_of.get("unknown"):
        unknown["dtypes"] = "neither recorded types nor the name of some kernels state it"
    return list(_shares(time_of))


def _dtype(name: str | None, types: str | None) -> str | None:
    """The narrowest type of a kernel's operands: as recorded, else as its name states."""
    text = (name or "").lower()  # A damaged recording may not name it.
    narrow = [dtype for dtype, pattern in _WORDS if re.search(pattern, text)]
    if types:
        given = [dtype for dtype, word in _TYPES for text in _strings(types) if _is(word, text)]
        # A custom operator takes packed weights as bytes; the name of its kernel says more.
        if given and given[0] != "int8":
            return given[0] if not narrow else _narrower(given[0], narrow[0])
    return narrow[0] if narrow else None


def _is(word: str, text: str) -> bool:
    return re.search(word, text, re.IGNORECASE) is not None


def _narrower(a: str, b: str) -> str:
    order = [dtype for dtype, _ in _WORDS]
    return min(a, b, key=order.index)


def _strings(types: str) -> list[str]:
    try:
        values = msgspec.json.decode(types)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _backend(
    attributed: Attributed, rows: pl.DataFrame, category: str, unknown: dict[str, str]
) -> list[Share] | None:
    helpers = {rule.id for rule in attributed.rules.rules if rule.helper is not None}
    own = rows.filter((pl.col("category") == category) & ~pl.col("rule").is_in(list(helpers)))
    if own.is_empty():
        unknown[category] = "no kernel of this category ran"
        return None
    time_of: dict[str, int] = defaultdict(int)
    for rule, ns in own.group_by("rule").agg(pl.col("ns").sum()).iter_rows():
        time_of[str(rule).partition(".")[2] or str(rule)] += ns
    return list(_shares(time_of))


def _shares(time_of: dict[str, int]) -> Iterator[Share]:
    total = sum(time_of.values())
    for name, ns in sorted(time_of.items(), key=lambda item: (-item[1], item[0])):
        if total and 100.0 * ns / total >= SHARE_FROM:
            yield Share(name, 100.0 * ns / total)
