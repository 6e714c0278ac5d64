"""Memory of the device that several checks share."""

from __future__ import annotations

import threading
import time

import pytest

from solscope.bench.pool.device_memory import MEMORY_PER_MOVED_BYTE, MemoryBudget


@pytest.mark.parametrize("total", [100.0, float("inf")])
def test_what_was_had_comes_back(total: float) -> None:
    budget = MemoryBudget(total)
    assert budget.is_shared == (total == 100.0)
    for _ in range(2):
        with budget.of(1.0), budget.of(0.1), budget.of(0.2):
            pass
        with budget.all():
            pass


def test_one_who_wants_all_waits_for_those_before_and_those_after_wait_for_it() -> None:
    budget = MemoryBudget(10 * MEMORY_PER_MOVED_BYTE)
    order: list[str] = []
    has, may_go, went = (threading.Event() for _ in range(3))

    def alone() -> None:
        with budget.all():
            order.append("all")
            has.set()
            may_go.wait(10)

    def after() -> None:
        with budget.of(1.0):
            order.append("after")
            went.set()

    first, second = threading.Thread(target=alone), threading.Thread(target=after)
    with budget.of(9.0):
        first.start()
        while not budget._claims:
            time.sleep(0.001)
        second.start()  # there is room for it, but one waits for all
        assert not went.wait(0.2)
        order.append("before")
    assert has.wait(10)
    assert not went.wait(0.2)
    may_go.set()
    first.join(10)
    second.join(10)
    assert order == ["before", "all", "after"]
