"""One layer, kernel by kernel, of one or several profiles side by side: the table made by hand.

Times are means over the layers of a kind and the passes of a phase, so that rows add up to groups,
groups to a layer, layers times their number to the layers' time, and

    layers + outside + unattributed + idle - overlapped = end to end

exactly. *End to end* is from the first start to the last end of the GPU activities of a pass;
*overlapped* is what ran at the same time as something else. Profiles align by kind of layer, group
and role, never by kernel name; what one of them does not have is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.role_names import GROUPS, OTHER, ROLES
from solscope.attribution.structure import why_unplaced
from solscope.attribution.usual_steps import StepBasis, usual_steps
from solscope.errors import InputError, UsageError
from solscope.intervals import union
from solscope.names import short_name
from solscope.profile import ProfileWarning
from solscope.views.overlap import overlaps
from solscope.views.warnings import warnings_of

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

Stat = Literal["mean", "median", "p90"]
Per = Literal["layer", "step", "call"]
_QUANTILE = {"median": 0.5, "p90": 0.9}
_RUN = ["rank", "device", "pass"]
"""One run through the model on one device."""
SURE = 0.95
"""Least confidence at which at most one claim in a hundred may be wrong."""
UNKNOWN_KIND = "unknown kind"
"""Layers of which nothing but their place is known; their kernels without a role are `other`."""


class KernelTime(msgspec.Struct, frozen=True):
    """One kernel of a role in one profile."""

    name: str
    time_us: float


class Row(msgspec.Struct, frozen=True):
    """One role; a list has an entry per profile."""

    role: str
    operator: str | None
    """Catalogue operator of the role's largest kernel, where the profiles agree on one."""
    kernels: list[list[str]]
    """Short kernel names per profile, in the order in which they ran."""
    modules: list[list[str]]
    """Classes of modules from the layer down, per profile; empty where no stacks are recorded."""
    time_us: list[float | None]
    kernel_times: list[list[KernelTime]]


class Group(msgspec.Struct, frozen=True):
    """Rows that belong together, with their sum."""

    group: str
    sum_us: list[float | None]
    rows: list[Row]


class LayerKind(msgspec.Struct, frozen=True):
    """All layers of one kind."""

    kind: str
    layers: list[int]
    sum_us: list[float | None]
    groups: list[Group]


class LayerCoverage(msgspec.Struct, frozen=True):
    """Shares of the phase's GPU time, per profile, in percent."""

    layer_pct: list[float]
    """Time whose place is known: a layer, or the named prologue or epilogue."""
    role_pct: list[float]
    """Time with a role."""
    sure_pct: list[float]
    """Time with a place and a role whose confidence is `SURE` or more."""


class Overlap(msgspec.Struct, frozen=True):
    """Work that ran while other work covered it."""

    role: str
    """What is hidden: a role, or a category where no role is known."""
    under: str
    """What covers it."""
    time_us: list[float]
    """Per pass; one entry per profile."""


class LayerTable(msgspec.Struct, frozen=True):
    """Layers of one or several profiles."""

    profiles: list[str]
    phase: str | None
    per: str
    stat: str
    """`mean` adds up; `median` and `p90` do not."""
    passes: list[int]
    """Runs through the model that the times are taken over; each device counts its own."""
    end_to_end_us: list[float]
    layers_us: list[float]
    unattributed_us: list[float]
    idle_us: list[float]
    overlapped_us: list[float]
    overlaps: list[Overlap]
    """What overlaps, largest first; adds up to `overlapped_us`."""
    outside: list[Group]
    coverage: LayerCoverage
    layer_kinds: list[LayerKind]
    warnings: list[list[ProfileWarning]]
    """What makes the numbers unsafe, per profile."""
    basis: list[list[StepBasis]] = []
    """The steps that these passes are in, by phase, and which ones were left out, per profile."""


def layers(
    profiles: Sequence[Attributed],
    labels: Sequence[str],
    *,
    phase: str | None = None,
    layer: int | None = None,
    per: Per = "layer",
    stat: Stat = "mean",
    model: Model | None = None,
) -> LayerTable:
    """The layer table; `phase` defaults to the one that took most time in all profiles.

    `model` has a config that the layers are checked against.
    """
    checked = [_checked(profile, model) for profile in profiles]
    profiles = [attributed for attributed, _ in checked]
    phase = phase or _common_phase(profiles, labels)
    sides = [_Side(p, label, phase, layer) for p, label in zip(profiles, labels, strict=True)]
    kinds = dict.fromkeys(kind for side in sides for kind in side.counts)
    return LayerTable(
        profiles=list(labels),
        phase=phase,
        per=per,
        stat=stat,
        passes=[side.passes for side in sides],
        basis=[side.basis for side in sides],
        end_to_end_us=[side.mean(side.extent_ns) for side in sides],
        layers_us=[side.mean(side.place_ns("layer")) for side in sides],
        unattributed_us=[side.mean(side.place_ns(None)) for side in sides],
        idle_us=[side.mean(side.extent_ns - side.busy_ns) for side in sides],
        overlapped_us=[side.mean(side.total_ns - side.busy_ns) for side in sides],
        overlaps=_overlaps(sides),
        outside=[
            _group(
                name,
                [side.outside(name) for side in sides],
                [side.passes for side in sides],
                stat,
                per,
            )
            for name in ("prologue", "epilogue")
        ],
        coverage=LayerCoverage(
            [side.share(pl.col("place").is_not_null()) for side in sides],
            [
                side.share(pl.col("role").is_not_null() & (pl.col("role") != OTHER))
                for side in sides
            ],
            [side.share(pl.col("confidence") >= SURE) for side in sides],
        ),
        layer_kinds=[_kind(sides, kind, per, stat) for kind in kinds],
        warnings=[[*p.profile.warnings, *warnings_of(p), *differs] for p, differs in checked],
    )


def _checked(profile: Attributed, model: Model | None) -> tuple[Attributed, list[ProfileWarning]]:
    if model is None:
        return profile, []
    from solscope.views.model_check import check_model

    return check_model(profile, model)


def _overlaps(sides: Sequence[_Side]) -> list[Overlap]:
    pairs = [overlaps(s.rows, _RUN) if s.total_ns > s.busy_ns else Counter() for s in sides]
    made = [
        Overlap(*pair, [side.mean(times[pair]) for side, times in zip(sides, pairs, strict=True)])
        for pair in set().union(*pairs)
    ]
    return sorted(made, key=lambda x: (-max(x.time_us), x.role, x.under))


class _Side:
    """One profile's part of the table."""

    def __init__(
        self, attributed: Attributed, label: str, phase: str | None, layer: int | None
    ) -> None:
        rows, self.basis = _selected(attributed, label, phase)
        self.rows = rows
        self.passes = rows.select(_RUN).n_unique()
        self.total_ns = int(rows["dur_ns"].sum())
        self.busy_ns = self.extent_ns = 0
        for run in rows.partition_by(_RUN):
            start = run["start_ns"].to_numpy()
            busy = union(start, start + run["dur_ns"].to_numpy())
            self.busy_ns += busy.length
            self.extent_ns += int(busy.end[-1] - busy.start[0])
        inside = rows.filter(pl.col("place") == "layer")
        numbered = inside.select("layer_kind", "layer").unique()
        self.counts: dict[str, int] = dict(
            numbered.group_by("layer_kind")
            .len()
            .sort("layer_kind")
            .with_columns(pl.col("layer_kind").cast(pl.String))
            .iter_rows()
        )
        if layer is not None and layer not in set(numbered["layer"]):
            raise UsageError(f"{label}: no layer {layer}; there are {len(numbered)}, from 0")
        self.inside = inside if layer is None else inside.filter(pl.col("layer") == layer)
        self.single = layer is not None

    def mean(self, ns: int) -> float:
        """Microseconds per pass."""
        return ns / (1000 * self.passes)

    def place_ns(self, place: str | None) -> int:
        where = pl.col("place").is_null() if place is None else pl.col("place") == place
        return int(self.rows.filter(where)["dur_ns"].sum())

    def share(self, which: pl.Expr) -> float:
        part_ns = int(self.rows.filter(which)["dur_ns"].sum())
        return 100.0 * part_ns / self.total_ns if self.total_ns else 0.0

    def outside(self, name: str) -> pl.DataFrame:
        return self.rows.filter(pl.col("place") == name)

    def kind(self, kind: str) -> pl.DataFrame:
        return self.inside.filter(pl.col("layer_kind") == kind)

    def instances(self, kind: str, per: Per) -> int:
        """What a time of this kind is divided by: layers of all passes, or passes alone."""
        count = (1 if self.single else self.counts.get(kind, 0)) if per != "step" else 1
        return self.passes * count


def _selected(
    attributed: Attributed, label: str, phase: str | None
) -> tuple[pl.DataFrame, list[StepBasis]]:
    """Activities of the passes of a phase in usual steps, and these steps by phase."""
    if attributed.profile.is_aggregate:
        raise InputError(f"{label}: a summary without single kernels has no layers")
    steps = usual_steps(attributed)
    wanted = pl.col("start_ns").is_not_null()
    if phase is not None:
        wanted &= pl.col("phase") == phase
    of_phase = attributed.activities.filter(wanted).with_columns(pl.col("dur_ns").fill_null(0))
    rows = of_phase.filter(pl.col("step").is_in([n for each in steps for n in each.numbers]))
    if rows.filter(pl.col("place") == "layer").is_empty():
        # A pass of this phase may be in a step that is not usual for its own phase, and only there.
        whole = [number for each in steps for number in each.whole["step"].to_list()]
        rows = of_phase.filter(pl.col("step").is_in(whole))
    rows = _named(_usual_passes(rows)).with_columns(_offset().alias("offset"))
    if rows.filter(pl.col("place") == "layer").is_empty():
        placed = attributed.activities.filter(pl.col("place") == "layer")["phase"].unique()
        there = ", ".join(sorted(str(p) for p in placed if p is not None))
        why = why_unplaced(attributed.activities)
        hint = f" (there are layers in: {there})" if there else f": {why.reason}" if why else ""
        raise InputError(f"{label}: no layers found{f' in phase {phase}' if phase else ''}{hint}")
    present = set(rows["step"].to_list())
    return rows, [each.basis for each in steps if present & set(each.whole["step"].to_list())]


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """Every placed activity with a kind, a group and a role, so that rows add up to their sums."""
    placed = pl.col("place").is_not_null()
    unknown = {"layer_kind": UNKNOWN_KIND, "group": OTHER, "role": OTHER}
    return rows.with_columns(
        pl.when(placed & pl.col(name).is_null())
        .then(pl.lit(value))
        .otherwise(pl.col(name).cast(pl.String))
        .alias(name)
        for name, value in unknown.items()
    )


def _offset() -> pl.Expr:
    """How far into its layer (or prologue, or epilogue) an activity starts, from 0 to 1."""
    unit = [*_RUN, "place", "layer"]
    first, last = pl.col("start_ns").min().over(unit), pl.col("start_ns").max().over(unit)
    return (pl.col("start_ns") - first) / (last - first + 1)


def _usual_passes(rows: pl.DataFrame) -> pl.DataFrame:
    """Only passes with the usual number of layers: cut and warm-up passes are left out."""
    if rows.is_empty():
        return rows
    counts = rows.group_by("pass").agg(pl.col("layer").drop_nulls().n_unique().alias("layers"))
    usual = counts["layers"].mode().max()
    keep = counts.filter(pl.col("layers") == usual)["pass"]
    return rows.filter(pl.col("pass").is_in(keep.to_list()))


def _common_phase(profiles: Sequence[Attributed], labels: Sequence[str]) -> str | None:
    """The phase that took most GPU time among those that every profile has."""
    shares = []
    for attributed, label in zip(profiles, labels, strict=True):
        if attributed.profile.is_aggregate:
            raise InputError(f"{label}: a summary without single kernels has no layers")
        rows = attributed.activities.filter(pl.col("place") == "layer")
        times = rows.group_by("phase").agg(pl.col("dur_ns").sum())
        total = max(1, int(times["dur_ns"].sum()))
        shares.append(
            {
                p: ns / total
                for p, ns in times.with_columns(pl.col("phase").cast(pl.String)).iter_rows()
            }
        )
    named: set[str] = set.intersection(*(set(share) - {None} for share in shares))
    if not named:
        return None
    return max(named, key=lambda p: (sum(share[p] for share in shares), p))


def _kind(sides: Sequence[_Side], kind: str, per: Per, stat: Stat) -> LayerKind:
    tables = [side.kind(kind) for side in sides]
    if per == "call":
        divisors = [side.instances(kind, "layer") for side in sides]
    else:
        divisors = [side.instances(kind, per) for side in sides]
    groups_of = (table["group"].cast(pl.String).unique(maintain_order=True) for table in tables)
    present = dict.fromkeys(group for each in groups_of for group in each)
    order = sorted(present, key=lambda g: GROUPS.index(g) if g in GROUPS else len(GROUPS))
    groups = [
        _group(name, [t.filter(pl.col("group") == name) for t in tables], divisors, stat, per)
        for name in order
    ]
    return LayerKind(
        kind=kind,
        layers=[side.counts.get(kind, 0) for side in sides],
        sum_us=[_time(table, n) for table, n in zip(tables, divisors, strict=True)],
        groups=groups,
    )


def _group(
    name: str,
    tables: Sequence[pl.DataFrame],
    divisors: Sequence[int],
    stat: Stat,
    per: Per,
) -> Group:
    roles = _in_order(tables)
    rows = [
        _row(role, [t.filter(pl.col("role") == role) for t in tables], divisors, stat, per)
        for role in roles
    ]
    return Group(name, [_time(table, n) for table, n in zip(tables, divisors, strict=True)], rows)


def _row(
    role: str, tables: Sequence[pl.DataFrame], divisors: Sequence[int], stat: Stat, per: Per
) -> Row:
    if per == "call":
        divisors = [max(1, table.height) for table in tables]
    times = [_stat(table, n, stat, per) for table, n in zip(tables, divisors, strict=True)]
    kernels = [_kernels(table, n, per) for table, n in zip(tables, divisors, strict=True)]
    return Row(
        role=role,
        operator=_operator(tables),
        kernels=[[kernel.name for kernel in side] for side in kernels],
        modules=[_modules(table) for table in tables],
        time_us=times,
        kernel_times=kernels,
    )


def _modules(table: pl.DataFrame) -> list[str]:
    """Modules around the kernels of a role, in the order in which they ran."""
    paths = table.filter(pl.col("module").is_not_null()).sort("start_ns")["module"]
    return [str(path) for path in paths.unique(maintain_order=True)]


def _in_order(tables: Sequence[pl.DataFrame]) -> list[str]:
    """Roles in the order in which they run, as far into their layer as on average over profiles."""
    far: dict[str, list[float]] = {}
    for table in tables:
        where = table.group_by("role").agg(pl.col("offset").mean())
        for role, mean in where.iter_rows():
            far.setdefault(role, []).append(mean)
    order = list(ROLES)
    return sorted(
        far, key=lambda r: (sum(far[r]) / len(far[r]), order.index(r) if r in order else 0, r)
    )


def _operator(tables: Sequence[pl.DataFrame]) -> str | None:
    """The catalog operator with most time, if all profiles that have one agree."""
    operators: set[str] = set()
    for table in tables:
        times = (
            table.filter(pl.col("operator").is_not_null())
            .group_by("operator")
            .agg(pl.col("dur_ns").sum())
        )
        if not times.is_empty():
            operators.add(str(times.sort("dur_ns", "operator", descending=True)["operator"][0]))
    return operators.pop() if len(operators) == 1 else None


def _time(table: pl.DataFrame, instances: int) -> float | None:
    if table.is_empty() or not instances:
        return None
    return int(table["dur_ns"].sum()) / (1000 * instances)


def _stat(table: pl.DataFrame, instances: int, stat: Stat, per: Per) -> float | None:
    if stat == "mean" or table.is_empty():
        return _time(table, instances)
    unit = {"call": ["row"], "layer": [*_RUN, "layer"], "step": _RUN}[per]
    sums = table.group_by(unit).agg(pl.col("dur_ns").sum())["dur_ns"]
    value = sums.quantile(_QUANTILE[stat], "linear")
    return None if value is None else value / 1000


def _kernels(table: pl.DataFrame, instances: int, per: Per) -> list[KernelTime]:
    """Kernels of a role in the order in which they first ran, with their part of its time.

    Per call, the time of a kernel is the mean over its own calls.
    """
    short = [short_name(name or "(no name)") for name in table["name"].cast(pl.String)]
    grouped = (
        table.select("dur_ns", "start_ns", pl.Series("short", short, dtype=pl.String))
        .group_by("short")
        .agg(pl.col("dur_ns").sum(), pl.len(), pl.col("start_ns").min())
        .sort("start_ns")
    )
    return [
        KernelTime(name, ns / (1000 * (calls if per == "call" else max(1, instances))))
        for name, ns, calls, _ in grouped.iter_rows()
    ]
