"""Timed calls find the memory of their outputs in torch's cache."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.worker.messages import TimeCalls  # noqa: E402
from solscope.bench.worker.worker import POISON, Worker  # noqa: E402


class Timer:
    """Calls without a clock, and notes when the first call came."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def time(
        self, call: Any, calls: Any, order: Any, kineto: bool, spin_us: float
    ) -> dict[str, Any]:
        self.log.append("timed")
        one = [1.0] * len(order)
        reply = {"events_us": one, "host_us": one, "lag_us": one}
        for index, _ in order:
            calls.done(index, call(index))
        return reply


def test_memory_of_all_that_is_kept_is_taken_and_poisoned_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[Any] = []
    taken: list[Any] = []

    def empty(size: int, **options: Any) -> Any:
        tensor = torch.empty(size, **options)
        taken.append(tensor)
        log.append(size)
        return tensor

    worker = Worker(torch, [])
    fake = SimpleNamespace(empty=empty, uint8=torch.uint8, Tensor=torch.Tensor)
    monkeypatch.setattr(worker, "torch", fake)
    worker.timer = Timer(log)
    worker.sets = [{"state": torch.ones(2, dtype=torch.float64)} for _ in range(2)]
    worker.pristine = [{"state": inputs["state"].clone()} for inputs in worker.sets]
    worker.outputs.wanted = ["out"]
    worker.run = lambda state: torch.zeros(3)
    order = [(0, True), (1, True), (0, True)]
    reply = worker.time_calls(TimeCalls(order, False, 10.0, [0, 2], [12, 5]))
    assert log == [12, 5] * 6 + [16, 16, "timed"]  # three calls, and as many copies
    assert all((tensor == POISON).all() for tensor in taken)
    assert len(worker.kept) == len(reply.outputs) == 3
