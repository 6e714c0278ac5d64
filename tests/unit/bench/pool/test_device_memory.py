"""Memory of the device that several checks share."""

from __future__ import annotations

import threading

import pytest

from solscope.bench.pool.device_memory import MEMORY_PER_MOVED_BYTE, MemoryBudget


@pytest.mark.parametrize("total", [100.0, float("inf")])
def test_all_of_it_is_had_alone(total: float) -> None:
    budget = MemoryBudget(total)
    assert budget.is_shared == (total == 100.0)
    for _ in range(2):  # what was had comes back
        with budget.of(1.0), budget.of(1.0):
            pass
        with budget.all():
            pass


def test_one_who_wants_all_waits_for_the_others_and_they_for_it() -> None:
    budget = MemoryBudget(10 * MEMORY_PER_MOVED_BYTE)
    order: list[str] = []
    asks, has, may_go = (threading.Event() for _ in range(3))

    def alone() -> None:
        asks.set()
        with budget.all():
            order.append("all")
            has.set()
            may_go.wait(10)

    def another() -> None:
        with budget.of(1.0):
            order.append("another")

    with budget.of(9.0):
        first = threading.Thread(target=alone)
        first.start()
        assert asks.wait(10)
        order.append("before")
    assert has.wait(10)
    second = threading.Thread(target=another)
    second.start()
    may_go.set()
    first.join(10)
    second.join(10)
    assert order == ["before", "all", "another"]
