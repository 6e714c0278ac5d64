"""One recording: is it steady, and if not, what sets its slow part apart?

No other run is needed: the slow steps of a run are compared with its other steps, or the slower end
with the beginning, as two runs would be.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import numpy as np

from solscope.attribution import Attributed
from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.changes.alternation import Bools
from solscope.diagnose.changes.core_wait import lacks_core_pct
from solscope.diagnose.changes.decompose import Component
from solscope.diagnose.changes.steadiness import Drift, Movement, movement
from solscope.diagnose.compared import RunSummary, interruptions, summary_of
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.parts import Parts, compare_parts, in_one_state
from solscope.diagnose.matching.units import Side, fit_steps
from solscope.diagnose.observe import observe
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.diagnose.verdict import undecided
from solscope.diagnose.verdict.figures import steps_text
from solscope.diagnose.verdict.naming import no_surer
from solscope.diagnose.verdict.outliers import for_single_steps
from solscope.diagnose.verdict.ranking import Excluded, NamedCause, Ranking, rank
from solscope.diagnose.verdict.wording import PLACES, told, why
from solscope.intervals import Int64s
from solscope.readers.packed import Observations
from solscope.resample import Floats
from solscope.text import as_percent
from solscope.views.verdict import Figure

AROUND = 4
"""Steps of the most frequent kind that a step of another kind is compared with."""
RARE = 0.25
"""Share of the steps below which a kind of step is rare."""

AT_LEAST_SLOW = 2
"""Slow steps that can have something in common."""

Steadiness = Literal["steady", "drift", "change_point", "bursty", "periodic", "cannot_tell"]


class ChangePoint(msgspec.Struct, frozen=True):
    """A step at which the step time changes."""

    step: int
    """Number of the first step after it, as in the profile."""
    before_ms: float
    """Typical step of the most frequent phase, from the change point before."""
    after_ms: float
    ratio: float
    p: float
    """Pettitt's test, by permutation of blocks of steps."""


class SlowStepsOfRun(msgspec.Struct, frozen=True):
    """Steps that take much longer than the typical step of their phase and part of the run."""

    steps: int
    of_steps: int
    numbers: list[int]
    """Numbers of the slow steps, as in the profile."""
    share_of_time_pct: float
    """Their time beyond the typical step, of all time."""
    every: int | None
    """Steps from one slow step to the next, where that is regular; else null."""
    p: float | None
    """How often steps placed at random are as regular; null when they are not regular."""


class SingleDiagnosis(msgspec.Struct, frozen=True):
    """What one recording shows of itself."""

    verdict: Annotated[
        Steadiness, msgspec.Meta(description="How steady the steps of this one recording are.")
    ]
    sentence: str
    figures: list[Figure]
    """Of the sentence: at most three."""
    core_wait_pct: float | None
    """Share of the recording in which the main thread was ready to run and had no core; null where
    that was not sampled, or does not explain most of the GPU's waiting for the host."""
    run: RunSummary
    drift: Drift | None
    change_points: list[ChangePoint]
    outliers: SlowStepsOfRun | None
    compared: list[int]
    """Steps of the usual and of the slow part, which causes and components are about; where a run
    is uneven without a pattern, of its faster and its slower half."""
    delta_ms: float | None
    """Mean step of the slow part minus that of the usual one; the components sum to it."""
    components: list[Component]
    causes: list[NamedCause]
    missing_evidence: list[str]
    """What is not known, and would tell the causes apart."""
    excluded: list[Excluded]
    warnings: list[str]
    next_step: str


@dataclass(frozen=True)
class _Seen:
    """A run, and how it moves."""

    run: Observations
    side: Side
    rows: Int64s
    """Indices of the fit steps and of those that the profiler interrupted, in order."""
    unseen: Bools
    """Which of `rows` the profiler interrupted: only their place counts."""
    times: Floats
    """Times of `rows` as multiples of the typical step of their phase."""
    movement: Movement
    lacking_pct: float | None
    """As `core_wait_pct`."""


def diagnose_run(
    recorded: Attributed | Observations, limits: Thresholds = THRESHOLDS, path: str | None = None
) -> SingleDiagnosis:
    """Say whether the steps of a run take equally long, and why if they do not.

    `path` is where the recording is, for the commands that the answer names.
    """
    run = recorded if isinstance(recorded, Observations) else observe(recorded)
    if not isinstance(recorded, Observations):
        path = path or recorded.profile.path
    side = _timed(run, limits)
    if side.fit.size < limits.tail_steps:
        return _too_short(side, limits)
    seen = _seen(side, limits)
    verdict = _verdict(seen, limits)
    if verdict == "steady" and _few_slow(seen.movement, limits):
        return _alike(seen, limits, path)
    if verdict == "steady":
        return _steady(seen, path)
    if verdict == "cannot_tell":
        return _undecided(seen, limits, path)
    findings, ranking = _explained(seen, verdict, limits)
    return _diagnosis(seen, verdict, findings, ranking)


def _undecided(seen: _Seen, limits: Thresholds, path: str | None) -> SingleDiagnosis:
    """Steps that differ without a pattern: where the time goes, and no cause."""
    parts = undecided.halves(seen.rows[~seen.unseen], seen.times[~seen.unseen])
    units = compare_parts(seen.run, parts, sensors=False, limits=limits)
    findings = None if units is None else find(units, limits)
    found = _diagnosis(seen, "cannot_tell", findings, None)
    lacks_core = seen.lacking_pct is not None
    return msgspec.structs.replace(
        found, next_step=undecided.next_step(seen.run, findings, path, lacks_core=lacks_core)
    )


def _few_slow(moves: Movement, limits: Thresholds) -> bool:
    """Whether slow steps cost enough to matter, and too little without the slowest of them."""
    return moves.slow.size >= AT_LEAST_SLOW and moves.slow_share >= limits.min_effect


def _steady(seen: _Seen, path: str | None) -> SingleDiagnosis:
    """Steps alike; a host without a core can be as steady as any."""
    found = _diagnosis(seen, "steady", None, None)
    if seen.lacking_pct is None:
        return msgspec.structs.replace(found, next_step=undecided.not_judged(seen.run, path))
    return msgspec.structs.replace(
        found, next_step=undecided.next_step(seen.run, None, path, lacks_core=True)
    )


def _alike(seen: _Seen, limits: Thresholds, path: str | None) -> SingleDiagnosis:
    """A few slow steps: a pattern if one known cause explains them, else accidents."""
    pattern: Steadiness = "bursty" if seen.movement.spacing is None else "periodic"
    slow = seen.rows[seen.movement.slow]
    if in_one_state(seen.run, np.setdiff1d(seen.side.fit, slow), slow):
        findings, ranking = _explained(seen, pattern, limits)
        if ranking is not None and ranking.causes[0].id != UNKNOWN:
            return _diagnosis(seen, pattern, findings, ranking)
    return _steady(seen, path)


def _explained(
    seen: _Seen, verdict: Steadiness, limits: Thresholds
) -> tuple[Findings | None, Ranking | None]:
    """The slow part compared with the usual one, and the causes of the difference."""
    run, slow = seen.run, seen.movement.slow
    # Sensors are too sparse for single steps.
    stretches = slow.size / max(1, _stretches(slow))
    sensors = verdict in ("drift", "change_point") or stretches >= limits.level_steps
    units = compare_parts(run, _parts(seen, verdict), sensors=sensors, limits=limits)
    findings = None if units is None else find(units, limits)
    ranking = None if findings is None else rank(findings)
    if ranking is not None and not sensors and run.counters:
        ranking = for_single_steps(ranking)
    if ranking is not None:
        ranking = replace(ranking, causes=no_surer(ranking.causes, limits))
    return findings, ranking


def _seen(side: Side, limits: Thresholds) -> _Seen:
    placed = Side(side.run, np.union1d(side.fit, side.interrupted), side.dropped)
    unseen: Bools = np.isin(placed.fit, side.interrupted)
    times = relative_times(placed, limits)
    moves = movement(times, limits, rare_steps(placed, limits), unseen)
    lacking = lacks_core_pct(side.run, side.fit, limits)
    return _Seen(side.run, side, placed.fit, unseen, times, moves, lacking)


def _stretches(slow: Int64s) -> int:
    """How many stretches of consecutive steps the slow ones are."""
    return int(slow.size > 0) + int(np.count_nonzero(np.diff(slow) > 1))


def looked_at(run: Observations, limits: Thresholds = THRESHOLDS) -> Int64s:
    """Indices of the steps whose times count, in order."""
    return _timed(run, limits).fit


def whole_steps_ms(run: Observations, limits: Thresholds = THRESHOLDS) -> list[float]:
    """Times of the steps that are looked at, in order."""
    return [run.steps[row].wall_ns / 1e6 for row in looked_at(run, limits).tolist()]


def _timed(run: Observations, limits: Thresholds) -> Side:
    """The fit steps of a run that take any time: the others have no ratio to a typical one."""
    side = fit_steps(run, limits)
    timed = side.wall[side.fit] > 0
    interrupted = side.interrupted[side.wall[side.interrupted] > 0]
    if timed.all():
        return side
    dropped = {**side.dropped, "no time between its start and the next": int((~timed).sum())}
    return Side(run, side.fit[timed], dropped, interrupted, side.profiled)


def relative_times(side: Side, limits: Thresholds) -> Floats:
    """Times of fit steps over the typical step of their kind."""
    walls = side.wall[side.fit]
    kinds = _kinds(side, limits)
    main = kinds == 0
    out: Floats = walls / max(1.0, float(np.median(walls[main])))
    places = np.flatnonzero(main)
    for kind in range(1, int(kinds.max(initial=0)) + 1):
        # Against the steps around them: the run may have become slower between two of this kind.
        alike = np.flatnonzero(kinds == kind)
        around = np.abs(alike[:, None] - places[None, :]).argsort(axis=1, kind="stable")[:, :AROUND]
        out[alike] /= max(
            1e-9, float(np.median(out[alike] / np.median(out[places[around]], axis=1)))
        )
    return out


def _kinds(side: Side, limits: Thresholds) -> Int64s:
    """Numbers of the kinds of steps (phase, and batch where it has enough), 0 the most frequent."""
    steps = [side.run.steps[row] for row in side.fit.tolist()]
    phases = Counter(step.phase for step in steps)
    batches = Counter((step.phase, step.requests) for step in steps)
    enough = {key for key, n in batches.items() if limits.min_steps <= n < phases[key[0]]}
    kinds = [
        (step.phase, step.requests if (step.phase, step.requests) in enough else None)
        for step in steps
    ]
    order = {kind: n for n, (kind, _) in enumerate(Counter(kinds).most_common())}
    return np.array([order[kind] for kind in kinds], dtype=np.int64)


def rare_steps(side: Side, limits: Thresholds) -> Bools:
    """Fit steps whose kind is seldom."""
    kinds = _kinds(side, limits)
    seldom: Bools = np.bincount(kinds)[kinds] < RARE * kinds.size
    return seldom


def _verdict(seen: _Seen, limits: Thresholds) -> Steadiness:
    """What costs most of the time; nothing is steady that differs by much and fits no pattern."""
    moves, total = seen.movement, float(seen.times[~seen.unseen].sum())
    costs: dict[Steadiness, float] = {"steady": limits.min_effect}
    if moves.changes:
        least = min(level.typical for level in moves.levels)
        costs["change_point"] = (
            sum(level.size * (level.typical - least) for level in moves.levels) / total
        )
    if moves.slope is not None:
        costs["drift"] = abs(float(np.log(moves.slope.ratio))) / 2
    if moves.rest_share >= limits.min_effect:
        costs["bursty" if moves.spacing is None else "periodic"] = moves.slow_share
    most = max(costs, key=lambda name: costs[name])
    return "cannot_tell" if most == "steady" and moves.uneven else most


def _parts(seen: _Seen, verdict: Steadiness) -> Parts:
    """The usual and the slow part of the run, by indices of steps."""
    usual, slower = _split(seen, verdict)
    whole = seen.side.fit
    return Parts(usual[np.isin(usual, whole)], slower[np.isin(slower, whole)])


def _split(seen: _Seen, verdict: Steadiness) -> tuple[Int64s, Int64s]:
    rows, moves = seen.rows, seen.movement
    if verdict in ("bursty", "periodic"):
        return np.delete(rows, moves.slow), rows[moves.slow]
    if verdict == "drift":
        third = rows.size // 3
        first, last = rows[:third], rows[-third:]
        rises = moves.slope is not None and moves.slope.ratio > 1
        return (first, last) if rises else (last, first)
    largest = max(moves.changes, key=lambda change: abs(np.log(change.ratio)))
    edges = [0, *(change.start for change in moves.changes), rows.size]
    edge = edges.index(largest.start)
    before, after = rows[edges[edge - 1] : largest.start], rows[largest.start : edges[edge + 1]]
    return (before, after) if largest.ratio > 1 else (after, before)


# --- The answer


def _diagnosis(
    seen: _Seen, verdict: Steadiness, findings: Findings | None, ranking: Ranking | None
) -> SingleDiagnosis:
    causes = [] if ranking is None else ranking.causes
    summary = _summary(seen.side)
    compared = []
    if findings is not None:
        compared = [findings.units.normal.fit.size, findings.units.abnormal.fit.size]
    return SingleDiagnosis(
        verdict=verdict,
        sentence=_sentence(seen, verdict, findings, causes),
        figures=_figures(seen, verdict, findings),
        core_wait_pct=seen.lacking_pct,
        run=summary,
        drift=seen.movement.slope,
        change_points=_change_points(seen),
        outliers=_outliers(seen),
        compared=compared,
        delta_ms=None if findings is None else findings.delta_ms,
        components=[] if findings is None else findings.parts.components,
        causes=causes,
        missing_evidence=[] if ranking is None else ranking.missing,
        excluded=[] if ranking is None else ranking.excluded,
        warnings=[
            *interruptions(seen.side),
            *seen.run.run.warnings,
            *([] if ranking is None else ranking.failed),
        ],
        next_step=causes[0].confirm if causes else "",
    )


def _too_short(side: Side, limits: Thresholds) -> SingleDiagnosis:
    size = int(side.fit.size + side.interrupted.size)
    return SingleDiagnosis(
        verdict="cannot_tell",
        sentence=f"Cannot tell: the recording has {size} whole steps; at least "
        f"{limits.tail_steps} are needed.",
        figures=[],
        core_wait_pct=None,
        run=_summary(side),
        drift=None,
        change_points=[],
        outliers=None,
        compared=[],
        delta_ms=None,
        components=[],
        causes=[],
        missing_evidence=[],
        excluded=[],
        warnings=[*interruptions(side), *side.run.run.warnings],
        next_step=f"record at least {limits.tail_steps + 2} steps; a hundred show a p99",
    )


def _summary(side: Side) -> RunSummary:
    walls = side.wall[side.fit] / 1e6
    return summary_of(side, side.fit, float(walls.mean()) if walls.size else None)


def _change_points(seen: _Seen) -> list[ChangePoint]:
    phases = [seen.run.steps[row].phase for row in seen.rows.tolist()]
    main = max(set(phases), key=phases.count)
    of_main = np.array([phase == main for phase in phases]) & ~seen.unseen
    walls = seen.side.wall[seen.rows] / 1e6
    edges = [0, *(change.start for change in seen.movement.changes), walls.size]

    def typical(start: int, end: int) -> float:
        chosen = of_main[start:end]
        level = walls[start:end]
        return float(np.median(level[chosen] if chosen.any() else level))

    return [
        ChangePoint(
            step=seen.run.steps[int(seen.rows[change.start])].number,
            before_ms=typical(edges[n], change.start),
            after_ms=typical(change.start, edges[n + 2]),
            ratio=change.ratio,
            p=change.p,
        )
        for n, change in enumerate(seen.movement.changes)
    ]


def _outliers(seen: _Seen) -> SlowStepsOfRun | None:
    slow: Int64s = seen.movement.slow
    if not slow.size:
        return None
    spacing = seen.movement.spacing
    return SlowStepsOfRun(
        steps=int(slow.size),
        of_steps=int(seen.side.fit.size),
        numbers=[seen.run.steps[int(row)].number for row in seen.rows[slow]],
        share_of_time_pct=100 * seen.movement.slow_share,
        every=None if spacing is None else spacing.steps,
        p=None if spacing is None else spacing.p,
    )


def _sentence(
    seen: _Seen, verdict: Steadiness, findings: Findings | None, causes: list[NamedCause]
) -> str:
    if verdict == "steady":
        return undecided.with_core(seen.lacking_pct, "Steady", _alike_text(seen))
    if verdict == "cannot_tell":
        return undecided.with_core(seen.lacking_pct, "Cannot tell", _uneven_text(seen, findings))
    what, facts = _movement_text(seen, verdict)
    if findings is None:
        return f"{what}: {facts}."
    return told(what, f"{facts}{_where(findings)}", why(findings, causes))


def _alike_text(seen: _Seen) -> str:
    """That no pattern was found, and which steps are slow nevertheless."""
    moves, size = seen.movement, seen.side.fit.size
    few = ""
    if moves.slow.size:
        are = "is" if moves.slow.size == 1 else "are"
        share = as_percent(moves.slow_share)
        few = f"; {moves.slow.size} of {size} steps {are} slow, {share} of the time"
    return f"no drift, change point or period in {size} steps{few}"


def _uneven_text(seen: _Seen, findings: Findings | None) -> str:
    """How much steps differ, and where the slower ones spend the time."""
    low, high = _quantiles(seen, 0.1, 0.9)
    return (
        f"step times vary widely ({low:.2f} to {high:.2f} ms, p10 to p90 of {_steps_text(seen)})"
        f"{undecided.where(findings)}; no drift, change point or period explains it"
    )


def _movement_text(seen: _Seen, verdict: Steadiness) -> tuple[str, str]:
    """What kind of change, and what was measured of it."""
    moves, size = seen.movement, seen.side.fit.size
    slow = f"{moves.slow.size} of {size} steps"
    share = as_percent(moves.slow_share)
    if verdict == "drift" and moves.slope is not None:
        slope = moves.slope
        times = f"×{slope.ratio:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
        return "Drift", f"over {size} steps, step time goes to {times}"
    if verdict == "change_point":
        points = _change_points(seen)
        worst = max(points, key=lambda point: abs(np.log(point.ratio)))
        more = f" (the largest of {len(points)} change points)" if len(points) > 1 else ""
        return f"Change at step {worst.step}", (
            f"the typical step takes ×{worst.ratio:.2f} from there on, {worst.before_ms:.2f} → "
            f"{worst.after_ms:.2f} ms{more}"
        )
    if verdict == "periodic" and moves.spacing is not None:
        what = "a slow step" if _stretches(moves.slow) == moves.slow.size else "slow steps"
        return "Periodic", f"{what} every {moves.spacing.steps} steps, {slow}, {share} of the time"
    stretches = _stretches(moves.slow)
    together = f" in {stretches} stretches" if 1 < stretches < moves.slow.size else ""
    return "Bursty", f"{slow} are slow{together}, {share} of the time"


def _quantiles(seen: _Seen, *quantiles: float) -> list[float]:
    """Of the times of steps that are looked at, ms."""
    walls = seen.side.wall[seen.side.fit] / 1e6
    return [float(value) for value in np.quantile(walls, quantiles)]


def _steps_text(seen: _Seen) -> str:
    return steps_text([seen.run.steps[row].phase for row in seen.side.fit.tolist()])


def _figures(seen: _Seen, verdict: Steadiness, f: Findings | None) -> list[Figure]:
    """What the sentence says of step times."""
    steps = f"of {_steps_text(seen)}"
    low, middle, high = _quantiles(seen, 0.1, 0.5, 0.9)
    if verdict == "change_point":
        worst = max(_change_points(seen), key=lambda point: abs(np.log(point.ratio)))
        return [
            Figure("typical step before", worst.before_ms, "ms", f"up to step {worst.step}"),
            Figure("typical step after", worst.after_ms, "ms", f"from step {worst.step} on"),
            Figure("times as long", worst.ratio, "×", "of the typical step"),
        ]
    figures = [Figure("median step", middle, "ms", steps)]
    if verdict == "drift" and seen.movement.slope is not None:
        ratio = seen.movement.slope.ratio
        return [*figures, Figure("times as long", ratio, "×", "the last step as the first")]
    if verdict in ("steady", "cannot_tell"):
        figures = [
            Figure("fast step (p10)", low, "ms", steps),
            Figure("slow step (p90)", high, "ms", steps),
        ]
    if verdict in ("steady", "cannot_tell") and seen.lacking_pct is not None:
        return [
            *figures,
            Figure("ready to run, no core", seen.lacking_pct, "%", "of the recording"),
        ]
    if f is not None and f.delta_ms > 0:
        slow = "slower half adds" if verdict == "cannot_tell" else "a slow step adds"
        sizes = (f.units.abnormal.fit.size, f.units.normal.fit.size)
        scope = f"per step, mean of {sizes[0]} against {sizes[1]}"
        figures.append(Figure(slow, f.delta_ms, "ms", scope))
    if verdict in ("bursty", "periodic"):
        share = 100 * seen.movement.slow_share
        figures.append(Figure("lost in slow steps", share, "%", "of the time of all steps"))
    return figures


def _where(f: Findings) -> str:
    """The family that holds most of what the slow part takes longer."""
    if f.delta_ms <= 0:
        return ""
    family = max(PLACES, key=f.share)
    return f"; {as_percent(min(f.share(family), 1.0))} of what slow steps add is {PLACES[family]}"
