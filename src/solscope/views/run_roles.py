"""Time of a run by role: computing and communication apart, mean and spread over ranks.

Figures are per step of a phase, over the steps that `ranks` counts: the first one of every rank and
cut ones are left out. Communication is split into transfer and waiting where its calls are matched
with those of other ranks. For each rank,

    roles - overlapped + held + host = step

exactly: *overlapped* ran at the same time as something else, *held* is time in which nothing runs
although work is launched, *host* time in which nothing is launched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from solscope.attribution.role_names import GROUPS, ROLES
from solscope.attribution.usual_steps import LeftOut, StepBasis
from solscope.ranks.analysis import Analysis
from solscope.ranks.lengths import step_lengths
from solscope.run import RoleKey, call_role, work_role

KEY = ("layer_kind", "part", "role", "communication")


class Spread(msgspec.Struct, frozen=True):
    """A value over the ranks of a run."""

    mean: float
    least: float
    most: float
    least_rank: int
    most_rank: int


def spread(values: dict[int, float]) -> Spread | None:
    """Mean and extremes of values by rank."""
    if not values:
        return None
    least, most = (pick(values, key=lambda rank: values[rank]) for pick in (min, max))
    mean = float(np.mean(list(values.values())))
    return Spread(mean, values[least], values[most], least, most)


@dataclass(frozen=True)
class PhaseOfRun:
    """The counted steps of one phase of a run."""

    analysis: Analysis
    phase: str | None

    @cached_property
    def steps(self) -> list[pl.DataFrame]:
        """Its steps, by rank."""
        wanted = pl.col("phase").eq_missing(pl.lit(self.phase))
        count = len(self.analysis.run.ranks)
        return [self.analysis.rank_steps(place).filter(wanted) for place in range(count)]

    @cached_property
    def places(self) -> list[int]:
        """Positions of ranks that have such steps."""
        return [place for place, steps in enumerate(self.steps) if steps.height]

    def number(self, place: int) -> int:
        """The rank at a position."""
        return self.analysis.run.ranks[place].rank

    def per_step_us(self, place: int, total_ns: float) -> float:
        """A sum over the steps of a rank, as a mean per step."""
        return total_ns / self.steps[place].height / 1e3

    def over_ranks(self, column: str) -> Spread | None:
        """A column of the steps, us per step."""
        return spread(
            {
                self.number(place): self.per_step_us(place, int(self.steps[place][column].sum()))
                for place in self.places
            }
        )

    @cached_property
    def step_us(self) -> Spread | None:
        """Length of a step, to the start of the next."""
        values = {}
        for place in self.places:
            lengths = step_lengths(self.analysis.run.ranks[place].steps)
            total = sum(lengths[step] for step in self.steps[place]["step"].to_list())
            values[self.number(place)] = self.per_step_us(place, total)
        return spread(values)

    @cached_property
    def roles(self) -> list[pl.DataFrame]:
        """By rank: `KEY`, `total_ns`, `wait_ns` and `calls` of all steps."""
        return [self._roles(place) for place in range(len(self.steps))]

    def _roles(self, place: int) -> pl.DataFrame:
        rank = self.analysis.run.ranks[place]
        inside = pl.col("step").is_in(self.steps[place]["step"].to_list())
        sums = (
            pl.col("total_ns").sum(),
            pl.col("wait_ns").sum(),
            pl.col("calls").sum().cast(pl.Int64),
        )
        work = rank.work.filter(inside).with_columns(
            work_role(), communication=pl.lit(value=False), wait_ns=pl.lit(0.0)
        )
        calls = rank.calls.with_columns(_waits(self.analysis, place)).filter(inside)
        calls = calls.with_columns(
            call_role(),
            communication=pl.lit(value=True),
            total_ns=pl.col("end_ns") - pl.col("start_ns"),
            calls=pl.lit(1, pl.Int64),
        )
        columns = (*KEY, "total_ns", "wait_ns", "calls")
        both = pl.concat([work.select(columns), calls.select(columns)])
        return both.group_by(*KEY, maintain_order=True).agg(sums)

    def overlapped(self) -> Spread | None:
        """What roles take beyond the time in which something runs, us per step."""
        values = {}
        for place in self.places:
            steps = self.steps[place]
            compute, comm, both = (
                int(steps[f"{name}_ns"].sum()) for name in ("compute", "comm", "overlap")
            )
            beyond = int(self.roles[place]["total_ns"].sum()) - (compute + comm - both)
            values[self.number(place)] = self.per_step_us(place, beyond)
        return spread(values)


def _waits(analysis: Analysis, place: int) -> pl.Series:
    """Waiting of each call of a rank, ns; 0 where it is matched with none."""
    waits = np.zeros(analysis.run.ranks[place].calls.height)
    mine = analysis.matched.index[:, place]
    has_call = mine >= 0
    waits[mine[has_call]] = np.nan_to_num(analysis.split.wait[has_call, place])
    return pl.Series("wait_ns", waits)


def phases(analysis: Analysis) -> list[str | None]:
    """Phases of the counted steps, the one with most time first."""
    time: dict[str | None, float] = {}
    for rank in range(len(analysis.run.ranks)):
        for phase, ns in (
            analysis.rank_steps(rank)
            .group_by("phase")
            .agg((pl.col("end_ns") - pl.col("start_ns")).sum())
            .iter_rows()
        ):
            time[phase] = time.get(phase, 0.0) + ns
    return sorted(time, key=lambda phase: (-time[phase], phase or ""))


def step_phases(analysis: Analysis) -> dict[int, str | None]:
    """The phase of each counted step of the run: the one that most ranks have in it.

    With data parallelism, one rank may be at a prompt while the others decode.
    """
    own = [analysis.rank_steps(place) for place in range(len(analysis.run.ranks))]
    by_step = _phases_by_step(analysis, own)
    return {int(step): by_step.get(int(step)) for step in analysis.steps}


def _phases_by_step(analysis: Analysis, steps: Sequence[pl.DataFrame]) -> dict[int, str | None]:
    """The phase that most ranks have in each of these steps, numbered as the run does."""
    counts: dict[int, Counter[str | None]] = {}
    for of_rank, shift in zip(steps, analysis.shifts, strict=True):
        for step, phase in of_rank.select("step", "phase").iter_rows():
            counts.setdefault(step + shift, Counter())[phase] += 1
    return {step: phases.most_common(1)[0][0] for step, phases in counts.items()}


def run_basis(analysis: Analysis, phase: str | None, step_ms: float) -> StepBasis:
    """The counted steps of a phase of a run, and which ones were left out."""
    every = _phases_by_step(analysis, [rank.steps for rank in analysis.run.ranks])
    counted = [step for step, its_phase in step_phases(analysis).items() if its_phase == phase]
    firsts = {
        int(rank.steps["step"].to_numpy().min()) + shift
        for rank, shift in zip(analysis.run.ranks, analysis.shifts, strict=True)
        if not rank.steps.is_empty()
    }
    of_run = {int(step) for step in analysis.steps}
    others = [
        step for step, its_phase in every.items() if its_phase == phase and step not in of_run
    ]
    first = sum(step in firsts for step in others)
    return StepBasis(
        phase=phase,
        steps=len(counted),
        of=len(counted) + len(others),
        step_ms=step_ms,
        measured="start_to_start" if counted else "recording",
        left_out=LeftOut(cut=len(others) - first, first=first),
        outlier_ms=None,
    )


def keys(sides: Sequence[PhaseOfRun]) -> list[RoleKey]:
    """Roles of all sides in the order in which they run, what is outside of layers last.

    A role is as far into its layer as on average over all ranks that have it.
    """
    distinct = {
        key for side in sides for table in side.roles for key in table.select(KEY).iter_rows()
    }
    groups, roles = [*GROUPS, "prologue", "epilogue"], list(ROLES)
    ranks = [rank.positions for side in sides for rank in side.analysis.run.ranks]

    def place(key: RoleKey) -> tuple[object, ...]:
        kind, section, role, communication = key
        first = role.split(":")[0]
        far = [positions[key] for positions in ranks if key in positions]
        return (
            kind is None,
            kind or "",
            groups.index(section) if section in groups else len(groups),
            sum(far) / len(far) if far else 1.0,
            roles.index(first) if first in roles else len(roles),
            communication,
            role,
        )

    return sorted(distinct, key=place)


def times(side: PhaseOfRun, key: RoleKey, column: str = "total_ns") -> dict[int, float]:
    """Time of one role by rank, us per step; 0 on ranks that do not have it."""
    kind, section, role, communication = key
    wanted = (
        pl.col("layer_kind").eq_missing(pl.lit(kind))
        & pl.col("part").eq_missing(pl.lit(section))
        & (pl.col("role") == role)
        & (pl.col("communication") == communication)
    )
    by_place = {place: side.roles[place].filter(wanted)[column] for place in side.places}
    if all(column.is_empty() for column in by_place.values()):
        return {}
    return {
        side.number(place): side.per_step_us(place, float(v.sum())) for place, v in by_place.items()
    }
