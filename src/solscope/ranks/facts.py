"""From an attributed profile to the compact tables of its ranks (`run.Rank`)."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.events import json_list
from solscope.intervals import Intervals, overlap, union
from solscope.operators.tensors import Tensor, UnclearError, full_type
from solscope.ranks.groups import group_labels, members
from solscope.ranks.kinds import kind_of
from solscope.ranks.lengths import step_bounds
from solscope.run import (
    CALL_SCHEMA,
    STEP_SCHEMA,
    WORK_SCHEMA,
    Rank,
    RoleKey,
    call_role,
    work_role,
)

_MOST_BYTES = (1 << 63) - 1
"""What the column holds; a larger product is a damaged shape."""
_ROOT = 3
_SPLITS = slice(5, 7)
"""Where torch records the root and the sizes of the parts among the arguments of a collective."""


_ROLE = (
    pl.col("layer_kind").cast(pl.String),
    pl.when(pl.col("place") == "layer")
    .then(pl.col("group").cast(pl.String))
    .otherwise(pl.col("place").cast(pl.String))
    .alias("part"),
    pl.col("role").cast(pl.String),
)
"""Where in the model an activity belongs."""


def rank_facts(attributed: Attributed, number: int) -> list[Rank]:
    """The rank of a profile, or those that it merges; `number` for a profile of one rank."""
    rows = attributed.activities
    stated = sorted(rows["rank"].drop_nulls().unique().to_list())
    if len(stated) < 2:
        return [_facts(attributed, rows, number)]
    return [_facts(attributed, rows.filter(pl.col("rank") == rank), rank) for rank in stated]


def _facts(attributed: Attributed, rows: pl.DataFrame, number: int) -> Rank:
    profile = attributed.profile
    rows = rows.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    zero = profile.metadata.unix_offset_ns or 0
    is_call, calls = _calls(attributed, rows)
    rest = rows.filter(~is_call)
    steps = _steps(attributed, rows, is_call)
    shift = pl.col("start_ns", "end_ns") + zero
    return Rank(
        rank=number,
        path=profile.path,
        metadata=profile.metadata,
        calls=calls.with_columns(shift, pl.col("launch_ns") + zero).match_to_schema(CALL_SCHEMA),
        steps=steps.with_columns(shift).match_to_schema(STEP_SCHEMA),
        work=_work(attributed.profile.events, rest),
        layers=_layers(rows),
        positions=_positions(rows, is_call, calls["kind"]),
        warnings=profile.warnings,
    )


def _calls(attributed: Attributed, rows: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Which activities are collectives, and the table of them."""
    events = attributed.profile.events
    recorded = _recorded(events, rows)
    comm = (rows["category"].cast(pl.String) == "comm").fill_null(False)
    keys = pl.DataFrame({"record": recorded["collective"], "name": rows["name"].cast(pl.String)})
    kind_by_key = {key: kind_of(*key) for key in keys.filter(comm).unique().iter_rows()}
    kinds = [kind_by_key.get(key) for key in keys.iter_rows()]
    kind = pl.Series("kind", kinds, dtype=pl.String).set(~comm, None)
    is_call = kind.is_not_null()
    messages = [_message(*row) for row in recorded.filter(is_call).select(_MESSAGE).iter_rows()]
    start = rows["start_ns"]
    launch = events["start_ns"].gather(rows["launch_row"])
    table = rows.select(
        kind,
        pl.col("name").cast(pl.String),
        group_labels(recorded),
        recorded["sequence"],
        recorded["peer"],
        pl.col("stream"),
        pl.col("start_ns"),
        (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).alias("end_ns"),
        launch.alias("launch_ns"),
        pl.col("step"),
        pl.col("layer").cast(pl.Int32),
        *_ROLE,
    ).filter(is_call)
    table = table.with_columns(
        pl.Series("bytes", [m[0] for m in messages], dtype=pl.Int64),
        pl.Series("sent_rows", [m[1] for m in messages], dtype=pl.List(pl.Int64)),
        pl.Series("received_rows", [m[2] for m in messages], dtype=pl.List(pl.Int64)),
    )
    table = _with_roots(table, events["concrete_inputs"].gather(rows["op_row"]).filter(is_call))
    ends = (start + rows["dur_ns"].fill_null(0)).to_numpy()
    others = (~is_call).to_numpy()
    work = union(start.to_numpy()[others], ends[others])
    hidden = overlap(table["start_ns"].to_numpy(), table["end_ns"].to_numpy(), work)
    before = _before(table, work, _pending(events, rows))
    return is_call, table.with_columns(pl.Series("hidden_ns", hidden), *before)


_MESSAGE = ("input_dims", "input_types", "concrete_inputs")


def _recorded(events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """What is recorded of each collective: at the kernel itself, else at its operator."""
    columns = ("collective", "process_group", "process_group_ranks", "sequence", "peer", *_MESSAGE)
    recorded = []
    for name in columns:
        own, at_op = rows[name], events[name].gather(rows["op_row"])
        text = own.dtype == pl.Categorical
        pair = [s.cast(pl.String) if text else s for s in (own, at_op)]
        recorded.append(pair[0].zip_with(pair[0].is_not_null(), pair[1]).alias(name))
    return pl.DataFrame(recorded)


def _message(
    dims: str | None, types: str | None, concrete: str | None
) -> tuple[int | None, list[int] | None, list[int] | None]:
    """Bytes of what is sent, and rows to and from each rank of the group."""
    return _bytes(json_list(dims), json_list(types)), *_splits(json_list(concrete))


def _with_roots(table: pl.DataFrame, arguments: pl.Series) -> pl.DataFrame:
    """The root of broadcasts as their `peer`, from the arguments of their operators."""
    rows = table.select("kind", "group", "peer").iter_rows()
    peers = [
        _root(members(group), given) if kind == "broadcast" else peer
        for (kind, group, peer), given in zip(rows, arguments.cast(pl.String), strict=True)
    ]
    return table.with_columns(pl.Series("peer", peers, dtype=pl.Int64))


def _root(ranks: tuple[int, ...] | None, arguments: str | None) -> int | None:
    """torch counts the root inside the group."""
    given = json_list(arguments)
    text = given[_ROOT] if len(given) > _ROOT else None
    if ranks is None or not isinstance(text, str) or not re.fullmatch(r"\d{1,9}", text):
        return None
    return ranks[int(text)] if int(text) < len(ranks) else None


def _bytes(dims: list[Any], types: list[Any]) -> int | None:
    first = dims[0] if dims else None
    kind = types[0] if types and isinstance(types[0], str) else ""
    if not isinstance(first, list) or not first:
        return None
    shapes = first if isinstance(first[0], list) else [first]
    if not all(isinstance(shape, list) and all(map(_is_size, shape)) for shape in shapes):
        return None
    elements = sum(math.prod(shape) for shape in shapes)
    try:
        size = elements * Tensor((1,), full_type(kind)).bytes
    except (KeyError, ValueError, ArithmeticError, UnclearError):
        return None
    return size if size <= _MOST_BYTES else None


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _splits(concrete: list[Any]) -> tuple[list[int] | None, list[int] | None]:
    texts = [text for text in concrete[_SPLITS] if isinstance(text, str)]
    if len(texts) != 2:
        return None, None
    # Inputs come first: what is sent, then what is received.
    sent, received = ([int(n) for n in re.findall(r"\d{1,18}", text)] for text in texts)
    return sent or None, received or None


def _pending(events: pl.DataFrame, rows: pl.DataFrame) -> Intervals:
    """When work was launched that had not begun yet."""
    launch_rows = rows["launch_row"]
    launched = (
        events["start_ns"].gather(launch_rows) + events["dur_ns"].gather(launch_rows).fill_null(0)
    ).alias("at")
    table = pl.DataFrame([launched, rows["start_ns"]]).drop_nulls()
    table = table.filter(pl.col("at") < pl.col("start_ns"))
    return union(table["at"].to_numpy(), table["start_ns"].to_numpy())


def _before(table: pl.DataFrame, work: Intervals, pending: Intervals) -> list[pl.Series]:
    """Time from the end of the collective before to the start of each: busy, held and idle."""
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    reach = np.maximum.accumulate(end) if end.size else end
    since = np.concatenate((start[:1], reach[:-1]))
    since = np.minimum(since, start)
    busy = overlap(since, start, work)
    either = overlap(since, start, _joined(work, pending))
    return [
        pl.Series("busy_ns", busy),
        pl.Series("held_ns", either - busy),
        pl.Series("idle_ns", start - since - either),
    ]


def _joined(first: Intervals, other: Intervals) -> Intervals:
    return union(np.concatenate((first.start, other.start)), np.concatenate((first.end, other.end)))


def _steps(attributed: Attributed, rows: pl.DataFrame, is_call: pl.Series) -> pl.DataFrame:
    """Steps of these activities, with what the GPU did in each until the next began."""
    numbers = rows["step"].drop_nulls().unique()
    steps = attributed.steps.filter(pl.col("step").is_in(numbers.implode())).sort("start_ns")
    start = rows["start_ns"].to_numpy()
    end = (rows["start_ns"] + rows["dur_ns"].fill_null(0)).to_numpy()
    calls = is_call.to_numpy()
    comm, work = union(start[calls], end[calls]), union(start[~calls], end[~calls])
    both = union(start, end)
    either = _joined(both, _pending(attributed.profile.events, rows))
    first, last = step_bounds(steps)
    compute_ns, comm_ns = overlap(first, last, work), overlap(first, last, comm)
    busy = overlap(first, last, both)
    return steps.with_columns(
        pl.col("phase").cast(pl.String),
        pl.Series("compute_ns", compute_ns),
        pl.Series("comm_ns", comm_ns),
        pl.Series("overlap_ns", compute_ns + comm_ns - busy),
        pl.Series("held_ns", overlap(first, last, either) - busy),
        pl.Series("idle_ns", last - first - overlap(first, last, either)),
    ).select(STEP_SCHEMA.names())


def _layers(rows: pl.DataFrame) -> dict[str, int]:
    """Layers by kind."""
    inside = rows.filter((pl.col("place") == "layer") & pl.col("layer_kind").is_not_null())
    counts = inside.group_by(_ROLE[0]).agg(pl.col("layer").n_unique()).sort("layer_kind")
    return {kind: int(count) for kind, count in counts.iter_rows()}


_UNIT = ("step", "pass", "place", "layer")


def _positions(rows: pl.DataFrame, is_call: pl.Series, kinds: pl.Series) -> dict[RoleKey, float]:
    """How far into its layer each role begins, on average."""
    first, last = pl.col("start_ns").min().over(_UNIT), pl.col("start_ns").max().over(_UNIT)
    table = rows.select(
        *_ROLE,
        pl.col("category").cast(pl.String),
        ((pl.col("start_ns") - first) / (last - first + 1)).alias("far"),
    )
    work = table.filter(~is_call).with_columns(work_role(), communication=pl.lit(value=False))
    calls = table.filter(is_call).with_columns(kinds)
    calls = calls.with_columns(call_role(), communication=pl.lit(value=True))
    key = ("layer_kind", "part", "role", "communication")
    both = pl.concat([side.select(*key, "far") for side in (work, calls)])
    means = both.group_by(*key, maintain_order=True).agg(pl.col("far").mean())
    return {(kind, part, role, comm): far for kind, part, role, comm, far in means.iter_rows()}


def _work(events: pl.DataFrame, rest: pl.DataFrame) -> pl.DataFrame:
    """Time of kernels by step, name and the work that they were given."""
    dims = events["input_dims"].gather(rest["op_row"]).cast(pl.String)
    return (
        rest.with_columns(
            pl.concat_str(
                pl.col("grid").cast(pl.String).fill_null(""), pl.lit(" "), dims.fill_null("")
            ).alias("work")
        )
        .group_by(
            pl.col("step").cast(pl.Int32),
            pl.col("name").cast(pl.String),
            pl.col("category").cast(pl.String),
            *_ROLE,
            "work",
            maintain_order=True,
        )
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("dur_ns").fill_null(0).sum().alias("total_ns"),
        )
        .match_to_schema(WORK_SCHEMA)
    )
