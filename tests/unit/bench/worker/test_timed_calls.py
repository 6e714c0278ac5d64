"""What is kept of timed calls, and when it is copied."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.worker import worker as running  # noqa: E402
from solscope.bench.worker.messages import CallSets  # noqa: E402
from solscope.bench.worker.outputs import TimedCalls  # noqa: E402
from solscope.bench.worker.worker import Worker  # noqa: E402


def test_updates_and_drawn_outputs_are_copied_when_the_clock_stops() -> None:
    state = torch.zeros(2)
    sets, pristine = [{"state": state}], [{"state": torch.ones(2)}]
    calls = TimedCalls(torch, (sets, pristine), updates=[1], copies=3, calls=3)
    returned = [torch.full((2,), float(number)) for number in range(3)]
    for number, out in enumerate(returned):
        calls.put_back(0)
        assert state.tolist() == [1.0, 1.0]
        state += number
        calls.done(0, {"out": out})
        state.fill_(-1.0)  # what is filled in now comes too late
        out.fill_(-1.0)
    assert [one["out"].tolist() for one in calls.copies] == [[0.0] * 2, [1.0] * 2, [2.0] * 2]
    assert [one["out"] is out for one, out in zip(calls.kept, returned, strict=True)] == [True] * 3
    assert ["state" in one for one in calls.kept] == [False, True, False]
    assert calls.copies[1]["state"].tolist() == [2.0, 2.0]


def test_no_more_outputs_are_copied_than_there_is_room_for() -> None:
    for number in range(20):
        calls = TimedCalls(torch, ([{}], [{}]), updates=[], copies=2, calls=8)
        out = torch.zeros(1)
        for _ in range(8):
            calls.done(0, {"out": out})
        assert sum(one["out"] is not out for one in calls.copies) <= 2, number
    assert running._copies(3, 100) == 3
    assert running._copies(40, 100) == 10
    assert running._copies(12, 100) == 6
    assert running._copies(40, running.COPIED_BYTES // 4) == 4
    assert running._copies(40, 2 * running.COPIED_BYTES) == 1


def test_each_call_of_a_request_is_as_likely_to_be_judged_as_any_other() -> None:
    worker = Worker(torch, [])
    worker.outputs.wanted = ["out"]
    worker.sets = [{"x": torch.zeros(1)}, {"x": torch.ones(1)}]
    calls: list[float] = []
    judged: list[int] = []

    def run(x: Any) -> Any:
        calls.append(float(x))
        return torch.tensor([float(len(calls))])

    worker.run = run
    for _ in range(400):
        calls.clear()
        worker.call_sets(CallSets([0, 1] * 4, keep=True))
        for number, outputs in enumerate(worker.copies):
            at = int(outputs["out"]) - 1
            assert calls[at] == number
            judged.append(at)
        assert worker.copies[0]["out"] is not worker.kept[0]["out"]
    counts = [judged.count(at) for at in range(8)]
    assert all(50 < count < 160 for count in counts), counts  # 100 each; 5 deviations are 43
