"""Steps that the profiler itself slows down: left out, stated, and no cause of anything."""

from __future__ import annotations

from collections.abc import Container

import msgspec
import numpy as np
import pytest

from solscope.attribution import attribute
from solscope.attribution.profiler_events import profiler_time
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.observe import observe
from solscope.diagnose.single import diagnose_run
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.lab import edits
from solscope.readers.packed import Observations, decode
from tests.making import event, profile
from tests.unit.diagnose.making import GRAPH
from tests.unit.diagnose.test_observe import two_steps

STEPS = 62
NUMBERS = np.arange(STEPS)
MS = 1_000_000
REASON = "slowed by the profiler itself"
MIXED = (11, 23, 35, 47)
"""Steps of a rare phase."""


def slowed(steps: Container[int], more_ms: float = 8.0) -> Observations:
    """A run in which some steps are slow."""
    chosen = np.array([n in steps for n in NUMBERS])
    extra = np.where(chosen, more_ms * MS, 0).astype(np.int64)
    return edits.slower_section(GRAPH.but(steps=STEPS).run(), "schedule", extra)


def interrupted(run: Observations, steps: Container[int], ns: int = MS // 2) -> Observations:
    """The same run, with the profiler at work for half a millisecond of some steps."""
    return msgspec.structs.replace(
        run,
        steps=[
            msgspec.structs.replace(step, profiler_ns=ns if n in steps else 0)
            for n, step in enumerate(run.steps)
        ],
    )


SLOW = (20, 21, 40, 41)
"""Slow steps, the first of each two interrupted: the profiler empties its buffer in the second."""


def test_steps_that_the_profiler_slows_do_not_make_a_run_unsteady() -> None:
    assert diagnose_run(slowed(SLOW)).verdict == "bursty"
    result = diagnose_run(interrupted(slowed(SLOW), (20, 40)))
    assert result.verdict == "steady"
    assert result.outliers is None
    assert result.run.dropped[REASON] == 4
    assert result.run.steps == STEPS - 2 - 4
    assert f"in {STEPS - 6} steps" in result.sentence


def test_steps_that_the_profiler_slows_are_no_regression_of_the_tail() -> None:
    normal = GRAPH.but(steps=STEPS).run(3)
    before = diagnose_runs(normal, slowed(SLOW))
    assert (before.verdict, before.scope) == ("regression", "tail")
    after = diagnose_runs(normal, interrupted(slowed(SLOW), (20, 40)))
    assert after.verdict == "no_change"
    assert after.outliers is None
    assert after.abnormal.dropped[REASON] == 4
    assert sum(c.abnormal_ms for c in after.components) == pytest.approx(after.abnormal.mean_ms)


def test_a_period_is_seen_across_steps_that_the_profiler_slows() -> None:
    run = slowed([n for n in range(STEPS) if n % 8 == 4])
    result = diagnose_run(interrupted(run, (30,)))
    assert result.verdict == "periodic"
    assert result.outliers is not None
    assert result.outliers.every == 8
    assert result.run.dropped[REASON] == 2


def test_steps_after_a_change_point_keep_their_numbers() -> None:
    run = slowed(range(40, STEPS), more_ms=2.0)
    result = diagnose_run(interrupted(run, (10,)))
    assert [point.step for point in result.change_points] == [40]
    assert sum(result.compared) == STEPS - 2 - 2


def test_steps_that_the_profiler_slows_have_no_part_in_the_time_of_slow_steps() -> None:
    run = slowed([n for n in range(STEPS) if n % 8], more_ms=500.0)
    result = diagnose_run(interrupted(run, (10,), 50 * MS))
    assert result.outliers is not None
    assert result.outliers.steps + 7 == result.outliers.of_steps == STEPS - 2 - 2
    assert result.outliers.share_of_time_pct < 100


def test_nothing_is_left_out_where_the_profiler_interrupts_every_fourth_step() -> None:
    run = interrupted(slowed(SLOW), range(0, STEPS, 4))
    result = diagnose_run(run)
    assert REASON not in result.run.dropped
    assert result.verdict == "bursty"
    said = "the profiler itself interrupted 30 of the 62 steps; they are kept"
    assert any(said in warning for warning in result.warnings)
    pair = diagnose_runs(GRAPH.but(steps=STEPS).run(3), run)
    assert any(warning.startswith(f"abnormal: {said}") for warning in pair.warnings)


def with_mixed(run: Observations) -> Observations:
    """The same run, with four steps of another phase."""
    steps = [
        msgspec.structs.replace(step, phase="mixed") if n in MIXED else step
        for n, step in enumerate(run.steps)
    ]
    return msgspec.structs.replace(run, steps=steps)


def test_a_rare_phase_that_got_slower_is_not_left_out() -> None:
    """One of its four steps would leave too few to test."""
    run = with_mixed(slowed(MIXED, more_ms=60.0))
    result = diagnose_runs(with_mixed(slowed(())), interrupted(run, (MIXED[1],), 2 * MS))
    assert result.verdict == "regression"
    assert result.abnormal.dropped[REASON] == 1
    said = "abnormal: the profiler itself interrupted 1 more of the 62 steps; it is kept"
    assert any(warning.startswith(said) for warning in result.warnings)


def test_a_step_that_takes_longer_than_the_profiler_explains_is_not_left_out() -> None:
    run = interrupted(slowed(SLOW, more_ms=1000.0), (20, 40), 11 * MS)
    assert diagnose_run(run).verdict == "bursty"
    result = diagnose_runs(GRAPH.but(steps=STEPS).run(3), run)
    assert (result.verdict, result.scope) == ("regression", "tail")
    assert REASON not in result.abnormal.dropped


def test_a_short_run_does_not_become_too_short() -> None:
    run = GRAPH.but(steps=15).run()
    extra = np.where(np.arange(15) >= 8, 8 * MS, 0).astype(np.int64)
    result = diagnose_run(interrupted(edits.slower_section(run, "schedule", extra), (3,)))
    assert result.verdict == "change_point"
    assert result.run.steps == 13
    assert any("interrupted 2 of the 15 steps" in warning for warning in result.warnings)


def test_a_run_that_is_too_short_counts_all_its_whole_steps() -> None:
    result = diagnose_run(interrupted(GRAPH.but(steps=12).run(), (3,)))
    assert "the recording has 10 whole steps" in result.sentence
    assert any("interrupted 2 of the 12 steps" in warning for warning in result.warnings)


def test_steps_are_left_out_of_both_runs_or_of_neither() -> None:
    """The profiler slows every eighth step of one run and every twelfth of the other alike."""
    runs = [
        interrupted(slowed([m for n in every for m in (n, n + 1)]), every)
        for every in (range(4, 58, 12), range(4, 60, 8))
    ]
    for normal, abnormal in (runs, runs[::-1]):
        result = diagnose_runs(normal, abnormal)
        assert REASON not in result.normal.dropped
        assert REASON not in result.abnormal.dropped
        assert len([text for text in result.warnings if "may be too long" in text]) == 2
        assert result.verdict == "no_change"


def test_a_change_point_is_seen_beside_an_interrupted_step_of_any_length() -> None:
    run = interrupted(slowed(range(31, STEPS), more_ms=1.0), (10,))
    assert diagnose_run(run).verdict == "change_point"
    limits = msgspec.structs.replace(THRESHOLDS, profiler_slows=1e9)
    steps = [
        msgspec.structs.replace(step, wall_ns=300 * step.wall_ns, profiler_ns=60 * MS)
        if n == 10
        else step
        for n, step in enumerate(run.steps)
    ]
    longer = msgspec.structs.replace(run, steps=steps)
    assert diagnose_run(longer, limits).verdict == "change_point"


def test_an_interruption_of_some_microseconds_slows_nothing() -> None:
    run = slowed(())
    steps = [msgspec.structs.replace(step, profiler_ns=1000) for step in run.steps]
    assert REASON not in diagnose_run(msgspec.structs.replace(run, steps=steps)).run.dropped


def test_the_time_of_the_profiler_is_counted_in_the_step_it_falls_into() -> None:
    events = [
        event("overhead", "Activity Buffer Request", 50, 100),
        event("overhead", "Buffer Flush", 120, 60),
        event("overhead", "Command Buffer Full", 300, 200),
        event("overhead", "Lazy Function Loading", 500, 200),
    ]
    run = observe(attribute(profile(*two_steps(*events))))
    assert [step.profiler_ns for step in run.steps] == [80, 0]
    assert run.run.overhead_ns == 130


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("Buffer Flush", True),
        ("Activity Buffer Request", True),
        ("Instrumentation", True),
        ("Resource", True),
        ("UVM Activity Init", True),
        ("Driver Compiler", False),
        ("Runtime Triggered Module Loading", False),
        ("Runtime module loading", False),
        ("Lazy Function Loading", False),
        ("Command Buffer Full", False),
    ],
)
def test_what_the_driver_does_anyway_is_not_the_profiler(name: str, own: bool) -> None:
    assert bool(profiler_time(profile(event("overhead", name, 0, 7)).events).length) is own


def test_recordings_packed_before_the_time_of_the_profiler_was_kept_are_read() -> None:
    data = msgspec.json.decode(msgspec.json.encode(slowed(())))
    data["steps"] = [step[:8] for step in data["steps"]]
    run = decode(msgspec.json.encode(data), "old.json")
    assert {step.profiler_ns for step in run.steps} == {0}
