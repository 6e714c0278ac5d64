"""The large figures of a diagnosis: those of its sentence, each with the steps that it is of."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.views.verdict import Figure


def of_two(
    times_ms: Sequence[float | None],
    of: Sequence[str],
    ratio: float | None,
    bounds: Sequence[float] | None,
    *,
    like_for_like: bool,
) -> list[Figure]:
    """Step times of the normal and of the abnormal run, and how many times as long it takes.

    `of` says what each time is of; `like_for_like` that the ratio is not that of both times.
    """
    figures = [
        Figure(name, time, "ms", scope)
        for name, time, scope in zip(("normal", "abnormal"), times_ms, of, strict=True)
        if time is not None
    ]
    if ratio is None:
        return figures
    scopes = ["like for like"] if like_for_like else []
    scopes.append(
        "not tested" if bounds is None else f"95 % interval {bounds[0]:.2f} to {bounds[1]:.2f}"
    )
    return [*figures, Figure("times as long", ratio, "×", ", ".join(scopes))]


def steps_text(phases: Sequence[str | None]) -> str:
    """`15 decode steps`, `17 steps of all phases`: one entry per step."""
    named = set(phases)
    steps = "step" if len(phases) == 1 else "steps"
    if len(named) > 1:
        return f"{len(phases):,} {steps} of all phases"
    return " ".join(word for word in (f"{len(phases):,}", *named, steps) if word)
