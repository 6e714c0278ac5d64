"""The event table: what every reader returns and every later stage reads.

One row per event, in file order; times are int64 nanoseconds; strings are interned (Categorical); a
fact the source does not state is null, never 0 or "". Columns are declared here once, with their
unit and meaning, and nowhere else. Nothing outside `readers/` may ask which tool made the profile.

`start_ns` counts from the profile's own zero; `Metadata.unix_offset_ns` turns it into Unix time.

A source that keeps no single events (an `nsys stats` summary) fills the *aggregate table* instead:
one row per kernel name with its call count and statistics. One that was cut into cycles by the tool
that made it (a behavior CSV) fills the *cycle table* as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import polars as pl

from solscope.errors import InputError

KINDS = (
    "kernel",
    "memcpy",
    "memset",
    "graph",
    "sync",
    "runtime",
    "driver",
    "cpu_op",
    "python",
    "annotation",
    "gpu_annotation",
    "overhead",
)
"""Closed list of event kinds. `graph` is the replay of a whole graph recorded as one activity."""

GPU_KINDS = ("kernel", "memcpy", "memset", "graph")
"""Kinds that occupy a GPU. Span, busy time and shares are computed over exactly these."""

LAUNCH_KINDS = ("runtime", "driver")
"""Host calls into the GPU runtime or driver; a GPU activity is linked to one of these."""


class Column(NamedTuple):
    """One declared column."""

    name: str
    dtype: pl.DataType
    meaning: str


_TEXT = pl.Categorical()

EVENT_COLUMNS = (
    Column("kind", pl.Enum(KINDS), "What sort of event this is."),
    Column("name", _TEXT, "Name as recorded, demangled where the source mangles it."),
    Column("start_ns", pl.Int64(), "Start, ns from the profile's own zero."),
    Column("dur_ns", pl.Int64(), "Duration, ns; null when the source gives none."),
    Column("rank", pl.Int32(), "Rank, in a file that merges several ranks; else null."),
    Column("device", pl.Int32(), "GPU ordinal; null for host events."),
    Column("stream", pl.Int64(), "Stream or queue on the GPU; null for host events."),
    Column("pid", pl.Int64(), "Host process."),
    Column("tid", pl.Int64(), "Host thread."),
    Column("correlation", pl.Int64(), "Id shared by a launch call and the activities it caused."),
    Column("external_id", pl.Int64(), "Id shared by an operator and the launches made inside it."),
    Column("graph_id", pl.Int64(), "Executable graph that the activity was replayed from."),
    Column("graph_node", pl.Int64(), "Node of that graph."),
    Column("grid", _TEXT, "Launch grid, blocks per dimension, as `x,y,z`."),
    Column("block", _TEXT, "Thread block, threads per dimension, as `x,y,z`."),
    Column("launched", _TEXT, "Kernel that a launch call starts, where the call names it."),
    Column("bytes", pl.Int64(), "Bytes copied or set."),
    Column("input_dims", _TEXT, "Shapes of an operator's inputs, compact JSON."),
    Column("input_types", _TEXT, "Types of an operator's inputs, compact JSON."),
    Column("input_strides", _TEXT, "Strides of an operator's inputs, compact JSON."),
    Column("concrete_inputs", _TEXT, "Scalar arguments of an operator, compact JSON."),
    Column("collective", _TEXT, "Collective, as the communication library names it."),
    Column(
        "process_group",
        _TEXT,
        "Process group of a collective, by the name that the framework gave.",
    ),
    Column("process_group_ranks", _TEXT, "Ranks of that group, as recorded."),
    Column("sequence", pl.Int64(), "Number of the collective within its group."),
    Column("peer", pl.Int64(), "The other rank of a send or a receive."),
)
EVENT_SCHEMA = pl.Schema({c.name: c.dtype for c in EVENT_COLUMNS})

AGGREGATE_COLUMNS = (
    Column("kind", pl.Enum(KINDS), "kernel, memcpy or memset."),
    Column("name", _TEXT, "Name as recorded."),
    Column("calls", pl.Int64(), "Number of launches."),
    Column("total_ns", pl.Int64(), "Sum of durations, ns."),
    Column("mean_ns", pl.Float64(), "Mean duration, ns."),
    Column("median_ns", pl.Float64(), "Median duration, ns; null when the source gives none."),
    Column("min_ns", pl.Int64(), "Shortest, ns; null when the source gives none."),
    Column("max_ns", pl.Int64(), "Longest, ns; null when the source gives none."),
    Column("std_ns", pl.Float64(), "Standard deviation, ns; null when the source gives none."),
)
AGGREGATE_SCHEMA = pl.Schema({c.name: c.dtype for c in AGGREGATE_COLUMNS})

METRIC_COLUMNS = (
    Column("t_ns", pl.Int64(), "Unix time of the sample, ns."),
    Column("metric", _TEXT, "Name of the sensor; the unit is part of it or of its documentation."),
    Column("device", pl.Int32(), "GPU ordinal; null for a host sensor."),
    Column("value", pl.Float64(), "Reading."),
)
METRIC_SCHEMA = pl.Schema({c.name: c.dtype for c in METRIC_COLUMNS})

CYCLE_COLUMNS = (
    Column("cycle", pl.Int64(), "Number of the cycle, as recorded."),
    Column("pid", pl.Int64(), "Host process."),
    Column("anchor", _TEXT, "What a cycle is: the function whose calls were taken for cycles."),
    Column("anchor_ns", pl.Int64(), "Duration of the cycle, ns."),
    Column("start_ns", pl.Int64(), "Unix time at which the cycle began, ns."),
    Column("name", _TEXT, "Function: a kernel, a copy, a call, or a state such as `oncpu`."),
    Column("resource", _TEXT, "Class of the function, e.g. `gpu_compute`, `oncpu`."),
    Column("device", pl.Int32(), "GPU ordinal; null for a function of the host."),
    Column("dur_ns", pl.Int64(), "Time in the function during the cycle, summed, ns."),
    Column("calls", pl.Int64(), "Calls of the function during the cycle."),
    Column("beta_pct", pl.Float64(), "That time as a share of the cycle; above 100 with threads."),
    Column("metric", _TEXT, "Sensor read while it ran; null when none was (`N/A`)."),
    Column("mu", pl.Float64(), "Mean reading of that sensor while the function ran."),
    Column("sigma", pl.Float64(), "Its standard deviation, as recorded."),
    Column("estimated", _TEXT, "`*` when some readings were interpolated, `**` when all were."),
)
CYCLE_SCHEMA = pl.Schema({c.name: c.dtype for c in CYCLE_COLUMNS})
"""One row per cycle, function, device and metric: time and calls repeat where metrics differ."""


THREAD = ["rank", "pid", "tid"]
"""Columns that identify a host thread."""


def correlation_key(gpu: pl.DataFrame) -> list[str]:
    """Columns by which GPU activities find their launch calls.

    Ids are per process. A trace of one process says nothing of it on the GPU side.
    """
    per_process = gpu["pid"].null_count() < gpu.height
    return ["rank", "pid", "correlation"] if per_process else ["rank", "correlation"]


def is_launch() -> pl.Expr:
    """Selects the calls that can have caused a GPU activity; 0 means no correlation id."""
    return pl.col("kind").is_in(LAUNCH_KINDS) & (pl.col("correlation") != 0)


def conform(table: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """`table` with exactly the columns of `schema`: absent ones null, foreign ones refused."""
    foreign = [name for name in table.columns if name not in schema]
    if foreign:
        raise InputError(f"column {foreign[0]!r} is not one of {', '.join(schema)}")
    return table.select(
        pl.col(name).cast(dtype) if name in table.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )


def json_list(text: str | None) -> list[Any]:
    """The list in a column of compact JSON; empty where there is none, or it is damaged."""
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []
