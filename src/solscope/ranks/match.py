"""Which calls of different ranks are the same collective.

Ranks agree on the order of the collectives of a group, but not on where a recording begins and
ends, and a rank may have a call more or less. What identifies a call is its sequence number where
one is recorded. Where none is, it is its end: no rank can leave a collective before all have
entered it, so the ends lie together on a clock that all share. The clocks of two ranks differ by
an offset that is not known, and it is found first: of all differences between ends of calls of the
same kind and size, the true offset is the one that most pairs agree on. Calls whose nearest
neighbors on that clock are each other are the same; between two such pairs, calls of equal kind and
size are paired by their order.

What no other rank has, or what is ambiguous, stays unmatched and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from solscope.ranks.align import align, align_peers
from solscope.ranks.kinds import EVEN, POINT_TO_POINT, SYNCHRONIZING
from solscope.ranks.offsets import Calls, Floats, Ints
from solscope.run import CALL_SCHEMA, Rank, Run

SPLIT = 0.5
"""Calls whose ends are closer than this share of the usual distance may be one collective."""
PEERS = "peers "
"""What the group of a send and its receive begins with."""
_FACTS = ("kind", "group", "step", "layer")


@dataclass(frozen=True)
class Matched:
    """The collectives of a run: one row per collective, one column per rank."""

    ranks: tuple[int, ...]
    table: pl.DataFrame
    """`kind`, `group`, `bytes`, `step`, `layer`, `by`: what all ranks agree on; `by` is how it was
    matched: `sequence`, `end` or `order`."""
    index: Ints
    """Row of the collective in each rank's table of calls; -1 where the rank has none."""
    unmatched: dict[int, int]
    """Calls of each rank that no other rank has."""
    unrelated: tuple[int, ...]
    """Ranks whose collectives end together with those of no other rank."""


def match(run: Run) -> Matched:
    """Match the collectives of all ranks, group by group."""
    tables = [_keyed(rank) for rank in run.ranks]
    names = {key for table in tables for key in table["key"].unique().to_list()}
    codes = {name: code for code, name in enumerate(sorted(names))}
    tables = [
        table.with_columns(pl.col("key").replace_strict(codes, return_dtype=pl.Int64))
        for table in tables
    ]
    zero = min((int(t["end_ns"].to_numpy().min()) for t in tables if t.height), default=0)
    groups = sorted({name for table in tables for name in table["in"].unique().to_list()})
    parts, how, related = [], [], set()
    for group in groups:
        members = {
            rank_index: calls
            for rank_index, table in enumerate(tables)
            if (calls := _calls_of(table, group, zero)).row.size
        }
        index, by, pairs = _match_group(members, len(tables), group.startswith(PEERS))
        parts.append(index)
        how += by
        related |= pairs
    index = np.concatenate(parts) if parts else np.full((0, len(tables)), -1, np.int64)
    whole = (index >= 0).sum(1) > 1
    how = [by for by, keep in zip(how, whole, strict=True) if keep]
    index = index[whole]
    order = np.argsort(_first_start(run.ranks, index), kind="stable")
    index = index[order]
    table = _describe(run.ranks, index, [how[call] for call in order])
    numbers = tuple(rank.rank for rank in run.ranks)
    unmatched = {
        rank.rank: rank.calls.height - int((index[:, rank_index] >= 0).sum())
        for rank_index, rank in enumerate(run.ranks)
    }
    alone = tuple(
        rank.rank
        for rank_index, rank in enumerate(run.ranks)
        if rank_index not in related and rank.calls.height
    )
    return Matched(numbers, table, index, unmatched, alone)


def _keyed(rank: Rank) -> pl.DataFrame:
    """Calls with the group that they are matched in (`in`) and what must be equal (`key`)."""
    even = pl.col("kind").is_in(list(EVEN))
    low = pl.min_horizontal(pl.col("peer"), pl.lit(rank.rank))
    high = pl.max_horizontal(pl.col("peer"), pl.lit(rank.rank))
    peers = pl.concat_str(pl.lit(PEERS), low, pl.lit(","), high)
    alone = pl.col("kind").is_in(list(POINT_TO_POINT)) & pl.col("peer").is_not_null()
    # A send and its receive are the two sides of one transfer, and have a direction.
    sender = pl.when(pl.col("kind") == "send").then(pl.lit(rank.rank)).otherwise("peer")
    key = pl.concat_str(
        pl.when(alone).then(pl.concat_str(pl.lit("from "), sender)).otherwise("kind"),
        pl.lit(" "),
        pl.when(even).then(pl.col("bytes").cast(pl.String)).otherwise(pl.lit("")).fill_null(""),
    )
    return rank.calls.with_row_index("row").with_columns(
        pl.when(alone).then(peers).otherwise(pl.col("group").fill_null("")).alias("in"),
        key.alias("key"),
    )


def _calls_of(table: pl.DataFrame, group: str, zero: int) -> Calls:
    calls = table.filter(pl.col("in") == group).sort("end_ns", maintain_order=True)
    # Differences of Unix times in ns need more digits than a float has.
    starts, ends = (calls[name].to_numpy() - zero for name in ("start_ns", "end_ns"))
    return Calls(
        calls["row"].cast(pl.Int64).to_numpy(),
        calls["key"].to_numpy(),
        starts.astype(np.float64),
        ends.astype(np.float64),
        calls["sequence"].fill_null(-1).to_numpy(),
    )


def _match_group(
    members: dict[int, Calls], width: int, peers: bool
) -> tuple[Ints, list[str], set[int]]:
    """Rows of one group's collectives by rank, how each was matched, and which ranks were."""
    if not members:
        return np.full((0, width), -1, np.int64), [], set()
    reference = max(members, key=lambda rank_index: (members[rank_index].row.size, -rank_index))
    base = members[reference]
    index = np.full((base.row.size, width), -1, np.int64)
    index[:, reference] = base.row
    how = np.full(base.row.size, "order", dtype=object)
    related: set[int] = set()
    for rank_index, calls in members.items():
        if rank_index == reference:
            continue
        mine, theirs, by = align_peers(base, calls) if peers else align(base, calls)
        index[mine, rank_index] = calls.row[theirs]
        if mine.size:
            related |= {reference, rank_index}
        how[mine] = np.where(how[mine] == "order", by, how[mine])
    _join_split(index, base, reference)
    return index, list(how), related


def _join_split(index: Ints, base: Calls, reference: int) -> None:
    """Give neighbors that share one collective to the one that more ranks, or all, agree on.

    With a call too many on the reference, some ranks may find the one and some the other. Calls are
    such neighbors when they end close together and no rank has both.
    """
    gaps = np.diff(base.end)
    if not gaps.size:
        return
    usual = float(np.median(gaps))
    for gap in np.flatnonzero((gaps < SPLIT * usual) & (base.key[1:] == base.key[:-1])):
        pair = index[gap : gap + 2] >= 0
        pair[:, reference] = False
        if not pair.any(1).all() or pair.all(0).any():
            continue
        to = gap if pair[0].sum() >= pair[1].sum() else gap + 1
        other = 2 * gap + 1 - to
        index[to] = np.where(pair[other - gap], index[other], index[to])
        index[other] = np.where(pair[other - gap], -1, index[other])


def _first_start(ranks: tuple[Rank, ...], index: Ints) -> Floats:
    """When each collective began on the first rank that has it."""
    first = np.full(index.shape[0], np.inf)
    for rank_index, rank in enumerate(ranks):
        has_call = index[:, rank_index] >= 0
        if has_call.any():
            start = rank.calls["start_ns"].to_numpy()[index[has_call, rank_index]]
            first[has_call] = np.where(np.isinf(first[has_call]), start, first[has_call])
    return first


def step_shifts(ranks: tuple[Rank, ...], index: Ints) -> list[int]:
    """What to add to each rank's step numbers to get those of the rank with most collectives."""
    if not ranks:
        return []
    main = int(np.argmax((index >= 0).sum(0)))
    shifts = []
    for rank_index, rank in enumerate(ranks):
        both = (index[:, rank_index] >= 0) & (index[:, main] >= 0)
        mine = ranks[main].calls["step"].gather(index[both, main])
        theirs = rank.calls["step"].gather(index[both, rank_index])
        apart = (mine - theirs).drop_nulls()
        shifts.append(0 if apart.is_empty() else int(apart.mode().min()))  # type: ignore[arg-type]
    return shifts


def _describe(ranks: tuple[Rank, ...], index: Ints, how: list[str]) -> pl.DataFrame:
    """What a collective is; bytes are the mean of all ranks.

    Steps are numbered as by the rank with most collectives: others may have begun later.
    """
    count = index.shape[0]
    total, sizes_given = np.zeros(count), np.zeros(count)
    order = sorted(range(len(ranks)), key=lambda rank_index: int((index[:, rank_index] >= 0).sum()))
    shifts = step_shifts(ranks, index)
    facts = pl.DataFrame(schema={name: CALL_SCHEMA[name] for name in _FACTS}).clear(count)
    for rank_index in order:
        has_call = index[:, rank_index] >= 0
        rows = ranks[rank_index].calls.with_columns(pl.col("step") + shifts[rank_index])
        if not has_call.any():
            continue  # Polars takes no list of rows that are all null.
        mine = rows[pl.Series(index[:, rank_index]).set(pl.Series(~has_call), None)]
        here = pl.Series(has_call)
        facts = pl.DataFrame([mine[name].zip_with(here, facts[name]) for name in _FACTS])
        size = mine["bytes"].cast(pl.Float64).to_numpy()
        sized = has_call & ~np.isnan(size)
        total[sized] += size[sized]
        sizes_given[sized] += 1
    sizes = [int(t / k) if k else None for t, k in zip(total, sizes_given, strict=True)]
    kinds = ["send_receive" if kind in POINT_TO_POINT else kind for kind in facts["kind"]]
    return pl.DataFrame(
        {
            "kind": pl.Series(kinds, dtype=pl.String),
            "group": facts["group"],
            "bytes": pl.Series(sizes, dtype=pl.Int64),
            "step": facts["step"],
            "layer": facts["layer"],
            "by": pl.Series(how, dtype=pl.String),
            "synchronizing": pl.Series([k in SYNCHRONIZING for k in kinds], dtype=pl.Boolean),
        }
    )
