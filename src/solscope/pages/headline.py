"""What a page begins with: one sentence, up to three figures, and what to do next.

Profiles and diagnoses have a verdict of their own (`views/verdict.py`, `diagnose/verdict`). These
are the headlines of pages that show several things at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from solscope.bench.results import words
from solscope.bench.results.score import Score
from solscope.compare.profiles import Comparison
from solscope.compare.verdict import ComparisonVerdict
from solscope.compare.why import Outcome
from solscope.corpus.queries.importance import Importance
from solscope.pages.severity import Severity
from solscope.text import as_percent, as_sentence
from solscope.views.hotspots.advice import late_rank
from solscope.views.ranks import RunRanks
from solscope.views.runs import Run
from solscope.views.verdict import Figure

RECORDING = "in the whole recording"


class Headline(msgspec.Struct, frozen=True):
    """The first thing to read on a page."""

    sentence: str
    figures: list[Figure]
    """At most three, about the same things as the sentence."""
    severity: Severity
    advice: str | None = None
    """What to do about it, in one sentence, with the command where one helps; null where nothing
    follows from what was measured."""
    legend: str | None = None
    """What the figures are means or shares of, and what the words of the sentence mean; null where
    their names say it."""


_COMPARED: dict[Outcome, Severity] = {
    "regression": "bad",
    "improvement": "good",
    "no_change": "neutral",
    "workload_changed": "attention",
}


def of_comparison(comparison: Comparison) -> Headline:
    """The verdict of a comparison; where it names no cause, what says more."""
    found = comparison.verdict
    alike = found.next is None and found.figures
    severity: Severity = "neutral" if alike else "attention"
    if found.outcome is not None:
        severity = _COMPARED[found.outcome]
    return Headline(found.sentence, found.figures, severity, _about_pair(found), found.legend)


def _about_pair(found: ComparisonVerdict) -> str | None:
    """What to do about a difference, and the command that says more of it."""
    if found.next is None:
        return None
    if found.advice is not None:
        return f"{as_sentence(found.advice)} The whole diagnosis: `{found.next}`"
    what = {"why": "why they differ", "kernels": "which kernels differ"}[found.next_shows]
    return f"See {what}: `{found.next}`"


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
    mean = f"mean of {table.steps} steps" if table.steps > 1 else "the only one"
    step = Figure("step", table.step_ms, "ms", mean)
    straggler = table.straggler
    share, who = straggler.step_share_pct, f"rank {straggler.leader}"
    if straggler.pattern == "wandering":
        share, who = straggler.all_share_pct, "lateness of all ranks"
    if share is None:
        waits = [row.wait_ms for row in table.ranks if row.wait_ms is not None]
        if not waits:
            return []
        return [step, Figure("most waiting of a rank", max(waits), "ms", "per step")]
    return [
        step,
        Figure(f"cost of {who}", share / 100 * table.step_ms, "ms", "per step"),
        Figure("cost as a share", share, "%", "of the step"),
    ]


def _of_recording(run: Run) -> list[Figure]:
    computing = [row.compute_ms for row in run.ranks if row.compute_ms is not None]
    figures = (
        [
            Figure("least computing of a rank", min(computing), "ms", RECORDING),
            Figure("most computing of a rank", max(computing), "ms", RECORDING),
        ]
        if computing
        else []
    )
    if run.skew is not None and run.skew.ranks:
        most = max(waited.wait_ms for waited in run.skew.ranks)
        figures.append(Figure("most waiting of a rank", most, "ms", RECORDING))
    return figures


def of_bench(score: Score, ignored: Sequence[str] = ()) -> Headline:
    """How close the best solutions come to the limit, where the most is left, what was ignored."""
    rest = "".join(f" {sentence}." for sentence in ignored)
    sentence = words.sentence(score)
    if sentence is None or score.weighted_s is None:
        return Headline(f"No solution passed on a shape that has a bound.{rest}", [], "attention")
    figures = [Figure("of the possible speed (S)", 100 * score.weighted_s, "%", "of the suite")]
    of = f"of the {words.time_of(score.suite)}"
    if score.recoverable is not None:
        figures.append(Figure("above the bound", 100 * score.recoverable, "%", of))
    most = words.most_recoverable(score)
    if most is not None and most.recoverable is not None:
        name = f"above the bound in {most.operator}"
        figures.append(Figure(name, 100 * most.recoverable, "%", of))
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
    of = "of all GPU time"
    figures = [Figure(f"importance of {first.key}", first.importance_pct, "%", of)]
    if first.s_pct is not None:
        figures.append(Figure("its S", first.s_pct, "%", "bound / measured time"))
    left = [row for row in rows if row.recoverable_pct]
    if left:
        most = max(left, key=lambda row: row.recoverable_pct or 0.0)
        share = as_percent((most.recoverable_pct or 0.0) / 100, 1)
        sentence += f"; most can be saved in {most.key} ({share} of GPU time)"
        figures.append(Figure(f"can be saved in {most.key}", most.recoverable_pct or 0.0, "%", of))
    return Headline(f"{sentence}.", figures, "neutral")
