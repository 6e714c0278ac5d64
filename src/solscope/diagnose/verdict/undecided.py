"""A run whose steps differ without a pattern: where longer ones spend more, what would settle it.

The slower half of each phase is set against the faster half. That says where time goes, exactly; it
is no test, and names no cause: halves that are chosen by their times always differ.
"""

from __future__ import annotations

import shlex

import numpy as np

from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.matching.parts import Parts
from solscope.diagnose.verdict.wording import PLACES
from solscope.intervals import Int64s
from solscope.readers.packed import Observations
from solscope.resample import Floats
from solscope.text import as_percent, capitalized
from solscope.views.hotspots.advice import NO_CORE
from solscope.views.verdict_words import percent_text

MOST = 0.5
"""The place of the difference is named from this share of it on."""
LOOK = {
    "compute": ("which kernels run longer", "kernels"),
    "comm": ("what communicates longer", "layers"),
    "memcpy": ("which copies run alone", "hotspots"),
    "host": ("what the host does while the GPU waits", "host"),
    "sync": ("which calls synchronize", "host"),
    "alloc": ("what allocates", "memory"),
    "gc": ("what the host does while the GPU waits", "host"),
    "io": ("what the host does while the GPU waits", "host"),
    "launch_wait": ("how full the launch queue is", "hotspots"),
}
"""What to look at meanwhile, and the command that shows it, by where the difference is."""


def halves(rows: Int64s, times: Floats) -> Parts:
    """The faster and the slower half of steps, by their times over the typical one; both in order.

    Of an odd number the one in the middle belongs to neither.
    """
    order = rows[np.argsort(times, kind="stable")]
    half = rows.size // 2
    return Parts(np.sort(order[:half]), np.sort(order[rows.size - half :]))


def place(f: Findings | None) -> str | None:
    """The family of components that holds most of the difference; null where none does."""
    if f is None or f.delta_ms <= 0:
        return None
    family = max(PLACES, key=f.share)
    return family if f.share(family) >= MOST else None


def where(f: Findings | None) -> str:
    """What the slower half spends more time on, as a clause."""
    if f is None or f.delta_ms <= 0:
        return ""
    family = place(f)
    if family is None:
        return f"; what the slower half adds ({f.delta_ms:.2f} ms per step) is in no single place"
    share = as_percent(min(f.share(family), 1.0))
    return (
        f"; {share} of what the slower half adds ({f.delta_ms:.2f} ms per step) is {PLACES[family]}"
    )


def with_core(lacking_pct: float | None, what: str, facts: str) -> str:
    """What was found; that the host lacks a core comes first, where that is known."""
    if lacking_pct is None:
        return f"{what}: {facts}."
    return (
        "The host lacks CPU time: its main thread is ready to run but has no core for "
        f"{percent_text(lacking_pct)} of the recording. {capitalized(facts)}."
    )


def not_judged(run: Observations, path: str | None) -> str:
    """What steps that are alike do not say, and the command that does."""
    name = shlex.quote(path or run.run.name)
    return (
        f"steps that are alike may all be slow: `solscope show {name}` says where their time goes"
    )


def next_step(
    run: Observations, f: Findings | None, path: str | None, *, lacks_core: bool = False
) -> str:
    """What would settle it, with the commands."""
    name = shlex.quote(path or run.run.name)
    if lacks_core:
        return (
            f"{NO_CORE[0].lower()}{NO_CORE[1:]}, and record it again: "
            f"`solscope diagnose {name} AFTER` says what that changed"
        )
    settles = "compare it with a normal run of the same work"
    if not run.counters:
        metrics = shlex.quote(f"{(path or run.run.name).split('.')[0]}.metrics.csv")
        settles = (
            "record it again with sensors beside it (`solscope capture --pid PID -o "
            f"{metrics}`), and {settles}"
        )
    text = f"{settles}: `solscope diagnose NORMAL {name}`"
    family = place(f)
    if family not in LOOK:
        return text
    what, command = LOOK[family]
    return f"{text}; to see {what}: `solscope {command} {name}`"
