from __future__ import annotations

import os

import pytest

from solscope.cores import cores
from solscope.lab.processes import on_all_cores
from solscope.ranks.read import _workers

WHO = "/proc/self"
"""A link to the number of the process that reads it."""


def test_few_jobs_stay_here() -> None:
    assert set(on_all_cores(os.readlink, [WHO] * 3, least=4)) == {str(os.getpid())}
    assert list(on_all_cores(abs, list[int]())) == []


def test_many_jobs_go_to_other_processes_and_come_back_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    first, *rest = on_all_cores(os.readlink, [WHO] * 3)
    assert str(os.getpid()) not in {first, *rest}
    assert list(on_all_cores(abs, [-3, 1, -2])) == [3, 1, 2]
    with pytest.raises(FileNotFoundError):
        list(on_all_cores(os.readlink, [WHO, "/no/such/link"]))


def test_systems_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no `sched_getaffinity`."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores() == 3
    assert _workers([1]) == 3
    assert list(on_all_cores(abs, [-3, 1], least=3)) == [3, 1]
