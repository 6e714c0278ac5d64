"""What a reader of a classic comparison must know and the report never said."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from solscope.profile import ProfileWarning

if TYPE_CHECKING:
    from solscope.diagnose.classic import ClassicRow, ClassicSide

CONSEQUENCE = re.compile(r"usage|util|occupancy|power|temp|mem_used", re.IGNORECASE)
"""Metrics that say how much a resource was used: they follow from what happens elsewhere."""
SAME_CALL = 0.05
"""A time per call that moved by less than this did not change."""
FAR_FROM_TYPICAL = 0.05
_NAMED = 3


def classic_warnings(
    normal: ClassicSide,
    abnormal: ClassicSide,
    rows: Sequence[ClassicRow],
    normal_cycles: pl.DataFrame,
    abnormal_cycles: pl.DataFrame,
) -> list[ProfileWarning]:
    """All that applies, the gravest first."""
    return [
        *_units(normal, abnormal),
        *_outliers(normal, abnormal),
        *_composition(rows),
        *_lost(normal, abnormal, rows, normal_cycles, abnormal_cycles),
        *_tests(rows),
        *_copies(rows),
        *_consequences(rows),
    ]


def is_consequence(metric: str) -> bool:
    """True for a metric that never names a cause alone."""
    return bool(CONSEQUENCE.search(metric)) and "host_cpu" not in metric


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f", and {count} more" if count > 0 else ""


def _units(normal: ClassicSide, abnormal: ClassicSide) -> Iterator[ProfileWarning]:
    if normal.unit != abnormal.unit:
        yield ProfileWarning(
            "unlike_cycles",
            f"a cycle is {normal.unit!r} in one run and {abnormal.unit!r} in the other: no time, "
            "share or score below compares like with like, and no total change is given",
        )
    fewest = min(normal.cycles, abnormal.cycles)
    if fewest < 5:
        yield ProfileWarning(
            "few_cycles", f"one run has {fewest} cycles: too few for any of the tests below"
        )


def _outliers(*sides: ClassicSide) -> Iterator[ProfileWarning]:
    """Means that a few long cycles decide, as those at the edge of a recording do."""
    for side in sides:
        typical = statistics.median(side.durations_us)
        if abs(side.mean_us / typical - 1.0) > FAR_FROM_TYPICAL:
            yield ProfileWarning(
                "mean_not_typical",
                f"{side.label}: the mean cycle takes {side.mean_us:,.0f} us, the typical one "
                f"(median) {typical:,.0f}; the longest takes {side.durations_us[0]:,.0f}",
            )


def _composition(rows: Sequence[ClassicRow]) -> Iterator[ProfileWarning]:
    """Shares that moved although the function did not."""
    first = {(row.function, row.device): row for row in reversed(rows)}.values()
    moved = [
        row
        for row in first
        if row.call_us_normal
        and row.call_us_abnormal
        and abs(row.call_us_abnormal / row.call_us_normal - 1.0) < SAME_CALL
        and abs(row.delta_beta_pct) > SAME_CALL * row.beta_normal_pct
    ]
    if moved:
        top = max(moved, key=lambda row: row.suspicion_score)
        yield ProfileWarning(
            "share_not_time",
            f"{_counted(len(moved), 'function')} changed the share of the cycle, but not the time "
            f"per call, the first being {top.function[:60]} ({top.call_us_normal:,.1f} -> "
            f"{top.call_us_abnormal:,.1f} us): the rest of the cycle changed, or how often "
            "it ran",
        )


def _lost(
    normal: ClassicSide,
    abnormal: ClassicSide,
    rows: Sequence[ClassicRow],
    normal_cycles: pl.DataFrame,
    abnormal_cycles: pl.DataFrame,
) -> Iterator[ProfileWarning]:
    lost = normal.without_reading + abnormal.without_reading
    if lost:
        compared = {(row.function, row.device == "Host") for row in rows}
        gone = _shares(normal_cycles, abnormal_cycles, compared)
        named = "; ".join(
            f"{name[:40]} {a:.3g} -> {b:.3g} % of the cycle" for name, a, b in gone[:_NAMED]
        )
        tail = f"; in no row at all: {named}{_more(len(gone) - _NAMED)}" if gone else ""
        yield ProfileWarning(
            "rows_without_reading",
            f"{normal.without_reading:,} of {normal.rows:,} normal and "
            f"{abnormal.without_reading:,} of {abnormal.rows:,} abnormal rows have no counter "
            f"reading and are not used in any figure below{tail}",
        )
    missing = [row for row in rows if not row.n_normal or not row.n_abnormal]
    if missing:
        yield ProfileWarning(
            "missing_is_zero",
            f"{len(missing)} of {len(rows)} rows exist in one run only; the other side counts as "
            "0, which is not a measurement",
        )


def _shares(
    normal: pl.DataFrame, abnormal: pl.DataFrame, compared: set[tuple[str, bool]]
) -> list[tuple[str, float, float]]:
    """Functions that no row of the report shows, with their mean shares, the most changed first."""
    means = []
    for table in (normal, abnormal):
        once = table.unique(["pid", "cycle", "start_ns", "name", "device"], maintain_order=True)
        grouped = once.group_by(pl.col("name").cast(pl.String), pl.col("device").is_null())
        means.append(
            {
                (name, host): share
                for name, host, share in grouped.agg(pl.col("beta_pct").mean()).rows()
            }
        )
    gone = sorted(({*means[0], *means[1]}) - compared)
    pairs = [(key[0], *(side.get(key, 0.0) for side in means)) for key in gone]
    return sorted(((n, a, b) for n, a, b in pairs), key=lambda row: -abs(row[2] - row[1]))


def _tests(rows: Sequence[ClassicRow]) -> Iterator[ProfileWarning]:
    untested = sum(not row.tested for row in rows)
    if untested:
        yield ProfileWarning(
            "not_tested",
            f"in {untested} of {len(rows)} rows p = 1 means that nothing was tested (one cycle or "
            "none on a side), not that nothing changed",
        )
    undefined = sum(row.tested and (row.p_mu is None or row.p_beta is None) for row in rows)
    if undefined:
        yield ProfileWarning(
            "p_undefined",
            f"p = nan in {_counted(undefined, 'row')}: both sides are constant and equal",
        )
    tested = len(rows) - untested
    if tested > 1:
        yield ProfileWarning(
            "many_tests",
            f"{4 * tested} p-values are given without correction: about {0.05 * 4 * tested:.0f} "
            "are below 0.05 when nothing changed at all; the score uses none of them",
        )


def _copies(rows: Sequence[ClassicRow]) -> Iterator[ProfileWarning]:
    distinct = len({(row.metric, row.mu_normal, row.mu_abnormal) for row in rows})
    if distinct < len(rows):
        yield ProfileWarning(
            "copied_readings",
            f"the {len(rows)} rows hold {distinct} different pairs of readings: one sample of a "
            "counter is repeated for every function that ran at the time; this is not new evidence",
        )


def _consequences(rows: Sequence[ClassicRow]) -> Iterator[ProfileWarning]:
    named = sorted({row.metric for row in rows if is_consequence(row.metric)})
    if named:
        yield ProfileWarning(
            "consequences",
            f"{', '.join(named)} say how much a resource was used, which follows from what happens "
            "elsewhere; none of them is a cause",
        )
