"""Phases: what the name of a step, or the shapes of its attention, say about the work in it."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import polars as pl

from solscope.arrays import holds, take
from solscope.patterns import lazy_pattern

PHASES = ("prefill", "decode", "mixed", "draft", "verify")
"""Closed list. `mixed`: prefill and decode tokens in one step; draft and verify: speculation."""

PHASE_NAME = lazy_pattern(r"(?<![a-z])(prefill|extend|decode|draft|verify|mixed)", re.IGNORECASE)
_PHASE_OF_WORD = {"extend": "prefill"}
_VLLM = lazy_pattern(
    r"^execute_(?:(?P<total>\d{1,9})_)?context_(?P<c>\d{1,9})\((?P<cargs>[^)]*)\)"
    r"_generation_(?P<g>\d{1,9})\((?P<gargs>[^)]*)\)"
)
_SGLANG = lazy_pattern(
    r"^step\[(?P<mode>\w+)(?:[^\]]*?bs=(?P<bs>\d{1,9}))?(?:[^\]]*?toks=(?P<toks>\d{1,9}))?"
)
_SGLANG_MODES = {
    "verify": "verify",
    "draft": "draft",
    "mixed": "mixed",
    "extend": "prefill",
    "decode": "decode",
}
# Where the query length stands in the shapes of an attention operator's first input.
_QUERY_AXIS = {"aten::_flash_attention_forward": 1, "flash_attn::_flash_attn_forward": 1}


class NameFacts(NamedTuple):
    """What the name of a step states; null where it states nothing."""

    phase: str | None = None
    requests: int | None = None
    tokens: int | None = None


def facts_of(name: str) -> NameFacts:
    """Phase, requests and tokens that a step's name states."""
    if m := _VLLM.match(name):
        context, generation = int(m["c"]), int(m["g"])
        tokens = _leading(m["cargs"]) + _leading(m["gargs"])
        generates = "verify" if _verifies(generation, m["gargs"]) else "decode"
        both = "mixed" if context and generation else "prefill" if context else generates
        return NameFacts(both, context + generation, tokens or None)
    if m := _SGLANG.match(name):
        mode = m["mode"].lower()
        phase = next((p for w, p in _SGLANG_MODES.items() if w in mode), None)
        requests = int(m["bs"]) if m["bs"] else None
        stated = int(m["toks"]) if m["toks"] else requests if phase == "decode" else None
        return NameFacts(phase, requests, stated)
    words = {w.lower() for w in PHASE_NAME.findall(name)}
    phases = {_PHASE_OF_WORD.get(w, w) for w in words}
    if {"prefill", "decode"} <= phases:
        return NameFacts("mixed")
    return NameFacts(phases.pop() if len(phases) == 1 else None)


def _leading(text: str) -> int:
    """First number of vLLM's per-group figures: the sum of query tokens."""
    m = re.match(r"(?:sq)?(\d{1,12})", text)
    return int(m.group(1)) if m else 0


_SUMS = lazy_pattern(r"^sq(\d{1,12})sk\d{1,15}sqsq(\d{1,15})")
MOST_QUERIES = 64
"""Queries per request beyond which a pass reads a prompt, not drafts."""


def _verifies(requests: int, figures: str) -> bool:
    """True where each request that generates has the same few queries, and more than one.

    A request that was interrupted is read again with all its tokens; others have one beside it.
    """
    m = _SUMS.match(figures)
    if m is None:
        return False
    queries, squares = int(m.group(1)), int(m.group(2))
    alike = queries * queries == squares * requests
    return alike and requests < queries <= MOST_QUERIES * requests


class Query(NamedTuple):
    """Queries of an attention call."""

    requests: int | None
    """Null where requests and heads are one dimension."""
    length: int


def queries_of(events: pl.DataFrame, activities: pl.DataFrame) -> list[Query | None]:
    """Queries of attention calls whose operator tells their shape; None for everything else.

    Attention written out has a softmax over three or four dimensions; that of a router has two.
    """
    mixing = activities["category"].is_in(["attention", "softmax"])
    rows = activities["op_row"].set(~mixing, None)
    keys = pl.DataFrame(
        {
            "op": take(events["name"], rows).cast(pl.String),
            "dims": take(events["input_dims"], rows).cast(pl.String),
        }
    )
    queries: list[Query | None] = [None] * keys.height
    parsed: dict[tuple[str, str], Query | None] = {}
    # Few activities are attention: only those are looked at one by one.
    for row, op, dims in keys.with_row_index().drop_nulls().iter_rows():
        if (op, dims) not in parsed:
            parsed[op, dims] = _query(op, dims)
        queries[row] = parsed[op, dims]
    return queries


def _query(op: str, dims: str) -> Query | None:
    if not any(word in op for word in ("attention", "softmax")):
        return None
    query = first_shape(dims)
    if query is None:
        return None
    if len(query) == 4:
        return Query(query[0], query[_QUERY_AXIS.get(op, 2)])
    if len(query) != 3 or "softmax" not in op:
        return None
    # Requests and heads in one dimension: [.., queries, keys]; or heads and queries, which could be
    # any number of queries unless there are as many as keys.
    return Query(None, query[1]) if query[1] in (1, query[2]) else None


def first_shape(dims: str) -> list[int] | None:
    """The shape of an operator's first input."""
    try:
        shapes = msgspec.json.decode(dims, type=list[object])
    except (msgspec.DecodeError, RecursionError):
        return None
    first = shapes[0] if shapes else None
    if not isinstance(first, list) or not all(
        isinstance(size, int) and 0 <= size < 1 << 31 for size in first
    ):
        return None
    return first


def phase_by_shapes(queries: list[Query | None]) -> pl.Series:
    """Phase of attention calls: one query per request is decode."""
    phases = [None if q is None else "decode" if q.length == 1 else "prefill" for q in queries]
    return pl.Series("phase", phases, dtype=pl.Enum(PHASES))


_GRAPH_LAUNCH = "GraphLaunch"
MIN_REPLAYED = 32
"""Kernels of a pass that one graph launch must have made, to be a replay of it."""
_GENERATES = ("kv_cache", "sampling", "linear_attention")
"""Categories that only passes of a model that generates tokens have."""


def phase_of_replays(
    events: pl.DataFrame, activities: pl.DataFrame, pass_id: pl.Series
) -> pl.Series:
    """`decode` for activities of passes that are replays of a graph; null for all else.

    A graph that holds a whole pass has one shape, and is recorded for decode: prompts differ in
    length. It must write to a cache or sample; where the grid of attention is known, it must have
    no more than one block of queries per request and head.
    """
    names = take(events["name"], activities["launch_row"])
    replayed = holds(names, lambda texts: texts.str.contains(_GRAPH_LAUNCH))
    if (replayed.sum() or 0) < MIN_REPLAYED:
        return pl.Series([None], dtype=pl.Enum(PHASES)).new_from_index(0, activities.height)
    one_block = holds(activities["grid"], lambda texts: texts.str.starts_with("1,"))
    table = activities.select(
        pass_id.alias("pass"),
        replayed.fill_null(False).alias("replayed"),
        pl.col("category").is_in(_GENERATES).alias("generates"),
        ((pl.col("category") == "attention") & ~one_block.fill_null(True)).alias("long"),
    )
    whole = (
        table.group_by("pass")
        .agg(
            pl.len().alias("kernels"),
            pl.col("replayed").sum(),
            pl.col("generates").any(),
            pl.col("long").any(),
        )
        .filter(
            (pl.col("replayed") >= MIN_REPLAYED)
            & (pl.col("replayed") * 10 >= pl.col("kernels") * 9)
            & pl.col("generates")
            & ~pl.col("long")
        )["pass"]
        .drop_nulls()
    )
    decode = pl.lit("decode", pl.Enum(PHASES))
    return table.select(pl.when(pl.col("pass").is_in(whole.to_list())).then(decode)).to_series()
