"""Importance: what share of GPU time an operator, shape, category, role or kernel takes.

    importance(k) = sum over profiles p of  w(p) / sum(w) x time(p, k) / time(p)

With equal weights this is the share of profiles that contain k times its mean share in those. Every
nanosecond of a profile has exactly one key, those without one the key `(unmapped)`, so the
importances add up to 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import polars as pl

from solscope.corpus.queries.call_times import call_times
from solscope.corpus.queries.overall_sums import OverallSums
from solscope.corpus.queries.select import UNIFORM, Selection, select, weights
from solscope.corpus.queries.selected_parts import SelectedParts, selected_parts
from solscope.corpus.queries.share_means import (
    MOST_INTERVALS,
    Floats,
    Ints,
    Means,
    group_means,
)
from solscope.corpus.queries.shares import read_cells
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError

ImportanceBy = Literal["operator", "shape", "category", "role", "kernel"]
UNMAPPED = "(unmapped)"
NO_SHAPES = "(no shapes)"


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
    weight: str = UNIFORM,
    where: Mapping[str, str] | None = None,
) -> Importance:
    """Shares of GPU time over all profiles, or those that `where` chooses."""
    if by not in get_args(ImportanceBy):
        raise UsageError(f"importance is by {', '.join(get_args(ImportanceBy))}, not by {by!r}")
    selection = select(corpus, where)
    parts = selected_parts(selection, by)
    return importance_of(selection, parts, by, group_by, weight)


def importance_of(
    selection: Selection,
    parts: SelectedParts,
    by: ImportanceBy,
    group_by: Sequence[str] = (),
    weight: str = UNIFORM,
    most_intervals: int = MOST_INTERVALS,
) -> Importance:
    """The same for profiles that were selected already."""
    weight_of = weights(selection, weight)
    profiles = _Weighted(weight_of, weight == UNIFORM, most_intervals)
    whole = _tables(selection, parts, profiles, by, [])
    if not whole.tables:
        raise InputError(_without_time(selection))
    (table,) = whole.tables
    grouped = _tables(selection, parts, profiles, by, list(group_by)) if group_by else None
    groups = grouped.tables if grouped else []
    return Importance(
        definition=definition(weight),
        by=by,
        weight=weight,
        profiles=table.profiles,
        total_gpu_ms=table.total_gpu_ms,
        rows=table.rows,
        groups=sorted(groups, key=lambda g: (-g.total_gpu_ms, list(g.group.values()))),
        warnings=[
            *_other_than_written(selection, whole.totals),
            *_beyond_the_bound(table.rows),
            *_sampled(whole.sampled, selection.profiles.height),
            *_sampled(grouped.sampled if grouped else 0, selection.profiles.height, " of groups"),
        ],
    )


def _without_time(selection: Selection) -> str:
    if selection.phase is None and selection.profiles["gpu_ns"].sum():
        lost = "the table times has no row of these profiles"
        return f"{selection.corpus.url}: {lost}; `solscope corpus verify` lists the damage"
    return f"{selection.corpus.url}: these profiles have no GPU time"


def _other_than_written(selection: Selection, totals: Ints) -> list[str]:
    """A warning where profiles have other GPU time in `times` than was written for them."""
    written = selection.profiles["gpu_ns"].to_numpy()
    more, less = int((totals > written).sum()), int((totals < written).sum())
    if selection.phase is not None:
        less = 0
    if not more and not less:
        return []
    which, why = ("more", "duplicated") if more else ("less", "missing")
    return [
        f"{more or less} of {selection.profiles.height} profiles have {which} GPU time than was "
        f"written: rows are {why}; run `solscope corpus verify`, then `corpus repair`"
    ]


def _sampled(sampled: int, profiles: int, which: str = "") -> list[str]:
    if not sampled:
        return []
    return [
        f"medians and 90 % quantiles{which} are of {sampled:,} of {profiles:,} profiles, chosen at "
        "random"
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
        "uniform": "every profile counts the same, the ranks of a run together as one",
        "gpu-time": "a profile counts by its GPU time",
    }.get(weight, f"a profile counts by its {weight}")
    return (
        "importance = weighted mean over profiles of the share of GPU time "
        f"(= frequency x mean share where it occurs); {counted}; rows add up to 100 %"
    )


class _Tables(NamedTuple):
    tables: list[ImportanceGroup]
    totals: Ints
    """GPU time of each unit (`shares`)."""
    sampled: int
    """Profiles that quantiles are of, when not of all."""


class _Weighted(NamedTuple):
    weight_of: Floats
    uniform: bool
    most_intervals: int


def _tables(
    selection: Selection,
    parts: SelectedParts,
    weighted: _Weighted,
    by: ImportanceBy,
    group_by: list[str],
) -> _Tables:
    """One table per group; profiles without GPU time in it do not count."""
    overall = None
    if weighted.uniform and not group_by:
        overall = OverallSums(with_pools=weighted.most_intervals > 0)
    cells = read_cells(selection, by, group_by, parts, overall)
    times = call_times(cells)
    totals = cells.totals
    names = cells.names.rows()
    keys = pl.lit(pl.Series([_key(name) for name in names], dtype=pl.String))
    facts = (
        cells.sums.join(times.quantiles, on=["group", "code"], how="left")
        .with_columns(keys.gather(pl.col("code")).alias("name"))
        .sort("group", "time_ns", "name", descending=[False, True, False])
    )
    tables = []
    for number, texts in enumerate(cells.groups):
        inside = (cells.group_of == number) & (totals > 0)
        if not inside.any():
            continue
        own = facts.filter(pl.col("group") == number)
        ranked = own["code"].to_numpy()[: weighted.most_intervals]
        most = 1.0 if weighted.uniform else None  # As in stored sums.
        means = group_means(cells, number, weighted.weight_of, ranked, most)
        rows = [_row(fact, means, names, by) for fact in own.iter_rows(named=True)]
        rows.sort(key=lambda row: (row.key == UNMAPPED, -row.importance_pct, row.key))
        tables.append(
            ImportanceGroup(
                group=dict(zip(group_by, texts, strict=True)),
                profiles=int(inside.sum()),
                total_gpu_ms=int(totals[inside].sum()) / 1e6,
                rows=rows,
            )
        )
    return _Tables(tables, totals, times.sampled)


def _row(
    fact: dict[str, Any], means: Means, names: Sequence[tuple[str | None, ...]], by: ImportanceBy
) -> ImportanceRow:
    code, time = fact["code"], fact["time_ns"]
    importance, frequency = float(means.importance[code]), float(means.frequency[code])
    name = names[code]
    interval = means.intervals.get(code)
    return ImportanceRow(
        key=fact["name"],
        importance_pct=100 * importance,
        ci95_pct=None if interval is None else (100 * interval[0], 100 * interval[1]),
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
        bound_p50_us=_micro(fact["limit"]),
        s_pct=100 * fact["bound_ns"] / fact["bounded_ns"] if fact["bounded_ns"] else None,
        bound_cover_pct=min(100.0, 100 * fact["bounded_ns"] / time) if time else 0.0,
        recoverable_pct=100 * float(means.recoverable[code]) if fact["bounded"] else None,
        operator=name[0] if by == "shape" else None,
        axes=msgspec.json.decode(name[1]) if by == "shape" and name[1] else None,
    )


def _key(name: tuple[str | None, ...]) -> str:
    if name[0] is None:
        return UNMAPPED
    return name[0] if len(name) == 1 else f"{name[0]} {name[1] or NO_SHAPES}"


def _micro(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e3
