"""Parts: the GPU time of units by category, operator or role; what differs, what is missing.

Totals are integers of nanoseconds over all steps of a unit, and the parts of a unit sum to its GPU
time exactly; times per step are those totals divided by steps (and GPUs) once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
import polars as pl

from solscope.attribution.role_names import OTHER
from solscope.compare.units import Unit
from solscope.names import short_name

NO_OPERATOR = "(not known)"
ROLES_FROM = 0.5
"""Profiles are compared by role if the roles of at least this share of each are known."""

By = Literal["role", "category", "time"]
Key = tuple[By, str | None, str]
"""What a part is by, its group if it has one, its name."""


class Part(msgspec.Struct, frozen=True):
    """One category, operator or kernel; per profile an entry, null where it is absent."""

    name: str
    calls: list[int | None]
    """Activities, over all steps compared."""
    total_ns: list[int | None]
    """Their durations, over all steps compared; parts sum to `gpu_ns`."""
    time_ms: list[float | None]
    """The same per step and GPU."""
    pct: list[float | None]
    """Share of the profile's GPU time."""


class Difference(msgspec.Struct, frozen=True):
    """How much more time one profile takes than the first for one part, per step and GPU."""

    profile: str
    by: By
    """`time`: not work but its arrangement: idle, gap, and overlapped, which counts negative."""
    group: str | None
    name: str
    before_ms: float | None
    after_ms: float | None
    diff_ms: float
    """All differences of a profile sum to the difference of its step time."""
    ratio: float | None


_Side = Literal["category", "role", "kernel"]


class OneSided(msgspec.Struct, frozen=True):
    """Something that at least one profile has and another has not."""

    by: _Side
    name: str
    time_ms: list[float | None]
    """Per step and GPU; null where it is absent."""


def parts_by(units: Sequence[Unit], key: Literal["category", "operator", "name"]) -> list[Part]:
    """Parts of all units, the largest share first."""
    sums = [_sums(unit, key) for unit in units]
    names = dict.fromkeys(name for side in sums for name in side)
    parts = [_part(name, units, [side.get(name) for side in sums]) for name in names]
    return sorted(parts, key=lambda p: (-max(share or 0.0 for share in p.pct), p.name))


def differences(units: Sequence[Unit], labels: Sequence[str]) -> list[Difference]:
    """Differences to the first profile, of each other one, the largest first."""
    roles = all(_has_roles(unit) for unit in units)
    sides = [_times(unit, roles) for unit in units]
    out: list[Difference] = []
    for label, side in zip(labels[1:], sides[1:], strict=True):
        keys = dict.fromkeys([*sides[0], *side])
        rows = [_difference(label, key, sides[0].get(key), side.get(key)) for key in keys]
        out += sorted(rows, key=lambda row: (-abs(row.diff_ms), row.name))
    return out


def one_sided(units: Sequence[Unit]) -> list[OneSided]:
    """Categories, roles and kernels that not every profile has, most time first."""
    out: list[OneSided] = []
    for by in get_args(_Side):
        if by == "role" and not all(_has_roles(unit) for unit in units):
            continue
        sums = [_sums(unit, "name" if by == "kernel" else by) for unit in units]
        names = {name for side in sums for name in side} - {OTHER, NO_OPERATOR}
        rows = [
            OneSided(
                by, name, [_ms(side.get(name), u) for side, u in zip(sums, units, strict=True)]
            )
            for name in names
            if any(name not in side for side in sums)
        ]
        out += sorted(rows, key=lambda row: (-max(t or 0.0 for t in row.time_ms), row.name))
    return out


def _sums(unit: Unit, key: str) -> dict[str, tuple[int, int]]:
    """Calls and time by key; kernels by their short name."""
    grouped = (
        unit.rows.with_columns(pl.col(key).cast(pl.String).fill_null(NO_OPERATOR))
        .group_by(key)
        .agg(pl.col("calls").sum(), pl.col("total_ns").sum())
    )
    out: dict[str, tuple[int, int]] = {}
    for raw, calls, ns in grouped.iter_rows():
        name = short_name(raw) if key == "name" else raw
        seen = out.get(name, (0, 0))
        out[name] = (seen[0] + calls, seen[1] + ns)
    return out


def _part(name: str, units: Sequence[Unit], sums: Sequence[tuple[int, int] | None]) -> Part:
    return Part(
        name=name,
        calls=[None if side is None else side[0] for side in sums],
        total_ns=[None if side is None else side[1] for side in sums],
        time_ms=[_ms(side, unit) for side, unit in zip(sums, units, strict=True)],
        pct=[
            None if side is None or not unit.gpu_ns else 100.0 * side[1] / unit.gpu_ns
            for side, unit in zip(sums, units, strict=True)
        ],
    )


def _ms(sums: tuple[int, int] | None, unit: Unit) -> float | None:
    return None if sums is None else sums[1] / unit.divisor / 1e6


def _has_roles(unit: Unit) -> bool:
    with_role = unit.rows.filter(pl.col("role").is_not_null() & (pl.col("role") != OTHER))
    return int(with_role["total_ns"].sum()) >= ROLES_FROM * max(1, unit.gpu_ns)


def _times(unit: Unit, roles: bool) -> dict[Key, float]:
    """Milliseconds per step by role (category if unknown), and of idle time and gaps."""
    named = pl.col("role").is_not_null() & (pl.col("role") != OTHER) & roles
    grouped = (
        unit.rows.select(
            pl.when(named).then(pl.lit("role")).otherwise(pl.lit("category")).alias("by"),
            pl.when(named).then(pl.col("group").cast(pl.String)).alias("group"),
            pl.when(named)
            .then(pl.col("role").cast(pl.String))
            .otherwise(pl.col("category").cast(pl.String))
            .alias("name"),
            "total_ns",
        )
        .group_by("by", "group", "name")
        .agg(pl.col("total_ns").sum())
    )
    out = {
        (by, group, name): ns / unit.divisor / 1e6 for by, group, name, ns in grouped.iter_rows()
    }
    if unit.busy_ns is not None:
        out["time", None, "idle"] = unit.idle_ns / unit.divisor / 1e6
        out["time", None, "overlapped"] = -unit.overlapped_ns / unit.divisor / 1e6
        out["time", None, "gap"] = unit.gap_ms
    return out


def _difference(profile: str, key: Key, before: float | None, after: float | None) -> Difference:
    by, group, name = key
    return Difference(
        profile=profile,
        by=by,
        group=group,
        name=name,
        before_ms=before,
        after_ms=after,
        diff_ms=(after or 0.0) - (before or 0.0),
        ratio=None if after is None or not before else after / before,
    )
