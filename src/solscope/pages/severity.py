"""How bad a verdict is, in one word: the mark that every page begins with.

It repeats what the verdict says and measures nothing of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from solscope.views.verdict import Verdict

if TYPE_CHECKING:  # a page of one profile needs no diagnosis
    from solscope.diagnose.diagnosis import Diagnosis
    from solscope.diagnose.single import SingleDiagnosis

Severity = Literal["bad", "attention", "good", "neutral"]
"""`bad`: much time is lost; `attention`: some is, or nobody can tell; `good`: a loss was looked for
and not found; `neutral`: a fact that is neither."""

MUCH_PCT = 50.0
"""A loss of this share of a step or of a recording, or more, is bad."""
_NO_LOSS = ("gpu_bound", "nothing_stands_out", "no_timeline", "no_gpu_work")
_DIAGNOSES: dict[str, Severity] = {
    "regression": "bad",
    "improvement": "good",
    "no_change": "good",
    "workload_changed": "attention",
    "cannot_compare": "attention",
}
_RUNS: dict[str, Severity] = {"steady": "good", "cannot_tell": "attention"}


def of_profile(verdict: Verdict) -> Severity:
    """By the share of a step that is lost; a busy GPU is no finding about its kernels."""
    if verdict.kind in _NO_LOSS:
        return "neutral"
    # The second figure is the share of the step in which the GPU does what it is for.
    return "bad" if 100 - verdict.figures[1].value >= MUCH_PCT else "attention"


def of_diagnosis(found: Diagnosis) -> Severity:
    """By how the abnormal run differs."""
    return _DIAGNOSES[found.verdict]


def of_run(found: SingleDiagnosis) -> Severity:
    """By how steady the recording is; whatever it is, its host may wait for a core."""
    if found.verdict in _RUNS and found.core_wait_pct is not None:
        return "bad" if found.core_wait_pct >= MUCH_PCT else "attention"
    return _RUNS.get(found.verdict, "bad")
