"""Importance: what share of GPU time an operator, shape, category, role or kernel takes.

    importance(k) = sum over profiles p of  w(p) / sum(w) x time(p, k) / time(p)

With equal weights this is the share of profiles that contain k times its mean share in those. Every
nanosecond of a profile has exactly one key, those without one the key `(unmapped)`, so the
importances add up to 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.durations import quantiles
from solscope.corpus.queries.select import Selection, groups, select, weights
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError
from solscope.resample import mean_intervals, pools_of
from solscope.views.hotspots import TARGET_PCT

ImportanceBy = Literal["operator", "shape", "category", "role", "kernel"]
UNMAPPED = "(unmapped)"
NO_SHAPES = "(no shapes)"
MOST_INTERVALS = 1000
"""Rows, from the most important on, that get an interval."""
Floats = npt.NDArray[np.float64]


class ImportanceRow(msgspec.Struct, frozen=True):
    """One key."""

    key: str
    """`(unmapped)` for the time of which the key is not known."""
    importance_pct: float
    """Weighted mean over profiles of its share of GPU time; all rows add up to 100."""
    ci95_pct: tuple[float, float] | None
    """Interval over profiles; null for one profile, and after the first 1,000 rows."""
    profiles: int
    """Profiles that contain it."""
    frequency_pct: float
    """Weighted share of profiles that contain it."""
    share_pct: float
    """Weighted mean share of GPU time in the profiles that contain it."""
    time_ms: float
    """GPU time in all profiles together."""
    calls: int
    """Calls; kernels launched beside the longest one of a call are part of it."""
    mean_us: float | None
    """Mean time of a call; null without calls."""
    bound_mean_us: float | None
    """Mean bound of the calls that have one; with `mean_us` it gives S where all have one."""
    p50_us: float | None
    """Median time of a call, to 0.8 %; null if only summaries have it."""
    p90_us: float | None
    bound_p50_us: float | None
    """Median bound of the calls that have one."""
    s_pct: float | None
    """S: bound over time, of all calls with a bound together."""
    bound_cover_pct: float
    """Share of `time_ms` in calls with a bound."""
    recoverable_pct: float | None
    """Weighted mean share of GPU time that calls at 80 % of their bound, or of the time expected
    with uniform routing, would give back; null without bounds. More than the hotspots of the same
    profiles add up to: those see whole steps, and hold calls to HBM where the caches cannot keep
    what a step reads. A store has no bytes by kind to do so."""
    operator: str | None = None
    """By shape: the operator."""
    axes: dict[str, Any] | None = None
    """By shape: the axes."""


class ImportanceGroup(msgspec.Struct, frozen=True):
    """The rows of one group of profiles."""

    group: dict[str, str]
    profiles: int
    total_gpu_ms: float
    rows: list[ImportanceRow]


class Importance(msgspec.Struct, frozen=True):
    """What matters in a store."""

    definition: str
    by: ImportanceBy
    weight: str
    profiles: int
    """Profiles with GPU time; those without any are left out."""
    total_gpu_ms: float
    rows: list[ImportanceRow]
    """Most important first; `(unmapped)` last."""
    groups: list[ImportanceGroup]
    """The same for each group; empty unless grouped."""
    warnings: list[str]
    """What makes these numbers unsafe."""


def importance(
    corpus: Corpus,
    by: ImportanceBy = "operator",
    group_by: Sequence[str] = (),
    weight: str = "uniform",
    where: Mapping[str, str] | None = None,
) -> Importance:
    """Shares of GPU time over all profiles, or those that `where` chooses."""
    if by not in get_args(ImportanceBy):
        raise UsageError(f"importance is by {', '.join(get_args(ImportanceBy))}, not by {by!r}")
    selection = select(corpus, where)
    weight_of = weights(selection.profiles, weight)
    rows = _keyed(groups(selection, list(group_by)), by, list(group_by)).collect()
    whole = _table(rows, weight_of, by)
    if not whole.profiles:
        raise InputError(f"{corpus.url}: these profiles have no GPU time")
    return Importance(
        definition=definition(weight),
        by=by,
        weight=weight,
        profiles=whole.profiles,
        total_gpu_ms=whole.total_gpu_ms,
        rows=whole.rows,
        groups=_groups(rows, weight_of, by, list(group_by)) if group_by else [],
        warnings=[*_more_than_written(selection, rows), *_beyond_the_bound(whole.rows)],
    )


def _more_than_written(selection: Selection, rows: pl.DataFrame) -> list[str]:
    """A warning where profiles have more GPU time in `times` than was written for them."""
    stored = rows.group_by("at").agg(pl.col("time_ns").sum())
    more = selection.profiles.join(stored, on="at").filter(pl.col("time_ns") > pl.col("gpu_ns"))
    if more.is_empty():
        return []
    return [
        f"{more.height} of {selection.profiles.height} profiles have more GPU time than was "
        "written: rows are duplicated; run `solscope corpus verify`, then `corpus repair`"
    ]


def _beyond_the_bound(rows: Sequence[ImportanceRow]) -> list[str]:
    """A warning where calls took less time than anything could."""
    beyond = [(row.s_pct, row.key) for row in rows if row.s_pct is not None and row.s_pct > 100]
    if not beyond:
        return []
    most, key = max(beyond)
    return [
        f"S is above 100 % in {len(beyond)} of {len(rows)} rows ({key}: {most:.1f} %): their "
        "times, sizes or GPU are not what the profiles say, or the bound is wrong"
    ]


def definition(weight: str) -> str:
    """The definition in one sentence."""
    counted = {
        "uniform": "every profile counts the same",
        "gpu-time": "a profile counts by its GPU time",
    }.get(weight, f"a profile counts by its {weight}")
    return (
        "importance = weighted mean over profiles of the share of GPU time "
        f"(= frequency x mean share where it occurs); {counted}; rows add up to 100 %"
    )


def _keyed(rows: pl.LazyFrame, by: ImportanceBy, names: list[str]) -> pl.LazyFrame:
    """Rows of `times` with their key, as one or two columns, and what they add to it."""
    keys = key_columns(by)
    reference = pl.max_horizontal("bound_ns", "expected_ns")
    spared = pl.col("call_ns") - (reference * (100 / TARGET_PCT)).round().cast(pl.Int64)
    return rows.select(
        *("at", "time_ns", "calls", "call_ns", "bound_ns", "durations_ns", "durations_calls"),
        *(pl.col(name).alias(f"group:{name}") for name in names),
        *(pl.col(name).alias(f"key:{at}") for at, name in enumerate(keys)),
        pl.when(pl.col("bound_ns").is_not_null())
        .then(spared.clip(lower_bound=0))
        .alias("recoverable_ns"),
    )


def key_columns(by: ImportanceBy) -> list[str]:
    """Columns of `times` that make the key."""
    return ["operator", "axes"] if by == "shape" else [by]


@dataclass(frozen=True)
class _Table:
    profiles: int
    total_gpu_ms: float
    rows: list[ImportanceRow]


def _groups(
    rows: pl.DataFrame, weight_of: Floats, by: ImportanceBy, names: list[str]
) -> list[ImportanceGroup]:
    groups = []
    for values, part in rows.partition_by([f"group:{n}" for n in names], as_dict=True).items():
        table = _table(part, weight_of, by)
        if table.profiles:
            group = dict(zip(names, map(str, values), strict=True))
            groups.append(ImportanceGroup(group, table.profiles, table.total_gpu_ms, table.rows))
    return sorted(groups, key=lambda g: (-g.total_gpu_ms, list(g.group.values())))


def _table(rows: pl.DataFrame, weight_of: Floats, by: ImportanceBy) -> _Table:
    """All keys of some rows; profiles without GPU time in them do not count."""
    keys = [name for name in rows.columns if name.startswith("key:")]
    totals = rows.group_by("at").agg(pl.col("time_ns").sum()).filter(pl.col("time_ns") > 0)
    totals = totals.sort("at").with_row_index("profile")
    if totals.is_empty():
        return _Table(0, 0.0, [])
    # Keys are long texts: from here on each is a number.
    names = rows.select(keys).unique().sort(keys, nulls_last=True).with_row_index("code")
    coded = rows.join(names, on=keys, nulls_equal=True).drop(keys)
    facts = _facts(coded).join(names, on="code", maintain_order="left")
    cells = (
        coded.lazy()
        .group_by("at", "code")
        .agg(pl.col("time_ns").sum(), pl.col("recoverable_ns").sum())
        .join(totals.lazy().select("at", "profile", total="time_ns"), on="at")
        .join(facts.lazy().select("code", "number"), on="code")
        .sort("profile", "number")
        .collect()
    )
    means = _Means.of(cells, totals, weight_of, facts.height)
    table_rows = [
        _row(fact, means, keys, by) for fact in facts.sort("number").iter_rows(named=True)
    ]
    table_rows.sort(key=lambda row: (row.key == UNMAPPED, -row.importance_pct, row.key))
    return _Table(totals.height, int(totals["time_ns"].sum()) / 1e6, table_rows)


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    """Sums and quantiles of each key over all profiles, most time first."""
    bounded = pl.col("bound_ns").is_not_null()
    sums = (
        rows.lazy()
        .group_by("code")
        .agg(
            pl.col("at").filter(pl.col("time_ns") > 0).n_unique().alias("profiles"),
            pl.col("time_ns", "calls").sum(),
            pl.col("bound_ns").sum(),
            pl.col("call_ns").filter(bounded).sum().alias("bounded_ns"),
            pl.col("calls").filter(bounded).sum().alias("bounded_calls"),
            bounded.any().alias("bounded"),
        )
    )
    times = quantiles(rows.lazy(), ["code"], (0.5, 0.9))
    limits = (
        rows.lazy()
        .filter(bounded & (pl.col("calls") > 0))
        .select("code", "calls", (pl.col("bound_ns") / pl.col("calls")).alias("each"))
        .sort("each")
        .group_by("code")
        .agg(
            pl.col("each").filter(pl.col("calls").cum_sum() >= 0.5 * pl.col("calls").sum()).first()
        )
    )
    return (
        sums.join(times, on="code", how="left")
        .join(limits, on="code", how="left")
        .sort("time_ns", "code", descending=[True, False])
        .collect()
        .with_row_index("number")
    )


@dataclass(frozen=True)
class _Means:
    """Weighted means by number of the key."""

    importance: Floats
    recoverable: Floats
    frequency: Floats
    intervals: Floats | None

    @classmethod
    def of(cls, cells: pl.DataFrame, totals: pl.DataFrame, weight_of: Floats, keys: int) -> _Means:
        weight = weight_of[totals["at"].to_numpy()]
        if not weight.sum() > 0:
            weight = np.ones(weight.size)
        profile, number = cells["profile"].to_numpy(), cells["number"].to_numpy()
        scale = weight[profile] / cells["total"].to_numpy()

        def mean(values: Floats) -> Floats:
            sums: Floats = np.bincount(number, weights=values, minlength=keys) / weight.sum()
            return sums

        shares = scale * cells["time_ns"].to_numpy()
        block = pools_of(totals.height)
        first = min(keys, MOST_INTERVALS)
        parts = np.zeros((int(block.max()) + 1, first))
        shown = number < first
        np.add.at(parts, (block[profile[shown]], number[shown]), shares[shown])
        return cls(
            importance=mean(shares),
            recoverable=mean(scale * cells["recoverable_ns"].to_numpy()),
            frequency=mean(weight[profile] * (cells["time_ns"].to_numpy() > 0)),
            intervals=mean_intervals(parts, np.bincount(block, weights=weight).astype(np.float64)),
        )

    def interval(self, number: int) -> tuple[float, float] | None:
        if self.intervals is None or number >= self.intervals.shape[1]:
            return None
        low, high = (100 * float(bound) for bound in self.intervals[:, number])
        return low, high


def _row(fact: dict[str, Any], means: _Means, keys: list[str], by: ImportanceBy) -> ImportanceRow:
    number, time = fact["number"], fact["time_ns"]
    importance, frequency = float(means.importance[number]), float(means.frequency[number])
    name = [fact[key] for key in keys]
    return ImportanceRow(
        key=_key(name),
        importance_pct=100 * importance,
        ci95_pct=means.interval(number),
        profiles=fact["profiles"],
        frequency_pct=100 * frequency,
        share_pct=100 * importance / frequency if frequency else 0.0,
        time_ms=time / 1e6,
        calls=fact["calls"],
        mean_us=_micro(time / fact["calls"] if fact["calls"] else None),
        bound_mean_us=_micro(
            fact["bound_ns"] / fact["bounded_calls"] if fact["bounded_calls"] else None
        ),
        p50_us=_micro(fact["q50"]),
        p90_us=_micro(fact["q90"]),
        bound_p50_us=_micro(fact["each"]),
        s_pct=100 * fact["bound_ns"] / fact["bounded_ns"] if fact["bounded_ns"] else None,
        bound_cover_pct=min(100.0, 100 * fact["bounded_ns"] / time) if time else 0.0,
        recoverable_pct=100 * float(means.recoverable[number]) if fact["bounded"] else None,
        operator=name[0] if by == "shape" else None,
        axes=msgspec.json.decode(name[1]) if by == "shape" and name[1] else None,
    )


def _key(name: list[str | None]) -> str:
    if name[0] is None:
        return UNMAPPED
    return name[0] if len(name) == 1 else f"{name[0]} {name[1] or NO_SHAPES}"


def _micro(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e3
