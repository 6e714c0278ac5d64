"""Edits of observations: they change what they say, and keep what holds of every recording."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solscope.lab import edits
from solscope.readers.packed import Observations
from tests.unit.diagnose.making import EAGER

RUN = EAGER.run()
SIZE = len(RUN.steps)
MS = np.full(SIZE, 1_000_000, dtype=np.int64)


def every_kernel(_kernel: object) -> bool:
    return True


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: edits.drawn(run, 60, 1),
        lambda run: edits.first_steps(run, 7),
        lambda run: edits.slower_section(run, "sample", MS),
        lambda run: edits.slower_section(run, "gc", MS),
        lambda run: edits.slower_host(run, 2.0, "waiting"),
        lambda run: edits.slower_kernels(run, 2.0, every_kernel),
        lambda run: edits.slower_kernels(run, 2.0, every_kernel, hidden=True),
        lambda run: edits.more_work(run, 1.5),
        lambda run: edits.more_calls(run, "sync", MS // MS, 1000),
        lambda run: edits.larger_batch(run, 2.0),
    ],
)
def test_steps_follow_each_other_and_tiles_add_up(
    edit: Callable[[Observations], Observations],
) -> None:
    run = edit(RUN)
    walls = [step.wall_ns for step in run.steps]
    assert np.sum([tile.ns for tile in run.tiles], axis=0).tolist() == walls
    assert [step.start_ns for step in run.steps] == [sum(walls[:at]) for at in range(len(walls))]
    assert run.run.span_ns == sum(walls)


def test_added_time_belongs_to_a_state_of_the_thread() -> None:
    def grown(thread: edits.Thread, name: str) -> float:
        run = edits.slower_section(RUN, "sample", MS, thread)
        sides = [next(c for c in side.counters if c.name == name) for side in (RUN, run)]
        return (sides[1].values[-1] - sides[0].values[-1]) / float(MS.sum())

    # The samples end where the run does, up to the unit of their clock.
    assert grown("running", "oncpu_ns") == pytest.approx(1.0, abs=0.02)
    assert grown("waiting", "runq_ns") == pytest.approx(1.0, abs=0.02)
    assert grown("blocked", "oncpu_ns") == grown("blocked", "runq_ns") == 0.0
    # Other threads go on while the main thread is blocked.
    assert grown("blocked", "process_cpu_ns") == pytest.approx(0.32, abs=0.02)


def test_hidden_kernels_leave_the_step_as_long_as_it_was() -> None:
    run = edits.slower_kernels(RUN, 1.5, every_kernel, hidden=True)
    walls = [[step.wall_ns for step in side.steps] for side in (RUN, run)]
    assert walls[1] == pytest.approx(walls[0], abs=20)


def test_more_work_keeps_bandwidths_and_times_of_calls() -> None:
    run = edits.more_work(RUN, 1.5)
    copies = [next(k for k in side.kernels if k.category == "memcpy") for side in (RUN, run)]
    assert copies[1].bytes / sum(copies[1].ns) == pytest.approx(copies[0].bytes / sum(copies[0].ns))
    assert run.kernels[0].p50_ns == RUN.kernels[0].p50_ns


def test_first_steps_are_a_recording_that_breaks_off() -> None:
    run = edits.first_steps(RUN, 7)
    assert len(run.steps) == 7
    assert run.run.warnings[-1].startswith("truncated")


def test_a_slow_step_of_a_recording_is_drawn_once_at_most() -> None:
    more = np.where(np.arange(SIZE) == SIZE // 2, 100 * MS, 0)
    accident = edits.lengthened(RUN, {("idle", "sync"): more})
    longest = max(step.wall_ns for step in accident.steps)
    for seed in range(20):
        walls = [step.wall_ns for step in edits.drawn(accident, 60, seed).steps]
        assert walls.count(longest) <= 1
