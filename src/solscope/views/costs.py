"""Calls of operators: their kernels' time, and what each costs at least.

A call is one operator with all kernels that it launched, and the helpers that serve them and have
no operator of their own. Its time is the sum of theirs; its cost, from the recorded inputs, counts
once. Kernels without operator take inputs that they could borrow (`attribution/borrow.py`).
Copies and fills that no operator made cost the bytes that the driver recorded. With a model's
config, what has no cost from shapes becomes calls of roles (`views/model_costs.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
from msgspec.structs import replace

from solscope.arrays import positions, take
from solscope.attribution import Attributed
from solscope.attribution.collectives import RECORD, annotated_inputs
from solscope.attribution.columns import BORROWED
from solscope.attribution.graphs import graph_calls
from solscope.attribution.inner_inputs import INPUTS, inputs_of
from solscope.errors import InputError
from solscope.events import json_list
from solscope.operators import operator
from solscope.operators.base import Cost
from solscope.operators.calls.lengths import Lengths, stated_lengths
from solscope.operators.recorded import OperatorAxes, Recorded, recognize
from solscope.views.idle import places

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

_SIGNATURE = ["op", *INPUTS]
STATED = "from the lengths that the step states"
"""The source of axes of attention whose lengths are not among its inputs."""
GRID_TELLS = "aten::index"
"""The operator whose inputs leave its size open, and is read from the grid of its kernel."""
FEW_CALLS = 8
"""One call in so many, at least, must be slower than the others: fewer are disturbances."""
APART = 1.5
"""How much longer the fastest of the slower calls takes than the slowest of the faster ones."""
CALL_COLUMNS = (
    *("call", "kind", "time_ns", "kernels", "inferred", "step", "role"),
    *("rank", "device", "stream", "start_ns"),
)


_OF_CALL = (
    *("call", *_SIGNATURE, "name", "category", "role", "step", "kind", "bytes", "config", "grid"),
    *("lengths", "rank", "device", "stream", "start_ns", "inferred", "launch_row", "dur_ns"),
)
"""Columns of activities that say what their call is."""
_USED = (
    *("row", "op_row", "owner_row", "borrowed_call", "name", "category", "role", "step", "kind"),
    *("bytes", "grid", "rank", "device", "stream", "start_ns", "dur_ns", "launch_row"),
    *(*_SIGNATURE, *BORROWED),
)
"""Columns of activities that calls are found from; a model's config needs all of them."""


class CallKind(msgspec.Struct, frozen=True):
    """Equal calls: one operator with one set of inputs; or a reason why there is no cost."""

    op: str | None
    """Operator as recorded, or the role for a cost from a config; null where neither is known."""
    kernel: str
    """The kernel that takes most of the time."""
    category: str
    operator: str | None
    axes: dict[str, Any]
    cost: Cost | None
    expected: Cost | None
    """Likely cost where the bound assumes the luckiest case; else null."""
    reason: str | None
    inferred: bool = False
    """The inputs are borrowed from the same kernels elsewhere."""
    source: str | None = None
    """Where the axes come from when not from inputs alone: `from config NAME`, or `STATED`."""


class CallTable(msgspec.Struct, frozen=True):
    """All calls of a profile."""

    calls: pl.DataFrame
    """One row per call (`CALL_COLUMNS`); `kind` is an index into `kinds`."""
    kinds: list[CallKind]
    activities: pl.DataFrame
    """The call of every activity: `row` (as in `Attributed.activities`), `call`."""


def find_calls(attributed: Attributed, model: Model | None = None) -> CallTable:
    """Every GPU activity in exactly one call, with its cost or the reason why it has none.

    With `model`, calls without a cost are taken apart into the roles that its config describes,
    except for roles that it rules out.
    """
    if attributed.profile.is_aggregate:
        raise InputError(
            f"{attributed.profile.path}: a summary has no single calls and no shapes; "
            "costs need a trace recorded with shapes"
        )
    activities = attributed.activities
    if model is None:
        activities = activities.select(_USED)
    rows = _with_calls(attributed.profile.events, activities)
    rows = rows.with_columns(pl.lit(None, pl.Int64).alias("config"))
    if model is not None and model.config.windowed:
        # Which of the stated keys a layer attends to, only the config says.
        rows = rows.with_columns(pl.lit(None, pl.String).alias("lengths"))
    else:
        rows = rows.with_columns(_stated_by_step(rows, attributed))
    table = _tabulate(rows, [], None)
    if model is None:
        return table
    from solscope.views.model_check import contradictions
    from solscope.views.model_costs import model_calls

    costed_kinds = [
        kind_index for kind_index, kind in enumerate(table.kinds) if kind.cost is not None
    ]
    costed = set(table.calls.filter(pl.col("kind").is_in(costed_kinds))["call"].to_list())
    doubts = contradictions(attributed, model)
    rows, role_calls = model_calls(rows, costed, attributed, model, doubts)
    return _tabulate(rows, role_calls, _source(attributed, model))


def replays_graphs(attributed: Attributed) -> bool:
    """Whether a graph was launched or recorded; its kernels have no operators of their own."""
    events = attributed.profile.events
    return bool(graph_calls(events).any()) or bool((events["kind"] == "graph").any())


def _source(attributed: Attributed, model: Model) -> str:
    ranks = attributed.profile.metadata.world_size or 1
    shared = f", layers shared by {ranks} ranks" if ranks > 1 else ""
    return f"from config {model.name}{shared}"


def _tabulate(
    rows: pl.DataFrame, role_calls: list[OperatorAxes | str], source: str | None
) -> CallTable:
    """Activities by call, and equal calls by kind; `config` is an index into `role_calls`."""
    calls = (
        rows.select(_OF_CALL)
        .sort("dur_ns", descending=True, maintain_order=True)
        .group_by("call", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*_SIGNATURE, "name", "category", "role", "step")),
            pl.col("kind").first().alias("event"),
            pl.col("bytes", "config").first(),
            pl.when(pl.col("op") == GRID_TELLS).then(pl.col("grid").cast(pl.String)).first(),
            pl.when(pl.col("category") == "attention").then("lengths").first(),
            *(pl.col(name).first() for name in ("rank", "device", "stream")),
            pl.col("start_ns").min(),
            pl.col("inferred").any(),
            pl.col("launch_row").is_not_null().any().alias("launched"),
            pl.col("dur_ns").sum().alias("time_ns"),
            pl.len().alias("kernels"),
        )
    )
    calls = calls.with_columns(_windowed(calls))
    keys = [
        *(*_SIGNATURE, "name", "category", "event", "bytes", "launched", "inferred"),
        *("config", "grid", "lengths", "windowed"),
    ]
    distinct = calls.select(keys).unique(maintain_order=True).with_row_index("kind")
    table = calls.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return CallTable(
        table.select(*CALL_COLUMNS),
        [_kind(row, role_calls, source) for row in distinct.iter_rows(named=True)],
        rows.select("row", "call"),
    )


def _with_calls(events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Activities in the order of rows, with `call`, `inferred` and the inputs of their operator.

    Calls are numbered by the row of their operator; those without one by an activity, below zero.
    """
    if not rows["row"].is_sorted():
        rows = rows.sort("row")
    owner = positions("owner", places(rows, rows["owner_row"]))
    rows = rows.with_columns(
        pl.coalesce("op_row", take(rows["op_row"], owner)).alias("source_row"),
        take(rows["borrowed_call"], owner).alias("owner_call"),
        pl.col("dur_ns").fill_null(0),
    )
    # An operator around the launch of a graph is not that of a kernel in it.
    borrowed = pl.coalesce(
        "borrowed_call", pl.when(pl.col("source_row").is_null()).then("owner_call")
    )
    rows = rows.with_columns(
        borrowed.alias("borrowed_call"),
        pl.when(borrowed.is_null()).then("source_row").alias("source_row"),
    ).with_columns(
        pl.coalesce(
            pl.col("source_row").cast(pl.Int64),
            -1 - pl.col("borrowed_call").cast(pl.Int64),
            -1 - pl.col("row").cast(pl.Int64),
        ).alias("call"),
        pl.col("borrowed_call").is_not_null().alias("inferred"),
    )
    notes = annotated_inputs(events)
    source = rows["source_row"].replace(notes) if notes else rows["source_row"]
    recorded = {"op": take(events["name"], source), **inputs_of(events, source)}
    # Kernels of collectives say themselves what they send.
    own = rows["input_dims"].is_not_null() & recorded["input_dims"].is_null()
    return rows.with_columns(
        pl.when(own)
        .then(pl.lit(RECORD, pl.Categorical()) if name == "op" else pl.col(name))
        .when("inferred")
        .then(pl.col(lent))
        .otherwise(recorded[name])
        .alias(name)
        for name, lent in zip(_SIGNATURE, BORROWED, strict=True)
    )


def _stated_by_step(rows: pl.DataFrame, attributed: Attributed) -> pl.Series:
    """`lengths`: the name of an activity's step, where it states the lengths of its requests."""
    steps = attributed.steps.select("step", lengths=pl.col("name").cast(pl.String)).unique("step")
    stating = steps.filter(pl.col("lengths").str.contains("sqsk", literal=True))
    return rows.select("step").join(stating, on="step", how="left", maintain_order="left")[
        "lengths"
    ]


def _windowed(calls: pl.DataFrame) -> pl.Series:
    """Calls that are much faster than equal ones of other layers of their step.

    The same attention over the same requests takes the same time, unless a window leaves it fewer
    keys. So times fall into two groups, each with several calls.
    """
    windowed = [False] * calls.height
    stated = calls.with_row_index("row").filter(pl.col("lengths").is_not_null())
    for alike in stated.partition_by(*_SIGNATURE, "lengths", "rank", "device", "step"):
        rows = alike.sort("time_ns").select("row", "time_ns").rows()
        few = max(2, len(rows) // FEW_CALLS)
        splits = range(few, len(rows) - few + 1)
        faster = [split for split in splits if rows[split][1] > APART * rows[split - 1][1]]
        for row, _ in rows[: max(faster, default=0)]:
            windowed[row] = True
    return pl.Series("windowed", windowed, dtype=pl.Boolean)


def _kind(
    row: dict[str, Any], configured: list[OperatorAxes | str], config: str | None
) -> CallKind:
    number, source = row["config"], None
    if number is not None:
        recognized, source = configured[number], config
    elif row["op"] is None:
        recognized = _copied(row)
    else:
        recognized = _recorded(row)
        if isinstance(recognized, str) and row["lengths"] is not None:
            recognized, source = _by_lengths(row), STATED
    name, axes = (None, {}) if isinstance(recognized, str) else recognized
    entry = None if name is None else operator(name)
    return CallKind(
        op=row["op"],
        kernel=str(row["name"]),
        category=str(row["category"]),
        operator=name,
        axes=axes,
        cost=None if entry is None else entry.cost(axes),
        expected=None if entry is None or entry.expected is None else entry.expected(axes),
        reason=recognized if isinstance(recognized, str) else None,
        inferred=bool(row["inferred"]) and number is None,
        source=source,
    )


def _copied(row: dict[str, Any]) -> OperatorAxes | str:
    """What the driver recorded about a copy or fill without an operator, or without its inputs."""
    if row["event"] == "graph":
        return "a whole graph was recorded as one activity"
    size, name = row["bytes"], str(row["name"])
    if row["event"] == "memset" and size is not None:
        return "fill", {"write_bytes": size}
    if row["event"] == "memcpy" and size is not None:
        read = 0 if "HtoD" in name else size
        written = 0 if "DtoH" in name else size
        host = {} if read and written else {"host_bytes": size}
        return "copy", {"read_bytes": read, "write_bytes": written, **host}
    return "replayed or launched outside any operator" if row["launched"] else "launch not recorded"


def _by_lengths(row: dict[str, Any]) -> OperatorAxes | str:
    """What inputs leave open, from the lengths that the step states."""
    recognized = _recorded(row, stated_lengths(row["lengths"]))
    if row["windowed"] and not isinstance(recognized, str):
        return "far faster than equal calls of other layers: a window may limit its keys"
    return recognized


def _recorded(row: dict[str, Any], lengths: Lengths | None = None) -> OperatorAxes | str:
    dims = json_list(row["input_dims"])
    if not dims:
        driven = row["event"] in ("memcpy", "memset") and row["bytes"] is not None
        return _copied(row) if driven else "no input shapes recorded"
    types, strides, concrete = (json_list(row[name]) for name in INPUTS[1:])
    texts = [value if isinstance(value, str) else "" for value in types]
    scalars = [value if isinstance(value, str) else str(value) for value in concrete]
    name, grid = str(row["name"]), row["grid"] or ""
    call = Recorded(str(row["op"]), dims, texts, strides, scalars, name, grid)
    return recognize(replace(call, category=str(row["category"]), lengths=lengths))
