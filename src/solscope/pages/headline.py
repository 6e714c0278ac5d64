"""What a page begins with: one sentence, up to three figures, and what to do next.

Profiles and diagnoses have a verdict of their own (`views/verdict.py`, `diagnose/verdict`). These
are the headlines of pages that show several things at once.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from solscope.bench.results import words
from solscope.bench.results.score import Score
from solscope.compare.profiles import Comparison, PhaseComparison
from solscope.corpus.queries.importance import Importance
from solscope.pages.severity import Severity
from solscope.text import as_percent
from solscope.views.hotspots.advice import late_rank
from solscope.views.ranks import RunRanks
from solscope.views.runs import Run
from solscope.views.verdict import Figure

SAME = 0.01
"""Step times that differ by less are called alike."""
FACTOR = 1.5
"""From this ratio on, how many times as long is said in place of percent."""


class Headline(msgspec.Struct, frozen=True):
    """The first thing to read on a page."""

    sentence: str
    figures: list[Figure]
    """At most three, in ms or %, about the same things as the sentence."""
    severity: Severity
    advice: str | None = None
    """What to do about it, in one sentence, with the command where one helps; null where nothing
    follows from what was measured."""
    legend: str | None = None
    """What the figures are means or shares of, and what the words of the sentence mean; null where
    their names say it."""


def of_comparison(comparison: Comparison) -> Headline:
    """The phase that makes a profile slower or faster than the first one, and where the time goes.

    It makes no claim about significance: that takes a diagnosis.
    """
    first = comparison.profiles[0]
    told = decisive(comparison)
    if told is None:
        return Headline(
            "The profiles have no steps that can be compared: totals of whole recordings are "
            "shown, whose work may differ. Compare shares, not speed.",
            [],
            "attention",
        )
    phase, profile_index = told
    label = comparison.profiles[profile_index].label
    before, after = _both_ms(phase, profile_index)
    if _alike(before, after):
        sentence = f"{label} takes {_ms(after)} per {_step_of(phase)}, within {as_percent(SAME)} of"
        return Headline(
            f"{sentence} {first.label} ({_ms(before)}).{_others_alike(comparison)}",
            _figures(first.label, before, label, after),
            "neutral",
        )
    sentence = (
        f"{_step_of(phase).capitalize()}s of {label} take {_longer(before, after)} "
        f"those of {first.label}: {_ms(after)} instead of {_ms(before)}"
        f"{_main_part(phase, label, after - before)}.{_other_phases(comparison, told)}"
    )
    paths = [first.path, comparison.profiles[profile_index].path]
    if after < before:
        paths.reverse()
    return Headline(
        sentence,
        _figures(first.label, before, label, after),
        "attention",
        f"See why they differ: `solscope diagnose {shlex.join(paths)}`",
    )


_PARTS = {
    "idle": "idle time of the GPU",
    "gap": "gaps between steps",
    "overlapped": "overlap of kernels",
}
"""Names of what is not work, in words."""


def _main_part(phase: PhaseComparison, label: str, diff_ms: float) -> str:
    """What most of a difference is, if it is one thing; else the largest part of it."""
    same_way = [
        difference
        for difference in phase.differences
        if difference.profile == label and difference.diff_ms * diff_ms > 0
    ]
    if not same_way:
        return ""
    main = max(same_way, key=lambda difference: abs(difference.diff_ms))
    name = _PARTS.get(main.name, main.name) if main.by == "time" else main.name
    much = "most of it" if 2 * abs(main.diff_ms) >= abs(diff_ms) else "the largest part"
    return f"; {much} is {name} ({main.diff_ms:+,.2f} ms)"


def _other_phases(comparison: Comparison, told: tuple[PhaseComparison, int]) -> str:
    """What became of the steps that the sentence is not about."""
    phase_told, profile_index = told
    sentences = []
    for phase in comparison.phases:
        before, after = _step_ms(phase, 0), _step_ms(phase, profile_index)
        if phase is phase_told or before is None or after is None:
            continue
        change = _longer(before, after).removesuffix(" as").removesuffix(" than")
        if _alike(before, after):
            change = f"as long, within {as_percent(SAME)}"
        sentences.append(f" {_step_of(phase).capitalize()}s take {change}.")
    return "".join(sentences)


def _others_alike(comparison: Comparison) -> str:
    """Where a sentence calls steps alike, the others that are compared are so too."""
    if len(_changes(comparison)) == 1:
        return ""
    return f" All other steps that can be compared are within {as_percent(SAME)} as well."


def _longer(before: float, after: float) -> str:
    """`4.2 times as long as`, `8 % longer than`, `24 % less time than`; `longer than` nothing."""
    if not before:
        return "longer than"
    if after >= FACTOR * before:
        return f"{after / before:.1f} times as long as"
    change = as_percent(abs(after - before) / before)
    return f"{change} {'longer' if after > before else 'less time'} than"


def _alike(before: float, after: float) -> bool:
    return abs(after - before) <= SAME * before


def _step_of(phase: PhaseComparison) -> str:
    return f"{phase.phase} step" if phase.phase else "step"


def _figures(first: str, before: float, other: str, after: float) -> list[Figure]:
    change = 100 * abs(after - before) / before if before else None
    name = "longer by" if after > before else "shorter by"
    if _alike(before, after):
        name = "difference"
    return [
        Figure(first, before, "ms"),
        Figure(other, after, "ms"),
        *([] if change is None else [Figure(name, change, "%")]),
    ]


def decisive(comparison: Comparison) -> tuple[PhaseComparison, int] | None:
    """The phase and the profile with the largest loss or gain of time, of those not alike.

    A phase counts by the share of its profile's time that it adds over all its steps, and not by
    the difference of one step: rare steps that take long would hide what most steps do. Steps that
    are alike count only where all are: many of them would hide rare ones that differ.
    """
    changes = _changes(comparison)
    if not changes:
        return None
    _, _, phase, profile_index = max(changes, key=lambda change: change[:2])
    return phase, profile_index


def _changes(comparison: Comparison) -> list[tuple[bool, float, PhaseComparison, int]]:
    """Whether the steps of each phase and profile differ, and the share of time that makes."""
    changes = []
    for profile_index in range(1, len(comparison.profiles)):
        compared = [
            (phase, before, after, after_steps.count)
            for phase in comparison.phases
            if (before := _step_ms(phase, 0)) is not None
            and (after_steps := phase.steps[profile_index]) is not None
            and (after := after_steps.time_ms) is not None
        ]
        all_ms = sum(count * before for _, before, _, count in compared) or 1.0
        changes += [
            (
                not _alike(before, after),
                count * abs(after - before) / all_ms,
                phase,
                profile_index,
            )
            for phase, before, after, count in compared
        ]
    return changes


def _both_ms(phase: PhaseComparison, profile_index: int) -> tuple[float, float]:
    """Step times of a phase that both have."""
    before, after = _step_ms(phase, 0), _step_ms(phase, profile_index)
    assert before is not None
    assert after is not None
    return before, after


def _step_ms(phase: PhaseComparison, profile_index: int) -> float | None:
    times = phase.steps[profile_index]
    return None if times is None else times.time_ms


def of_ranks(run: Run, table: RunRanks, longest: Sequence[int]) -> Headline:
    """Which rank the others wait for; without whole steps, how uneven their recordings are."""
    per_step = _of_steps(table)
    sentence, legend = table.verdict, table.legend
    if not per_step:
        names = ", ".join(map(str, longest))
        computes = (
            f"Rank {names} {'computes' if len(longest) == 1 else 'compute'} longest"
            if longest
            else "All ranks compute about as long"
        )
        sentence = f"{sentence} {computes}."
        legend = "Sums over whole recordings: there is no step that all ranks recorded whole."
    return Headline(
        sentence,
        per_step or _of_recording(run),
        _of_waiting(table),
        None if table.straggler.rank is None else _about_rank(table),
        legend,
    )


def _of_waiting(table: RunRanks) -> Severity:
    """A rank that the others wait for is bad; good is only what was measured and found even."""
    if table.straggler.rank is not None:
        return "bad"
    known = bool(table.steps) and table.straggler.step_share_pct is not None
    return "good" if known and table.straggler.pattern == "none" else "attention"


def _about_rank(table: RunRanks) -> str:
    """What to do about the rank that the others wait for."""
    rank, why = table.straggler.rank, late_rank(table.straggler.why)
    return f"{why.replace('that rank', f'rank {rank}')}."


def _of_steps(table: RunRanks) -> list[Figure]:
    """Means per step; empty where no step is whole on every rank."""
    if table.step_ms is None:
        return []
    step = Figure("step", table.step_ms, "ms")
    straggler = table.straggler
    share, who = straggler.step_share_pct, f"rank {straggler.leader} costs"
    if straggler.pattern == "wandering":
        share, who = straggler.all_share_pct, "late ranks cost"
    if share is None:
        waits = [row.wait_ms for row in table.ranks if row.wait_ms is not None]
        return [step, Figure("most waiting of a rank, per step", max(waits), "ms")] if waits else []
    return [
        step,
        Figure(f"{who}, per step", share / 100 * table.step_ms, "ms"),
        Figure(f"{who}, of the step", share, "%"),
    ]


def _of_recording(run: Run) -> list[Figure]:
    computing = [row.compute_ms for row in run.ranks if row.compute_ms is not None]
    figures = (
        [
            Figure("least computing of a rank, in all", min(computing), "ms"),
            Figure("most computing of a rank, in all", max(computing), "ms"),
        ]
        if computing
        else []
    )
    if run.skew is not None and run.skew.ranks:
        most = max(waited.wait_ms for waited in run.skew.ranks)
        figures.append(Figure("most waiting of a rank, in all", most, "ms"))
    return figures


def of_bench(score: Score, ignored: Sequence[str] = ()) -> Headline:
    """How close the best solutions come to the limit, where the most is left, what was ignored."""
    rest = "".join(f" {sentence}." for sentence in ignored)
    sentence = words.sentence(score)
    if sentence is None or score.weighted_s is None:
        return Headline(f"No solution passed on a shape that has a bound.{rest}", [], "attention")
    figures = [Figure("S of the suite", 100 * score.weighted_s, "%")]
    most = words.most_recoverable(score)
    if score.recoverable is not None and most is not None and most.recoverable is not None:
        time = words.time_of(score.suite)
        figures += [
            Figure(f"recoverable, of {time}", 100 * score.recoverable, "%"),
            Figure(f"in {most.operator} alone, of the same", 100 * most.recoverable, "%"),
        ]
    return Headline(
        f"{sentence}{rest}", figures, "neutral", words.advice(score), words.legend(score)
    )


def of_importance(importance: Importance) -> Headline:
    """What takes the most time in a store, and where the most of it can be recovered."""
    rows = [row for row in importance.rows if not row.key.startswith("(")]
    if not rows:
        return Headline("The store has no GPU time that a name is known for.", [], "attention")
    first = max(rows, key=lambda row: row.importance_pct)
    sentence = (
        f"{first.key} takes the most GPU time over {importance.profiles:,} "
        f"profile{'' if importance.profiles == 1 else 's'} "
        f"({as_percent(first.importance_pct / 100, 1)})"
    )
    figures = [Figure(f"importance of {first.key}", first.importance_pct, "%")]
    if first.s_pct is not None:
        figures.append(Figure("its S", first.s_pct, "%"))
    left = [row for row in rows if row.recoverable_pct]
    if left:
        most = max(left, key=lambda row: row.recoverable_pct or 0.0)
        share = as_percent((most.recoverable_pct or 0.0) / 100, 1)
        sentence += f"; {most.key} has the most to recover ({share} of GPU time)"
        figures.append(Figure(f"recoverable of {most.key}", most.recoverable_pct or 0.0, "%"))
    return Headline(f"{sentence}.", figures, "neutral")


def _ms(value: float) -> str:
    return f"{value:,.2f} ms"
