from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solscope.attribution.opening import open_attributed
from solscope.errors import InputError, UsageError
from solscope.export.files import export
from solscope.views.kernels import kernels
from solscope.views.layers import layers
from solscope.views.step_rows import cut_out_step, only_step, slowest_step, step_rows
from tests.making import aggregate, attributed, event
from tests.models import launched
from tests.recordings import recording

MS = 1_000_000


def step(number: int, ms: float, at_ms: float | None = None) -> list[dict[str, Any]]:
    """A step of one kernel; starts every 10 ms unless told."""
    at = round((10 * number if at_ms is None else at_ms) * MS)
    kernel = launched("G", at + 1, at + 1000, number + 1, dur=round(ms * MS))
    return [event("annotation", "decode_step", at, 1000), *kernel]


def made(*walls: float) -> list[dict[str, Any]]:
    """Steps that take 1 ms on the GPU each, and start this many ms apart."""
    events, at = [], 0.0
    for number, wall in enumerate((*walls, 1.0)):
        events += step(number, 1.0, at)
        at += wall
    return events


def test_the_step_that_takes_longest_comes_first_with_what_is_unusual() -> None:
    found = step_rows(attributed(*made(10, 10, 30, 10, 10)))
    first = found.steps[0]
    assert (first.step, first.slow, found.slow) == (2, True, 1)
    assert first.wall_ms == pytest.approx(30.0)
    assert first.excess_ms == pytest.approx(20.0)
    assert [(u.part, round(u.excess_ms)) for u in first.unusual] == [("idle: host", 20)]
    assert found.slow_pct == pytest.approx(100 * 20 / 71, abs=0.1)


def test_a_longer_kernel_is_unusual_by_its_category() -> None:
    events = [e for n in range(6) for e in step(n, 5.0 if n == 4 else 1.0)]
    first = step_rows(attributed(*events[:-3], *step(5, 1.0))).steps[0]
    # The step itself is as long as the others: its kernel only fills time that they idle.
    assert first.slow is False
    long = [e for n in range(6) for e in step(n, 25.0 if n == 4 else 1.0, 40.0 * n)]
    rows = {row.step: row for row in step_rows(attributed(*long)).steps}
    assert rows[4].busy_ms == pytest.approx(25.0)


def test_parts_of_a_step_add_up_to_it() -> None:
    from solscope.views.step_rows import _parts, _steps

    found = attributed(*made(10, 12, 30))
    steps, time = _steps(found)
    parts = _parts(steps, time)
    wall = steps["until"] - steps["start_ns"]
    total = np.sum([v for k, v in parts.items() if k != "kernels"], axis=0)
    assert total.tolist() == wall.to_list()


def test_with_too_few_steps_nothing_is_called_slow() -> None:
    found = step_rows(attributed(*made(10)))
    assert [row.typical_ms for row in found.steps] == [None, None]
    assert (found.slow, found.steps[0].step) == (0, 0)


def test_only_one_step_is_left() -> None:
    found = attributed(*made(10, 10, 30, 10))
    assert slowest_step(found) == 2
    one = only_step(found, 2)
    assert one.activities["step"].unique().to_list() == [2]
    assert kernels(one).calls == 1
    with pytest.raises(UsageError, match="no step 9; there are 5, from 0 to 4"):
        only_step(found, 9)


def test_a_step_that_is_cut_out_keeps_its_launches_and_the_time_to_the_next() -> None:
    found = attributed(*made(10, 10, 30, 10))
    cut = cut_out_step(found, 2)
    events = cut.profile.events
    (activity,) = cut.activities.iter_rows(named=True)
    assert events["kind"][activity["row"]] == "kernel"
    assert events["kind"][activity["launch_row"]] == "runtime"
    assert events.filter(events["kind"] == "kernel").height == 1
    # The annotation of the next step begins before its first kernel, within the time.
    assert events.filter(events["kind"] == "annotation")["start_ns"].to_list() == [
        20 * MS,
        50 * MS,
    ]


def test_profiles_without_steps_are_refused() -> None:
    row = {"kind": "kernel", "name": "k", "calls": 1, "total_ns": 5, "mean_ns": 5.0}
    with pytest.raises(InputError, match="no steps"):
        step_rows(aggregate(row))
    with pytest.raises(InputError, match="no single activities"):
        only_step(aggregate(row), 0)


def test_a_real_slow_step(tmp_path: Any) -> None:
    """`disk_fsync` waits for the disk between steps: the host holds the GPU up."""
    found = open_attributed(str(recording("h200/runs/disk_fsync.trace.json.gz")))
    table = step_rows(found)
    assert table.steps[0].unusual[0].part == "idle: host"
    number = table.steps[0].step
    written = export(cut_out_step(found, number), "perfetto", tmp_path / "step.json")
    again = open_attributed(written.path)
    own = found.activities.filter(found.activities["step"] == number)
    assert again.activities.height == own.height
    assert again.activities["dur_ns"].sum() == own["dur_ns"].sum()
    assert layers([only_step(found, number)], ["one"]).passes == [1]
