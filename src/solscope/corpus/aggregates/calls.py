"""Call times of single profiles: what medians over some of the profiles of a store come from.

To read them from `times` means to decode the lists of all profiles. Here they are plain numbers,
profile after profile in the order of their ids, so that those of a few profiles, or of a sample,
which is drawn by id, are few slices of a file. Roles and kernels of single profiles come from here
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.part import CallCounts, Frames, KeyKind, key_columns, names_of

Ints = npt.NDArray[np.int64]
CALL_FRAMES = ("spans", "calls", "times")
ROW_GROUP = 1 << 16
"""Rows that a reader takes or skips as a whole; profiles that are closer are read together."""


def call_frames(rows: pl.LazyFrame, kinds: Mapping[KeyKind, Frames], order: pl.Series) -> Frames:
    """Call times of rows of `times`, whose keys have the numbers of the parts `kinds`.

    `calls` has one row per row of `times`, profile by profile; `order` is what they are sorted by,
    for each of the part's `entries`. `times` has the durations of one row after the other. `spans`
    says by `entry` where its rows of both begin, and how many they are.
    """
    (numbers, *_) = kinds.values()
    places = order.rank("ordinal").alias("place")
    texts = list(dict.fromkeys(column for kind in kinds for column in key_columns(kind)))
    has_times = pl.col("durations_ns").list.len() > 0
    numbers_of_calls = ("calls", "time_ns", "bound_ns", "durations_ns", "durations_calls")
    numbered = rows.select("entry", "phase", *texts, *numbers_of_calls)
    for kind, frames in kinds.items():
        names = frames["names"].rename(dict(zip(names_of(kind), key_columns(kind), strict=True)))
        numbered = _numbered(numbered, names, kind)
    entries = numbers["entries"].select("entry", places)
    coded = (
        _numbered(_numbered(numbered, numbers["phases"], "phase"), entries, "entry")
        .select(
            *("place", *numbers_of_calls),
            pl.col("number:entry").alias("entry"),
            pl.col("number:phase").cast(pl.UInt8).alias("phase"),
            *(pl.col(f"number:{kind}").alias(kind) for kind in kinds),
        )
        .sort("place", maintain_order=True)
        .collect()
    )
    size = pl.col("durations_ns").list.len().fill_null(0).alias("times")
    calls = coded.select("entry", "phase", *kinds, "calls", "time_ns", "bound_ns", size)
    pairs = coded.filter(has_times).select(value="durations_ns", calls="durations_calls")
    return {"spans": _spans(calls), "calls": calls, "times": pairs.explode("value", "calls")}


def _numbered(rows: pl.LazyFrame, names: pl.DataFrame, what: str) -> pl.LazyFrame:
    """Rows with the number of a name as `number:...`."""
    on = [column for column in names.columns if column != "place"]
    return rows.join(names.with_row_index(f"number:{what}").lazy(), on=on, nulls_equal=True)


def _spans(calls: pl.DataFrame) -> pl.DataFrame:
    sizes = calls.group_by("entry", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("calls"), pl.col("times").cast(pl.Int64).sum()
    )
    return sizes.with_columns(
        (pl.col(name).cum_sum() - pl.col(name)).alias(f"first:{name}")
        for name in ("calls", "times")
    )


def stored_counts(place: Callable[[str], str], kind: KeyKind, entries: Ints) -> CallCounts:
    """Calls of some profiles, by number, from files; `place` says where a frame lies."""
    spans = _spans_of(place, entries)
    needed = ("entry", "phase", kind, "calls", "bound_ns", "times")
    calls = _read_spans(place("calls"), spans, "calls", needed)
    times = _read_spans(place("times"), spans, "times", ("value", "calls"))
    return counts_of(calls, times, kind)


def stored_kernels(place: Callable[[str], str], entries: Ints) -> pl.DataFrame:
    """Rows of some profiles as in `Part.kernel_rows`, from files."""
    needed = ("phase", "shape", "role", "kernel", "calls", "time_ns")
    rows = _read_spans(place("calls"), _spans_of(place, entries), "calls", needed)
    texts = {kind: pl.read_parquet(place(f"{kind}-names"))["name:0"] for kind in ("role", "kernel")}
    return rows.select(
        pl.col("shape").alias("name"),
        "phase",
        *(pl.lit(names).gather(pl.col(kind)).alias(kind) for kind, names in texts.items()),
        *("calls", "time_ns"),
    )


def _spans_of(place: Callable[[str], str], entries: Ints) -> pl.DataFrame:
    spans = pl.read_parquet(place("spans"))
    return spans.filter(pl.Series(np.isin(spans["entry"].to_numpy(), entries)))


def _read_spans(
    file: str, spans: pl.DataFrame, name: str, columns: tuple[str, ...]
) -> pl.DataFrame:
    """The rows of some profiles; those between two that are close together are read and dropped."""
    first, size = (spans[column].to_numpy() for column in (f"first:{name}", name))
    breaks = np.flatnonzero(first[1:] - (first + size)[:-1] > ROW_GROUP) + 1
    source = pl.scan_parquet(file).select(columns)
    parts = [source.head(0).collect()]
    for some in np.split(np.arange(first.size), breaks) if first.size else ():
        begin, end = int(first[some[0]]), int(first[some[-1]] + size[some[-1]])
        wanted = np.zeros(end - begin + 1, np.int64)
        np.add.at(wanted, first[some] - begin, 1)
        np.add.at(wanted, first[some] + size[some] - begin, -1)
        rows = source.slice(begin, end - begin).collect()
        parts.append(rows.filter(pl.Series(np.cumsum(wanted)[:-1] > 0)))
    return pl.concat(parts)


def counts_of(calls: pl.DataFrame, times: pl.DataFrame, kind: KeyKind) -> CallCounts:
    """Counts by the names of one kind; `times` has the durations of all of `calls`."""
    keys = calls.select("entry", pl.col(kind).alias("name"), "phase")
    has_bound = calls["bound_ns"].is_not_null() & (calls["calls"] > 0)
    bound = (calls["bound_ns"] / calls["calls"]).alias("value")
    return CallCounts(
        keys[np.repeat(np.arange(calls.height), calls["times"].to_numpy())].with_columns(
            times["value"], times["calls"]
        ),
        keys.with_columns(bound, calls["calls"]).filter(has_bound),
    )
