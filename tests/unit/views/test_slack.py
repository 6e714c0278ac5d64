"""Slack is what it says: a simulated host and GPU run again with one kernel made longer."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np
import pytest

from solscope.attribution.opening import open_attributed
from solscope.views.host import host_table
from solscope.views.slack import slacks
from tests.recordings import recording

LATENCY = 3


@dataclass(frozen=True)
class Program:
    """What a host does in order: work of its own, then a launch or a wait for the GPU."""

    work: tuple[int, ...]
    kernels: tuple[int | None, ...]
    """Duration of the kernel that is launched; null for a call that waits for all of them."""


@dataclass(frozen=True)
class Times:
    start: list[int]
    end: list[int]
    launch: list[int]
    waits: list[tuple[int, int]]


def simulate(program: Program) -> Times:
    """One thread and one queue, each in order."""
    times, now = Times([], [], [], []), 0
    for work, kernel in zip(program.work, program.kernels, strict=True):
        now += work
        free = times.end[-1] if times.end else 0
        if kernel is not None:
            times.launch.append(now)
            times.start.append(max(now + LATENCY, free))
            times.end.append(times.start[-1] + kernel)
        else:
            times.waits.append((now, max(now, free)))
            now = max(now, free)
    return times


def programs(count: int) -> list[Program]:
    chance = random.Random(22)
    return [
        Program(
            tuple(chance.choice((1, 2, 5, 40)) for _ in range(size)),
            (5, *(chance.choice((None, 1, 4, 10, 60)) for _ in range(size - 2)), 7),
        )
        for size in (chance.randint(3, 30) for _ in range(count))
    ]


def found(times: Times) -> list[int]:
    start, end, launch = (np.array(each) for each in (times.start, times.end, times.launch))
    return [int(value) for value in slacks(start, end, launch, times.waits, 0 * start)]


@pytest.mark.parametrize("program", programs(40))
def test_a_kernel_may_last_that_much_longer_and_no_more(program: Program) -> None:
    times = simulate(program)
    launches = [at for at, kernel in enumerate(program.kernels) if kernel is not None]
    for at, slack in zip(launches, found(times), strict=True):
        for longer, late in ((slack, 0), (slack + 1, 1), (slack + 50, 50)):
            kernels = list(program.kernels)
            kernels[at] = (kernels[at] or 0) + longer
            ended = simulate(replace(program, kernels=tuple(kernels))).end[-1]
            assert ended - times.end[-1] == late


def test_the_native_loop_gives_what_its_twin_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("solscope._native._scanner")
    assert import_module("solscope._native._slack").walk
    monkeypatch.delenv("SOLSCOPE_CORE", raising=False)
    times = [simulate(program) for program in programs(40)]
    native = [found(each) for each in times]
    monkeypatch.setenv("SOLSCOPE_CORE", "python")
    assert [found(each) for each in times] == native


@pytest.mark.parametrize(
    ("number", "work", "slack"),
    [((0, 1), (0,), (5,)), ((0, 0), (0, 0), (5,)), ((0, 0), (1,), (5,)), ((0,), (0,), (5,))],
)
def test_the_native_loop_takes_columns_that_fit_together(
    number: tuple[int, ...], work: tuple[int, ...], slack: tuple[int, ...]
) -> None:
    walk = pytest.importorskip("solscope._native._slack").walk
    one = np.array([0])
    columns = (np.array([1, 0]), np.array(number), one, one, one, one, np.array(work), one)
    with pytest.raises(ValueError, match="that fit together"):
        walk(*columns, np.array(slack), 9)


@pytest.mark.parametrize(
    "name",
    [
        "traces/a100_hta_tracediff_control.json.gz",
        "h200/graph/normal.trace.json.gz",
        "h200/graph/no_cuda_graph.trace.json.gz",
    ],
)
def test_operators_of_recordings_add_up_and_have_slack_off_the_path(name: str) -> None:
    table = host_table(open_attributed(str(recording(name))))
    rows = table.path_operators
    assert sum(round(1e6 * row.on_path_ms) for row in rows) == round(1e6 * table.path_gpu_ms)
    assert sum(round(1e6 * row.time_ms) for row in rows) == sum(
        round(1e6 * part.time_ms) for part in table.path
    )
    for row in rows:
        assert 0 <= row.least_slack_us <= row.median_slack_us <= 1e3 * table.span_ms
        assert row.least_slack_us == 0 or row.on_path_ms == 0
