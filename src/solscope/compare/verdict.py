"""What a comparison says first: why one is slower, how many times as long its steps take, where.

All figures are of one step of one phase, the one that makes most of the difference. A change is
always the ratio of two step times. Whether it is more than noise, and why it is there, is what a
diagnosis of the two profiles says (`why.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from solscope.compare.why import Explanation, Outcome
from solscope.text import as_percent
from solscope.views.verdict import Figure
from solscope.views.verdict_words import in_step, mean_of, step_name

if TYPE_CHECKING:
    from solscope.compare.profiles import PhaseComparison, Side, StepTimes

SAME = 0.01
"""Step times that differ by less are called alike."""
FEW_DIGITS = 0.1
"""Ratios from here on have two digits after the point; smaller ones would lose what they say."""
PARTS = {
    "idle": "GPU idle inside steps",
    "gap": "GPU idle between steps",
    "overlapped": "overlap of kernels",
}
"""Names of what is not work, in words."""
NO_STEPS = (
    "The profiles have no steps that can be compared: totals of whole recordings are shown, whose "
    "work may differ. Compare shares, not speed."
)


class ComparisonVerdict(msgspec.Struct, frozen=True):
    """The answer to "which is faster, and why?"."""

    sentence: str
    figures: list[Figure]
    """Step times of both profiles and their ratio; empty where no steps can be compared."""
    next: str | None
    """The command that says more of why they differ; null where they do not, or nobody can tell."""
    next_shows: Literal["why", "kernels"] = "why"
    """Whether it names causes, or, where no cause can be named, the kernels that differ."""
    outcome: Outcome | None = None
    """How the profile differs from the first one by a diagnosis of both; null where steps are
    alike, or a diagnosis is not about these steps."""
    because: list[str] = []
    """What speaks for the cause that the sentence names."""
    advice: str | None = None
    """What to do about that cause; null where none is named."""
    legend: str | None = None
    """What a diagnosis says with other numbers, and why; or why there is none."""


class Change(NamedTuple):
    """Steps of one phase, in the first profile and in another."""

    differ: bool
    share: float
    """Of the time of all steps compared: what this change adds or takes away."""
    phase: PhaseComparison
    profile_index: int
    before: StepTimes
    after: StepTimes

    @property
    def faster(self) -> bool:
        """Whether the other profile is the faster one."""
        return self.after.time_ms < self.before.time_ms


def verdict_of(
    profiles: Sequence[Side],
    phases: Sequence[PhaseComparison],
    explained: Explanation | None = None,
) -> ComparisonVerdict:
    """The phase that makes a profile slower or faster than the first one, where, and why.

    `explained` is what a diagnosis says of the two profiles that differ most.
    """
    changes = _changes(profiles, phases)
    told = decisive(profiles, phases)
    if told is None:
        return ComparisonVerdict(NO_STEPS, [], None)
    labels = [profiles[0].label, profiles[told.profile_index].label]
    figures = _figures(told, labels)
    steps, times = _steps(told), _times(told)
    if not told.differ:
        others = " So do all other steps that can be compared." if len(changes) > 1 else ""
        sentence = (
            f"{steps} of {labels[1]} take as long as those of {labels[0]}, within "
            f"{as_percent(SAME)}: {times[1]} and {times[0]}.{others}"
        )
        return ComparisonVerdict(sentence, figures, None)
    others = "".join(
        f" {_steps(change)} take {_longer(change)}."
        for change in changes
        if change.profile_index == told.profile_index and change.phase is not told.phase
    )
    measured = (
        f"take {_longer(told)} {_than(told)} those of {labels[0]}: {times[1]} instead of "
        f"{times[0]}{_main_part(told, labels[1])}.{others}"
    )
    sides = [profiles[0], profiles[told.profile_index]]
    if explained is None:
        sentence = f"{steps} of {labels[1]} {measured}"
        return ComparisonVerdict(sentence, figures, _diagnose(sides, told))
    return _explained(measured, figures, sides, told, explained)


def _explained(
    measured: str,
    figures: list[Figure],
    sides: Sequence[Side],
    told: Change,
    explained: Explanation,
) -> ComparisonVerdict:
    """The verdict with what a diagnosis adds: a cause that is settled comes first.

    A difference that it does not count, or that goes with other work, is what the sentence begins
    with: other work need not be why.

    `measured` is what the steps of the other profile do, as a clause without them.
    """
    faster, slower = (side.label for side in (reversed(sides) if told.faster else sides))
    steps = f"{_steps(told)} of {sides[1].label}"
    sentence = f"{steps} {measured}"
    if explained.outcome is None:
        kernels = f"solscope compare {shlex.join(side.path for side in sides)} --kernels"
        return ComparisonVerdict(
            sentence, figures, kernels, next_shows="kernels", legend=explained.note
        )
    if explained.cause is not None:
        its = steps if told.faster else f"Its {_steps(told).lower()}"
        reason = f"{'Part of why' if explained.partly else 'Why'} {slower} is slower"
        sentence = {
            "no_change": f"{sentence} A diagnosis calls it no change: {explained.cause}.",
            "workload_changed": (
                f"{sentence} They do not do the same work: {explained.cause}, from {faster} to "
                f"{slower}."
            ),
        }.get(explained.outcome, f"{reason}: {explained.cause}. {its} {measured}")
    said = " ".join([*explained.evidence, explained.advice or ""])
    normal = f'"Normal" is the faster one, {faster}.' if "normal" in said else ""
    if (faster.split("/")[-1], slower.split("/")[-1] == "normal") == ("normal", False):
        normal = ""  # its name says so, and that of the other does not
    ratio = figures[-1].value if len(figures) > 2 else None
    notes = [explained.note_on(ratio, told.faster), explained.note]
    return ComparisonVerdict(
        sentence,
        figures,
        _diagnose(sides, told),
        outcome=explained.outcome,
        because=explained.evidence,
        advice=explained.advice,
        legend=" ".join(note for note in (normal, *notes) if note) or None,
    )


def _diagnose(sides: Sequence[Side], told: Change) -> str:
    """The command, the slower profile last."""
    paths = [side.path for side in sides]
    return f"solscope diagnose {shlex.join(reversed(paths) if told.faster else paths)}"


def decisive(profiles: Sequence[Side], phases: Sequence[PhaseComparison]) -> Change | None:
    """The phase and the profile with the largest loss or gain of time, of those not alike.

    A phase counts by the share of its profile's time that it adds over all its steps, and not by
    the difference of one step: rare steps that take long would hide what most steps do. Steps that
    are alike count only where all are: many of them would hide rare ones that differ.
    """
    return max(_changes(profiles, phases), key=lambda change: change[:2], default=None)


def _changes(profiles: Sequence[Side], phases: Sequence[PhaseComparison]) -> list[Change]:
    changes = []
    for profile_index in range(1, len(profiles)):
        compared = [
            (phase, before, after)
            for phase in phases
            if (before := phase.steps[0]) is not None
            and (after := phase.steps[profile_index]) is not None
        ]
        all_ms = sum(after.count * before.time_ms for _, before, after in compared) or 1.0
        for phase, before, after in compared:
            longer = abs(after.time_ms - before.time_ms)
            share = after.count * longer / all_ms
            differ = longer > SAME * before.time_ms
            changes.append(Change(differ, share, phase, profile_index, before, after))
    return changes


def _steps(change: Change) -> str:
    return f"{step_name(change.before.basis).capitalize()}s"


def _times(change: Change) -> list[str]:
    """Both step times, in one unit."""
    longest = max(change.before.time_ms, change.after.time_ms)
    return [in_step(1e3 * steps.time_ms, longest) for steps in (change.before, change.after)]


def _longer(change: Change) -> str:
    """`4.27 times as long`; `longer` than nothing."""
    if not change.before.time_ms:
        return "longer"
    if not change.differ:
        return f"as long, within {as_percent(SAME)}"
    ratio = change.after.time_ms / change.before.time_ms
    return f"{ratio:.{2 if ratio >= FEW_DIGITS else 4}f} times as long"


def _than(change: Change) -> str:
    return "as" if change.before.time_ms else "than"


def _main_part(change: Change, label: str) -> str:
    """The largest part of a difference, beside the sum of all others: together the whole of it."""
    whole = change.after.time_ms - change.before.time_ms
    same_way = [
        difference
        for difference in change.phase.differences
        if difference.profile == label and difference.diff_ms * whole > 0
    ]
    if not same_way:
        return ""
    main = max(same_way, key=lambda difference: abs(difference.diff_ms))
    name = PARTS.get(main.name, main.name) if main.by == "time" else main.name
    longest = max(change.before.time_ms, change.after.time_ms)
    part, rest = (
        in_step(1e3 * time, longest, signed=True) for time in (main.diff_ms, whole - main.diff_ms)
    )
    if not any(digit in rest for digit in "123456789"):
        return f" (all of it {name})"
    return f" ({name} {part}, all else {rest})"


def _figures(change: Change, labels: Sequence[str]) -> list[Figure]:
    before, after = change.before, change.after
    times = [
        Figure(label, steps.time_ms, "ms", mean_of(steps.basis, named=True))
        for label, steps in zip(labels, (before, after), strict=True)
    ]
    if not before.time_ms:
        return times
    scope = f"of the {step_name(before.basis)}"
    return [*times, Figure("times as long", after.time_ms / before.time_ms, "×", scope)]
