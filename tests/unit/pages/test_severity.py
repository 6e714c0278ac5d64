from __future__ import annotations

from typing import get_args

import pytest

from solscope.diagnose.single import Steadiness
from solscope.diagnose.verdict.judging import Verdict as Difference
from solscope.pages import severity
from solscope.views.verdict import Figure, Kind, Verdict


def verdict(kind: Kind, busy_pct: float) -> Verdict:
    figures = [Figure("step", 10.0, "ms"), Figure("GPU busy", busy_pct, "%")]
    return Verdict(kind, "", figures, None, busy_pct, None, 3)


@pytest.mark.parametrize(
    ("kind", "busy_pct", "mark"),
    [
        ("launch_bound", 14.0, "bad"),
        ("launch_bound", 50.0, "bad"),
        ("host_bound", 80.0, "attention"),
        ("exposed_copies", 2.0, "bad"),
        ("gpu_bound", 99.0, "neutral"),
        ("nothing_stands_out", 90.0, "neutral"),
    ],
)
def test_a_profile_is_as_bad_as_the_share_of_the_step_that_is_lost(
    kind: Kind, busy_pct: float, mark: str
) -> None:
    assert severity.of_profile(verdict(kind, busy_pct)) == mark


def test_a_summary_is_neither_good_nor_bad() -> None:
    assert severity.of_profile(Verdict("no_gpu_work", "", [], None, None, None, 0)) == "neutral"


def test_every_verdict_of_a_diagnosis_has_a_mark() -> None:
    assert severity._DIAGNOSES.keys() == set(get_args(Difference))
    assert severity._RUNS.keys() < set(get_args(Steadiness))
