"""Operators and inputs for kernels that have none, from where the same kernel has them.

Kernels that a graph replays, or whose launch the profile does not show, have no operator. The same
kernel often ran elsewhere with one:

* `sequence`: for a lost kernel, the same kernel between the same neighbors (`twins.py`);
* `companion`: the counterpart in a companion profile of the same program: the launch call that put
  the kernel into its graph (`capture_matching.py`), else the same position of the same sequence of
  kernels (`replays.py`), else the same place in the model (layer, role, name and order within it);
* `same_kernel`: the same name and grid in an eager part of the same profile. That names the
  operator, but one grid can serve several shapes, so nothing is computed from these inputs.

What was borrowed is kept in columns of its own, with how it was found; it never overwrites what was
recorded. `borrowed_call` holds together the kernels of a call that is there as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from solscope.arrays import take
from solscope.attribution.columns import BORROWED, INPUTS, LENT
from solscope.attribution.graphs import replayed
from solscope.attribution.inner_inputs import inputs_of
from solscope.attribution.twins import by_stream, find_twins

if TYPE_CHECKING:
    from solscope.attribution.replays import Counterparts

HOW = pl.Enum(["sequence", "companion", "same_kernel"])
"""How an operator was borrowed."""
_CALL = ("signature", "call_turn", "call_kernels")
"""Number of the operator and its inputs; which kernel of its call; how many kernels that has."""
_OFFER = (*LENT, *_CALL)
_PLACE = ["phase", "place", "layer", "role", "name", "turn"]


class Companion(NamedTuple):
    """A profile of the same program that lends operators and inputs."""

    events: pl.DataFrame
    activities: pl.DataFrame
    nodes: pl.DataFrame
    """Launches that became nodes of graphs while it was recorded (`captures.captured`)."""


def borrow(
    events: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
    companions: Sequence[Companion] = (),
) -> pl.DataFrame:
    """Add `BORROWED`, `borrowed_by` and `borrowed_call`."""
    placed = with_replays(events, activities, steps)
    # An operator around the launch of a graph is not that of the kernels in it.
    lacking = placed["op_row"].is_null() | placed["replayed"]
    if not lacking.any() or (lacking.all() and not companions):
        return _nothing_borrowed(activities)
    own = _lendable(events, placed)
    offers = {"sequence": _of_twins(own), "same_kernel": _of_kernels(own)}
    if companions:
        lent = _of_companions(own, companions)
        offers = {"sequence": offers["sequence"], "companion": lent} | offers
    taken = _first_offer(offers, lacking)
    return activities.with_columns(
        *(taken[name].alias(f"{name}_borrowed") for name in LENT),
        taken["borrowed_by"],
        _whole_calls(activities, taken),
    )


def with_replays(
    events: pl.DataFrame, activities: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Activities with `replayed` (`graphs.replayed`), and `tokens` of their step."""
    sizes = steps.select("step", tokens=pl.coalesce("tokens", "requests")).unique("step")
    return activities.with_columns(replayed(events, activities)).join(
        sizes, on="step", how="left", maintain_order="left"
    )


def all_nodes(companions: Sequence[Companion]) -> pl.DataFrame:
    """Captured launches of all companions with what they lend; `source` counts the companions."""
    tables = [
        _lendable(each.events, each.nodes).with_columns(source=pl.lit(number))
        for number, each in enumerate(companions)
    ]
    return pl.concat(tables, how="vertical_relaxed")


def _nothing_borrowed(activities: pl.DataFrame) -> pl.DataFrame:
    """What is added where every activity has an operator of its own, or none has one: nulls."""
    types: dict[str, pl.DataType] = {name: pl.Categorical() for name in BORROWED}
    types |= {"borrowed_by": HOW, "borrowed_call": activities.schema["row"]}
    return activities.with_columns(pl.lit(None, kind).alias(name) for name, kind in types.items())


def _lendable(events: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Activities with what their operator was called with, and their place in its call."""
    if "replayed" in activities.columns:  # an operator around a graph launch is not theirs
        own = pl.when(~pl.col("replayed"))
        activities = activities.with_columns(own.then(pl.col("op_row", "op")))
    rows = activities["op_row"]
    recorded = inputs_of(events, rows)
    inputs = [recorded[column].alias(name) for name, column in INPUTS.items()]
    has_operator = pl.col("op_row").is_not_null()
    number = (pl.struct(pl.col(*LENT).to_physical()).hash() // 2).cast(pl.Int64)
    turn = pl.col("start_ns").rank("ordinal").over("op_row").cast(pl.Int64) - 1
    return activities.with_columns(inputs).with_columns(
        pl.when(has_operator).then(number).alias("signature"),
        pl.when(has_operator).then(turn).alias("call_turn"),
        pl.when(has_operator).then(pl.len().over("op_row").cast(pl.Int64)).alias("call_kernels"),
    )


def _of_twins(own: pl.DataFrame) -> pl.DataFrame:
    twins = find_twins(own)
    twin_rows = pl.Series([None], dtype=pl.UInt32).new_from_index(0, own.height)
    if twins:
        twin_rows = pl.Series(list(map(twins.get, range(own.height))), dtype=pl.UInt32)
    return own.select(take(own[name], twin_rows) for name in _OFFER)


def _agreed(names: tuple[str, ...]) -> list[pl.Expr]:
    """Each of these columns, where all rows of the group are the same in all of them."""
    same = pl.struct(names).n_unique() == 1
    return [pl.when(same).then(pl.col(name).first()).alias(name) for name in names]


def _of_kernels(own: pl.DataFrame) -> pl.DataFrame:
    """The one operator that launches a kernel with a grid; its inputs where all calls agree."""
    lent = (
        own.filter(pl.col("op").is_not_null())
        .group_by("name", "grid")
        .agg(pl.col("op").first(), pl.col("op").n_unique().alias("ops"), *_agreed(tuple(INPUTS)))
        .filter(pl.col("ops") == 1)
        .drop("ops")
    )
    joined = own.select("name", "grid").join(
        lent, on=["name", "grid"], how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(*LENT, *(pl.lit(None, own.schema[name]).alias(name) for name in _CALL))


def _by_place(there: pl.DataFrame) -> pl.DataFrame:
    """Operator and inputs at each place of the model, where all passes agree."""
    return (
        there.with_columns(_turn())
        .filter(pl.col("op").is_not_null() & pl.col("place").is_not_null())
        .group_by(_PLACE)
        .agg(
            pl.col("op").first(),
            pl.col("op").n_unique().alias("ops"),
            *_agreed((*INPUTS, *_CALL)),
        )
        .filter(pl.col("ops") == 1)
        .drop("ops")
    )


def _of_companions(own: pl.DataFrame, companions: Sequence[Companion]) -> pl.DataFrame:
    """What the counterpart of each kernel has: captured, by order, else by place in the model."""
    from solscope.attribution.capture_matching import match_captures
    from solscope.attribution.replays import counterparts

    nodes = all_nodes(companions)
    there = pl.concat(
        [_lendable(each.events, each.activities) for each in companions], how="vertical_relaxed"
    )
    offers = _of_places(own, _by_place(there))
    for better in (
        _of_order(own, there, counterparts(own, there)),
        _of_order(own, nodes, match_captures(own, nodes).counterparts),
    ):
        named = better["op"].is_not_null()
        offers = better.select(
            better[name].zip_with(named, offers[name].cast(better.schema[name])) for name in _OFFER
        )
    return offers


def _of_order(own: pl.DataFrame, there: pl.DataFrame, matched: Counterparts) -> pl.DataFrame:
    """Operator and inputs at the same position of the same sequence, where all places agree."""
    members, places = matched
    lent = (
        places.with_columns(take(there[name], places["other"]).alias(name) for name in _OFFER)
        .group_by("sequence", "turn")
        .agg(
            pl.col("op").first(),
            pl.col("op").n_unique().alias("ops"),
            *_agreed((*INPUTS, *_CALL)),
        )
        .filter(pl.col("ops") == 1)
        .drop("ops")
    )
    lent = members.join(lent, on=["sequence", "turn"])
    every = pl.DataFrame({"at": pl.int_range(own.height, eager=True)})
    return every.join(lent, on="at", how="left", maintain_order="left").select(_OFFER)


def _of_places(own: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    places = own.with_columns(_turn()).select(_PLACE)
    joined = places.join(there, on=_PLACE, how="left", nulls_equal=True, maintain_order="left")
    return joined.select(_OFFER)


def _turn() -> pl.Expr:
    """Which of the equal kernels of its role, layer and pass an activity is, by start."""
    same = ["rank", "device", "pass", "place", "layer", "role", "name"]
    return pl.col("start_ns").rank("ordinal").over(same).alias("turn")


def _first_offer(offers: dict[str, pl.DataFrame], lacking: pl.Series) -> pl.DataFrame:
    """For each activity that lacks an operator, all of the first offer that has one."""
    tables = [table.rename({n: f"{how} {n}" for n in _OFFER}) for how, table in offers.items()]
    has = [pl.when(pl.col(f"{how} op").is_not_null()).then(pl.lit(how, HOW)) for how in offers]
    wide = pl.concat([*tables, lacking.alias("lacking").to_frame()], how="horizontal").with_columns(
        pl.when("lacking").then(pl.coalesce(has)).alias("borrowed_by")
    )
    return wide.select(
        "borrowed_by",
        *(
            pl.coalesce(
                pl.when(pl.col("borrowed_by") == how).then(pl.col(f"{how} {name}"))
                for how in offers
            ).alias(name)
            for name in _OFFER
        ),
    )


def _whole_calls(activities: pl.DataFrame, taken: pl.DataFrame) -> pl.Series:
    """The row of the first kernel of its call, for kernels of calls that are there as a whole."""
    calls: list[int | None] = [None] * activities.height
    if taken["call_turn"].null_count() < taken.height:
        rows = activities["row"].to_list()
        facts = list(taken.select(_CALL).iter_rows())
        for stream_rows in by_stream(activities):
            run: list[int] = []
            for position in stream_rows.tolist():
                signature, turn, kernels = facts[position]
                if turn is None or turn != len(run) or (run and facts[run[0]][0] != signature):
                    run = []
                if turn is None or turn != len(run):
                    continue
                run.append(position)
                if len(run) == kernels:
                    for member in run:
                        calls[member] = rows[run[0]]
                    run = []
    return pl.Series("borrowed_call", calls, dtype=activities.schema["row"])
