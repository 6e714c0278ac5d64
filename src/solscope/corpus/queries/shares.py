"""Time by profile and key: what `share_means` computes shares of GPU time from.

Profiles are numbered as in the selection (`at`), keys as they come (`code`). A unit is what shares
are shares of: a profile, or one phase of it when rows are grouped by phase. Where all runs of a
part count the same, its stored sums over them are taken, and no cell is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.overall import pools_of
from solscope.corpus.aggregates.part import SUMS, KeyKind, Part, first_of, names_of
from solscope.corpus.queries.overall_sums import OverallSums
from solscope.corpus.queries.select import PHASE, UNKNOWN, Selection, fact
from solscope.corpus.queries.selected_parts import SelectedPart, SelectedParts
from solscope.errors import InputError

Ints = npt.NDArray[np.int64]
MOST_PHASES = 64
"""Distinct phases that rows can be grouped by."""


class SplitPart(NamedTuple):
    """A part whose calls are counted profile by profile."""

    part: Part
    at: Ints
    """The profile of each of its entries; -1 for those that are not selected."""
    code: Ints
    """The code of each of its names."""
    phase: Ints
    """The number of each of its phases; -1 for those that were not asked for."""


@dataclass(frozen=True)
class Cells:
    """Time by unit and key of all selected profiles, and sums by group and key."""

    units: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint32]
    time_ns: Ints
    recoverable_ns: Ints
    overall: OverallSums
    """Sums of the parts whose cells were not read."""
    totals: Ints
    """GPU time of each unit."""
    run_of: Ints
    """A number of each profile that ranks of one run share."""
    pool_of: Ints
    """The pool of each profile, where they are many."""
    names: pl.DataFrame
    """Texts of each `code`, in that order."""
    groups: list[tuple[str, ...]]
    bounds: Ints
    """First and last cell, exclusive, that may be of each group."""
    group_of: Ints
    """The group of each unit; -1 for those that do not occur."""
    at_of: Ints
    """The profile of each unit."""
    stride: int
    """Units of a profile: one per phase, or 1 where a unit is a whole profile."""
    fact_of: Ints
    """A number of each profile: those in the same groups, whatever the phase, share it."""
    sums: pl.DataFrame
    """`SUMS` by `group` and `code`."""
    durations: pl.DataFrame
    """Calls by `group`, `code` and `value`, of the parts that were selected as a whole."""
    limits: pl.DataFrame
    split: list[SplitPart]
    """Parts with other profiles than selected, or in several groups."""


def read_cells(
    selection: Selection,
    kind: KeyKind,
    group_by: Sequence[str],
    parts: SelectedParts,
    overall: OverallSums | None = None,
) -> Cells:
    """What all parts say about the selected profiles.

    With `overall`, where all runs count the same and are one group, sums of whole parts are added
    there in place of their cells.
    """
    return _Reader(selection, kind, group_by).read(parts, overall)


def _facts(profiles: pl.DataFrame, names: list[str]) -> tuple[list[tuple[str, ...]], Ints]:
    """Distinct facts, in the order of the first profile with each, and the place of each one's."""
    if not names:
        return [()], np.zeros(profiles.height, np.int64)
    facts = pl.DataFrame([fact(profiles, name).alias(str(at)) for at, name in enumerate(names)])
    distinct = facts.unique(maintain_order=True)
    numbered = distinct.with_row_index("place")
    places = facts.join(numbered, on=facts.columns, maintain_order="left")
    return distinct.rows(), places["place"].cast(pl.Int64).to_numpy()


class _Reader:
    """Goes through the parts once."""

    def __init__(self, selection: Selection, kind: KeyKind, group_by: Sequence[str]) -> None:
        self.selection, self.kind = selection, kind
        self.facts = [name for name in group_by if name != PHASE]
        self.by_phase = PHASE in group_by
        self.stride = 1
        self.group_by = list(group_by)
        self.phases: dict[str, int] = {}
        self.codes: dict[tuple[str | None, ...], int] = {}
        self.columns: dict[str, list[npt.NDArray[Any]]] = {}
        self.sums: list[pl.DataFrame] = []
        self.counted: dict[str, list[pl.DataFrame]] = {"durations": [], "limits": []}
        self.split: list[SplitPart] = []
        profiles = selection.profiles
        self.texts, self.fact_of = _facts(profiles, self.facts)
        """Distinct facts that rows are grouped by, and their number for each profile."""
        self.run_of, self.ranks = selection.run_of, selection.ranks
        self.pool_of = pools_of(profiles["id"]).to_numpy().astype(np.int64)[self.run_of]

    def read(self, parts: SelectedParts, overall: OverallSums | None) -> Cells:
        if self.by_phase:
            for some in parts:
                self._phase(some.part.phases)
            self.stride = max(1, len(self.phases))
        sums = overall or OverallSums(with_pools=True)
        whole = overall is not None and overall.hold(int((parts.time_ns > 0).sum()))
        for some in parts:
            code = self._code(some.part.names)
            if whole and some.is_whole and self._count_as_stored(some):
                sums.take(some.part, code, len(self.codes))
                self._take_sums(some.part.overall, code)
            else:
                self._take_part(some, code)
            self._take_counts(some, code)
        sums.resize(len(self.codes))
        units = self._joined("units", np.uint32)
        profiles = self.selection.profiles
        if self.by_phase or self.selection.phase is not None:
            totals = np.zeros(profiles.height * self.stride, np.int64)
            np.add.at(totals, units, self._joined("time_ns", np.int64))
            there = np.unique(units).astype(np.int64)
        else:
            totals, there = parts.time_ns, np.flatnonzero(parts.has_rows)
        groups, group_of = self._groups(there)
        bounds = self._sort_by_group(group_of, units, len(groups))
        return Cells(
            units=self._joined("units", np.uint32),
            codes=self._joined("codes", np.uint32),
            time_ns=self._joined("time_ns", np.int64),
            recoverable_ns=self._joined("recoverable_ns", np.int64),
            overall=sums,
            totals=totals,
            run_of=self.run_of,
            pool_of=self.pool_of,
            names=pl.DataFrame(
                list(self.codes),
                schema=dict.fromkeys(names_of(self.kind), pl.String()),
                orient="row",
            ),
            groups=groups,
            bounds=bounds,
            group_of=group_of,
            at_of=np.arange(totals.size) // self.stride,
            stride=self.stride,
            fact_of=self.fact_of,
            sums=self._sums(group_of),
            durations=self._counts("durations", group_of),
            limits=self._counts("limits", group_of),
            split=self.split,
        )

    def _count_as_stored(self, some: SelectedPart) -> bool:
        """Whether runs have the ranks in the selection that they had when the part was made."""
        counted = some.part.counted
        ranks, pool = (counted[name].to_numpy() for name in ("ranks", "pool"))
        return bool((self.ranks[some.at] == ranks).all() and (self.pool_of[some.at] == pool).all())

    def _sort_by_group(self, group_of: Ints, units: npt.NDArray[Any], groups: int) -> Ints:
        """Bring cells into the order of their groups; returns where each group begins and ends."""
        if groups <= 1 or groups >= 1 << 16:
            return np.tile(np.array([0, units.size]), (groups, 1))
        group = group_of[units].astype(np.uint16)  # Few bits: sorted by counting.
        order = np.argsort(group, kind="stable")
        for name in self.columns:
            self.columns[name] = [self._joined(name, np.int64)[order]]
        ends = np.cumsum(np.bincount(group, minlength=groups))
        return np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)

    def _joined(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        pieces = self.columns.get(name, [])
        if len(pieces) > 1:
            self.columns[name] = pieces = [np.concatenate(pieces)]
        return pieces[0] if pieces else np.zeros(0, dtype)

    def _take_sums(self, overall: pl.DataFrame, code: Ints) -> None:
        """Add sums over all profiles of one part."""
        self.sums.append(
            overall.select(
                pl.lit(0, pl.Int64).alias("mixed"),
                pl.Series("code", code[overall["name"].to_numpy()]),
                *(*SUMS, "bounded", "profiles"),
            )
        )

    def _take_part(self, some: SelectedPart, code: Ints) -> None:
        """Add the selected profiles and phases of one part."""
        cells = some.part.cells(some.at)
        phase = self._phase(some.part.phases)
        at_cell = some.at[cells["entry"].to_numpy()]
        phase_cell = phase[cells["phase"].to_numpy()]
        chosen = (at_cell >= 0) & (phase_cell >= 0)
        if self.selection.phase is not None or not chosen.all():
            cells, at_cell, phase_cell = cells.filter(chosen), at_cell[chosen], phase_cell[chosen]
        units = at_cell * self.stride + phase_cell if self.by_phase else at_cell
        self._take_cells(cells, units, code[cells["name"].to_numpy()])

    def _take_counts(self, some: SelectedPart, code: Ints) -> None:
        """Add how many calls took how long, or the profiles whose rows must be read for it."""
        part, phase = some.part, self._phase(some.part.phases)
        if (some.at >= 0).all() and not self.facts:
            for name, frames in self.counted.items():
                frames.append(self._renumbered(getattr(part, name), code, phase))
        else:
            self.split.append(SplitPart(part, some.at, code, phase))

    def _take_cells(self, cells: pl.DataFrame, units: Ints, codes: Ints) -> None:
        if not cells.height:
            return
        new = first_of(units, codes)
        sums = {name: cells[name].to_numpy() for name in (*SUMS, "bounded")}
        if new.size < units.size:
            sums = {
                name: np.add.reduceat(values.astype(np.int64, copy=False), new)
                for name, values in sums.items()
            }
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
            {"mixed": self._mixed(units), "code": codes, **sums} | {"profiles": occurs}
        ).cast({"bounded": pl.Int64})
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
        distinct, number = np.unique(self._mixed(there), return_inverse=True)
        group_of = np.full(self.fact_of.size * self.stride, -1, np.int64)
        group_of[there] = number
        facts = self.texts
        phases = list(self.phases)
        groups = []
        for mixed in distinct.tolist():
            texts = iter(facts[mixed // self.stride])
            phase = phases[mixed % self.stride] if self.by_phase else ""
            groups.append(tuple(phase if name == PHASE else next(texts) for name in self.group_by))
        return groups, group_of

    def _sums(self, group_of: Ints) -> pl.DataFrame:
        if not self.sums:
            return pl.DataFrame(schema=dict.fromkeys(("group", "code", "time_ns"), pl.Int64()))
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
