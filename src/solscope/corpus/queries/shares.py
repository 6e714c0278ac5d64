"""Shares of GPU time by key: the arithmetic of `importance`, on numbers in place of texts.

Profiles are numbered as in the selection (`at`), keys as they come (`code`). A unit is what shares
are shares of: a profile, or one phase of it when rows are grouped by phase. Shares are rounded to
2^-40 and added as integers, so that sums do not depend on how rows are spread over files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.part import SUMS, KeyKind, Part, first_of, names_of
from solscope.corpus.aggregates.stored import parts
from solscope.corpus.queries.select import PHASE, UNKNOWN, Selection, fact
from solscope.errors import InputError
from solscope.resample import mean_intervals, pools_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ONE = 1 << 40
"""A share of 100 % as an integer."""
MOST_PHASES = 64
"""Distinct phases that rows can be grouped by."""
MOST_INTERVALS = 1000
"""Keys of a group, from the one with most time on, that get an interval."""


@dataclass(frozen=True)
class Cells:
    """Time by unit and key of all selected profiles, and sums by group and key."""

    units: Ints
    codes: Ints
    time_ns: Ints
    recoverable_ns: Ints
    names: pl.DataFrame
    """Texts of each `code`, in that order."""
    groups: list[tuple[str, ...]]
    group_of: Ints
    """The group of each unit; -1 for those that do not occur."""
    at_of: Ints
    """The profile of each unit."""
    phase_of: list[str] | None
    """Its phase; null when a unit is a whole profile."""
    sums: pl.DataFrame
    """`SUMS` by `group` and `code`."""
    durations: pl.DataFrame
    """Calls by `group`, `code` and `value`, of the parts that were selected as a whole."""
    limits: pl.DataFrame
    split: pl.DataFrame
    """`entry` and `at` of selected profiles in parts of which others were not selected."""

    def totals(self) -> Ints:
        """GPU time of each unit."""
        return _added(self.units, self.time_ns, self.group_of.size)


def read_cells(selection: Selection, kind: KeyKind, group_by: Sequence[str]) -> Cells:
    """What all parts say about the selected profiles."""
    return _Reader(selection, kind, group_by).read()


class _Reader:
    """Goes through the parts once."""

    def __init__(self, selection: Selection, kind: KeyKind, group_by: Sequence[str]) -> None:
        self.selection, self.kind = selection, kind
        self.facts = [name for name in group_by if name != PHASE]
        self.by_phase = PHASE in group_by
        self.stride = MOST_PHASES if self.by_phase else 1
        self.group_by = list(group_by)
        self.phases: dict[str, int] = {}
        self.codes: dict[tuple[str | None, ...], int] = {}
        self.columns: dict[str, list[npt.NDArray[Any]]] = {}
        self.sums: list[pl.DataFrame] = []
        self.counted: dict[str, list[pl.DataFrame]] = {"durations": [], "limits": []}
        self.split: list[pl.DataFrame] = []
        self.own = selection.profiles.select("entry", "at")
        profiles = selection.profiles
        facts = [profiles.select("at"), *(fact(profiles, name).to_frame() for name in self.facts)]
        texts = pl.concat(facts, how="horizontal").drop("at").rows() if self.facts else None
        self.texts: dict[tuple[str, ...], int] = {} if texts else {(): 0}
        self.fact_of = np.array(
            [self.texts.setdefault(text, len(self.texts)) for text in texts]
            if texts
            else np.zeros(profiles.height),
            np.int64,
        )
        """Number of the facts, that rows are grouped by, of each profile."""

    def read(self) -> Cells:
        for part in parts(self.selection.corpus, self.kind):
            self._take(part)
        units = self._joined("units")
        profiles = self.selection.profiles.height
        at_of = np.arange(profiles * self.stride) // self.stride
        groups, group_of = self._groups(np.unique(units))
        return Cells(
            units=units,
            codes=self._joined("codes"),
            time_ns=self._joined("time_ns"),
            recoverable_ns=self._joined("recoverable_ns"),
            names=pl.DataFrame(
                list(self.codes),
                schema=dict.fromkeys(names_of(self.kind), pl.String()),
                orient="row",
            ),
            groups=groups,
            group_of=group_of,
            at_of=at_of,
            phase_of=self._phase_texts() if self.by_phase else None,
            sums=self._sums(group_of),
            durations=self._counts("durations", group_of),
            limits=self._counts("limits", group_of),
            split=pl.concat([self.own.clear(), *self.split]),
        )

    def _phase_texts(self) -> list[str]:
        texts = [*self.phases, *[""] * (self.stride - len(self.phases))]
        return texts * self.fact_of.size

    def _joined(self, name: str) -> Ints:
        found = self.columns.get(name, [])
        return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)

    def _take(self, part: Part) -> None:
        """Add the selected profiles and phases of one part."""
        own = part.entries.with_row_index("number").join(self.own, on="entry", how="left")
        at = own.sort("number")["at"].cast(pl.Int64).fill_null(-1).to_numpy()
        code = self._code(part.names)
        phase = self._phase(part.phases)
        cells = part.cells
        at_cell = at[cells["entry"].to_numpy()]
        phase_cell = phase[cells["phase"].to_numpy()]
        chosen = (at_cell >= 0) & (phase_cell >= 0)
        if self.selection.phase is not None or not chosen.all():
            cells, at_cell, phase_cell = cells.filter(chosen), at_cell[chosen], phase_cell[chosen]
        units = at_cell * self.stride + phase_cell if self.by_phase else at_cell
        self._take_cells(cells, units, code[cells["name"].to_numpy()])
        if (at >= 0).all() and not self.facts:
            for name, frames in self.counted.items():
                frames.append(self._renumbered(getattr(part, name), code, phase))
        else:
            self.split.append(own.filter(pl.col("at").is_not_null()).select("entry", "at"))

    def _take_cells(self, cells: pl.DataFrame, units: Ints, codes: Ints) -> None:
        if not cells.height:
            return
        new = first_of(units, codes)
        sums = {name: np.add.reduceat(cells[name].to_numpy(), new) for name in SUMS}
        bounded = np.add.reduceat(cells["bounded"].cast(pl.Int64).to_numpy(), new)
        units, codes = units[new], codes[new]
        held = {
            "units": units.astype(np.uint32),
            "codes": codes.astype(np.uint32),
            "time_ns": sums["time_ns"],
            "recoverable_ns": sums["recoverable_ns"],
        }
        for name, values in held.items():
            self.columns.setdefault(name, []).append(values)
        occurs = (sums["time_ns"] > 0).astype(np.int64)
        frame = pl.DataFrame(
            {"mixed": self._mixed(units), "code": codes, **sums}
            | {"bounded": bounded, "profiles": occurs}
        )
        self.sums.append(frame.group_by("mixed", "code").sum())

    def _code(self, names: pl.DataFrame) -> Ints:
        codes = [self.codes.setdefault(name, len(self.codes)) for name in names.iter_rows()]
        return np.array(codes, np.int64)

    def _phase(self, phases: pl.DataFrame) -> Ints:
        """The number of each phase of a part; -1 for those that were not asked for."""
        wanted = self.selection.phase
        texts = [text or UNKNOWN for text in phases["phase"].to_list()]
        if len({*texts, *self.phases}) > MOST_PHASES:
            raise InputError(f"more than {MOST_PHASES} phases in this store")
        return np.array(
            [
                -1
                if wanted is not None and text != wanted
                else self.phases.setdefault(text, len(self.phases))
                for text in texts
            ],
            np.int64,
        )

    def _renumbered(self, counts: pl.DataFrame, code: Ints, phase: Ints) -> pl.DataFrame:
        return counts.select(
            pl.Series("code", code[counts["name"].to_numpy()]),
            pl.Series("phase", phase[counts["phase"].to_numpy()]),
            "value",
            "calls",
        ).filter(pl.col("phase") >= 0)

    def _mixed(self, units: Ints) -> Ints:
        """Facts and phase of each unit as one number."""
        mixed: Ints = self.fact_of[units // self.stride] * self.stride + units % self.stride
        return mixed

    def _groups(self, there: Ints) -> tuple[list[tuple[str, ...]], Ints]:
        """Groups by the texts that make them, and the group of each unit that occurs."""
        found, number = np.unique(self._mixed(there), return_inverse=True)
        group_of = np.full(self.fact_of.size * self.stride, -1, np.int64)
        group_of[there] = number
        facts = list(self.texts)
        phases = list(self.phases)
        groups = []
        for mixed in found.tolist():
            texts = iter(facts[mixed // self.stride])
            phase = phases[mixed % self.stride] if self.by_phase else ""
            groups.append(tuple(phase if name == PHASE else next(texts) for name in self.group_by))
        return groups, group_of

    def _sums(self, group_of: Ints) -> pl.DataFrame:
        if not self.sums:
            return pl.DataFrame({"group": [], "code": []})
        there = np.flatnonzero(group_of >= 0)
        group = np.full(len(self.texts) * self.stride, -1, np.int64)
        group[self._mixed(there)] = group_of[there]
        joined = pl.concat(self.sums)
        numbers = pl.Series("group", group[joined["mixed"].to_numpy()])
        return joined.drop("mixed").with_columns(numbers).group_by("group", "code").sum()

    def _counts(self, name: str, group_of: Ints) -> pl.DataFrame:
        """Calls by group, key and value."""
        schema = {"group": pl.Int64, "code": pl.Int64, "value": pl.Float64, "calls": pl.Float64}
        frames = self.counted[name]
        if not frames:
            return pl.DataFrame(schema=schema)
        joined = pl.concat(frames)
        if self.by_phase:
            # Without facts, a group is a phase.
            units = np.flatnonzero(group_of >= 0)
            group = np.full(self.stride, -1, np.int64)
            group[units % self.stride] = group_of[units]
            joined = joined.with_columns(pl.Series("group", group[joined["phase"].to_numpy()]))
        else:
            joined = joined.with_columns(group=pl.lit(0, pl.Int64))
        return joined.select(pl.col(column).cast(dtype) for column, dtype in schema.items())


@dataclass(frozen=True)
class Means:
    """Weighted means over the units of one group, by code."""

    importance: Floats
    recoverable: Floats
    frequency: Floats
    intervals: dict[int, tuple[float, float]]


def group_means(cells: Cells, group: int, totals: Ints, weight_of: Floats, ranked: Ints) -> Means:
    """Means of the shares in one group; `ranked` are its codes, most time first."""
    inside = np.flatnonzero((cells.group_of == group) & (totals > 0))
    weight = weight_of[cells.at_of[inside]]
    if not weight.sum() > 0:
        weight = np.ones(weight.size)
    place = np.full(totals.size, -1, np.int64)
    place[inside] = np.arange(inside.size)
    chosen = place[cells.units]
    mask = chosen >= 0
    codes = cells.codes[mask] if not mask.all() else cells.codes
    unit = chosen[mask] if not mask.all() else chosen
    heaviest = float(weight.max())
    scale = (weight / heaviest * ONE / totals[inside])[unit]
    size = cells.names.height

    def mean(values: Floats) -> Floats:
        exact = np.rint(values).astype(np.int64)
        sums = _added(codes, exact, size).astype(np.float64)
        return sums * float(heaviest / ONE / weight.sum())

    time = cells.time_ns[mask] if not mask.all() else cells.time_ns
    spared = cells.recoverable_ns[mask] if not mask.all() else cells.recoverable_ns
    shares = scale * time
    return Means(
        importance=mean(shares),
        recoverable=mean(scale * spared),
        frequency=mean((weight / heaviest * ONE)[unit] * (time > 0)),
        intervals=_intervals(shares, unit, codes, ranked[:MOST_INTERVALS], weight, heaviest),
    )


def _intervals(
    shares: Floats, unit: Ints, codes: Ints, ranked: Ints, weight: Floats, heaviest: float
) -> dict[int, tuple[float, float]]:
    block = pools_of(weight.size)
    column = np.full(int(codes.max(initial=0)) + 1, -1, np.int64)
    column[ranked[ranked < column.size]] = np.arange(ranked.size)[ranked < column.size]
    shown = np.flatnonzero(column[codes] >= 0)
    pools = int(block.max(initial=0)) + 1
    cell = block[unit[shown]] * ranked.size + column[codes[shown]]
    exact = _added(cell, np.rint(shares[shown]).astype(np.int64), pools * ranked.size)
    pooled = exact.reshape(pools, ranked.size).astype(np.float64) * (heaviest / ONE)
    found = mean_intervals(pooled, np.bincount(block, weights=weight).astype(np.float64))
    if found is None:
        return {}
    return {int(code): (float(found[0, at]), float(found[1, at])) for at, code in enumerate(ranked)}


def _added(index: Ints, values: Ints, size: int) -> Ints:
    """Sums of integers by index, exact."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, values)
    return sums
