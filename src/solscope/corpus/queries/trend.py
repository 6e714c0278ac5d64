"""How an operator, a category or the step changes from profile to profile.

Profiles are ordered by date or by version of the framework, and each gives one value. Changes are
found by `changes.py`. The trend has regressed when the last change made it slower by at least the
limit: an earlier slowdown that was made good does not count.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from solscope.corpus.aggregates.part import KeyKind
from solscope.corpus.queries.change_points import LONGEST, change_points
from solscope.corpus.queries.profile_sums import profile_keys, profile_sums
from solscope.corpus.queries.select import PHASE, UNKNOWN, Selection, select
from solscope.corpus.runs import by_run
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError

TrendBy = Literal["date", "version"]
TrendMetric = Literal["call", "step", "share"]
STEP = "step"
MIN_CHANGE_PCT = 3.0
"""Slowdown in percent from which on a series has regressed, unless another one is asked for."""
UNITS = {"call": "µs per call", "step": "µs per step", "share": "% of GPU time"}


class TrendPoint(msgspec.Struct, frozen=True):
    """One profile, or the ranks of a run."""

    id: str
    file: str
    """Of a run, the lowest rank's."""
    label: str
    """Its date or version."""
    value: float
    """Of a run, the mean over its ranks."""


class TrendChange(msgspec.Struct, frozen=True):
    """A place where the values change."""

    at: int
    """Index of the first point after it."""
    label: str
    """Date or version of that point."""
    file: str
    before: float
    """Median of the points between the last change and this one."""
    after: float
    """Median of the points from this change to the next."""
    change_pct: float | None
    """Null when it was 0 before."""
    p_value: float
    diagnose: str
    """Command that explains it: the last profile before the change against the first after it."""


class Trend(msgspec.Struct, frozen=True):
    """A series with its changes."""

    what: str
    by: TrendBy
    metric: TrendMetric
    unit: str
    phase: str | None
    """Phase of the steps, for `step`."""
    points: list[TrendPoint]
    changes: list[TrendChange]
    min_change_pct: float
    regressed: bool
    """The last change made it slower by at least `min_change_pct`."""
    left_out: int
    """Profiles without a date (or version), or without what was asked for."""


def trend(
    corpus: Corpus,
    what: str,
    by: TrendBy = "date",
    metric: TrendMetric = "call",
    where: Mapping[str, str] | None = None,
    min_change_pct: float = MIN_CHANGE_PCT,
) -> Trend:
    """The series of `what`: an operator, a category, or `step`."""
    if min_change_pct < 0:
        raise UsageError(
            f"the smallest change must be a percentage of at least 0, not {min_change_pct}"
        )
    selection = select(corpus, where)
    phase = None
    if what == STEP:
        values, phase = _steps(corpus, selection, (where or {}).get(PHASE))
        metric = "step"
    else:
        values = part_values(selection, what, metric, (where or {}).get(PHASE))
    joined = selection.profiles.join(values, on="at").with_columns(_order(by))
    dated = joined.filter(pl.col("value").is_finite() & pl.col("order").is_not_null())
    if dated.is_empty():
        asked = "a date" if by == "date" else "a version"
        raise InputError(f"{corpus.url}: no profile has both {what} and {asked}")
    ordered = _sorted(by_run(dated), by).tail(LONGEST)
    points = [
        TrendPoint(row["id"], row["file"], point_label(row, by), row["value"])
        for row in ordered.iter_rows(named=True)
    ]
    changes = _changes(points)
    last = changes[-1].change_pct if changes else None
    return Trend(
        what=what,
        by=by,
        metric=metric,
        unit=UNITS[metric],
        phase=phase,
        points=points,
        changes=changes,
        min_change_pct=min_change_pct,
        regressed=bool(changes) and (last is None or last >= min_change_pct),
        left_out=selection.profiles.height - int(ordered["ranks"].sum()),
    )


def part_values(
    selection: Selection, what: str, metric: TrendMetric, phase: str | None
) -> pl.DataFrame:
    """One value per profile for an operator or a category."""
    kinds: tuple[KeyKind, ...] = ("operator", "category")
    for kind in kinds:
        sums = profile_sums(selection, kind, what)
        if not sums.is_empty():
            break
    else:
        names = ", ".join(profile_keys(selection, "operator"))
        raise UsageError(f"no operator or category {what!r} in these profiles (available: {names})")
    if metric == "call":
        return sums.select("at", (pl.col("time_ns") / pl.col("calls") / 1e3).alias("value"))
    if metric == "share":
        whole = profile_sums(selection, "category", None).select("at", whole="time_ns")
        value = 100 * pl.col("time_ns") / pl.col("whole")
        return sums.join(whole, on="at").select("at", value.alias("value"))
    steps = step_rows(selection)
    if phase is not None:
        steps = steps.filter(pl.col("phase") == phase)
    value = pl.col("time_ns") / pl.col("steps") / 1e3
    counts = steps.group_by("at").agg(pl.len().alias("steps"))
    return sums.join(counts, on="at").select("at", value.alias("value"))


def step_rows(selection: Selection, *more: str) -> pl.DataFrame:
    """Steps of the first process of each profile (the others run the same ones)."""
    own = selection.profiles.lazy().select("entry", "at")
    needed = ("entry", "process", "phase", "cut", "dur_ns", *more)
    first = selection.corpus.raw("steps").select(needed).filter(pl.col("process") == 0)
    rows = first.join(own, on="entry").drop("entry", "process")
    return rows.with_columns(pl.col("phase").fill_null(UNKNOWN)).collect(engine="streaming")


def _steps(
    corpus: Corpus, selection: Selection, phase: str | None
) -> tuple[pl.DataFrame, str | None]:
    """Median time of the whole steps of one phase, by default the one that takes most time."""
    whole = ~pl.col("cut") & pl.col("dur_ns").is_not_null()
    rows = step_rows(selection).filter(whole)
    if rows.is_empty():
        raise InputError(f"{corpus.url}: these profiles have no complete steps")
    if phase is None:
        spent = rows.group_by("phase").agg(pl.col("dur_ns").sum()).sort("dur_ns", "phase")
        phase = str(spent["phase"][-1])
    medians = (
        rows.filter(pl.col("phase") == phase)
        .group_by("at")
        .agg((pl.col("dur_ns").median() / 1e3).alias("value"))
    )
    return medians, phase


def _order(by: TrendBy) -> pl.Expr:
    return pl.col("recorded_ns" if by == "date" else "version").alias("order")


def _sorted(rows: pl.DataFrame, by: TrendBy) -> pl.DataFrame:
    if by == "date":
        return rows.sort("recorded_ns", "file", "id")
    texts = rows["version"].unique().to_list()
    rank = {text: index for index, text in enumerate(sorted(texts, key=version_key))}
    return rows.with_columns(
        pl.col("version").replace_strict(rank, return_dtype=pl.Int64).alias("order")
    ).sort("order", "recorded_ns", "file", "id", nulls_last=True)


def version_key(version: str) -> list[tuple[int, int, str]]:
    """Order of versions: numbers as numbers, and 0.10.0rc1 before 0.10.0."""
    parts = re.findall(r"\d+|[a-z]+", version.lower().partition("+")[0].removeprefix("v"))
    early = ("a", "alpha", "b", "beta", "c", "rc", "dev", "pre", "preview")
    key = [
        (1, int(field), "") if field.isdigit() else (-1 if field in early else 2, 0, field)
        for field in parts
    ]
    return [*key, (0, 0, "")]


def point_label(row: Mapping[str, object], by: TrendBy) -> str:
    """Date or version of a profile, as text."""
    if by == "version":
        return str(row["version"])
    moment = np.datetime64(int(str(row["recorded_ns"])), "ns")
    return f"{np.datetime_as_string(moment, unit='s')}Z"


def _changes(points: list[TrendPoint]) -> list[TrendChange]:
    values = np.array([point.value for point in points])
    changes = change_points(values)
    edges = [0, *(change.at for change in changes), values.size]
    levels = [float(np.median(values[a:b])) for a, b in itertools.pairwise(edges)]
    return [
        TrendChange(
            at=change.at,
            label=points[change.at].label,
            file=points[change.at].file,
            before=levels[number],
            after=levels[number + 1],
            change_pct=100 * (levels[number + 1] / levels[number] - 1) if levels[number] else None,
            p_value=change.p_value,
            diagnose=shlex.join(
                ["solscope", "diagnose", points[change.at - 1].file, points[change.at].file]
            ),
        )
        for number, change in enumerate(changes)
    ]
