"""The page of benchmark results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from solscope.bench.base import ShapeResult
from solscope.bench.results.leaderboard import Leaderboard, leaderboard
from solscope.bench.results.score import select, usual
from solscope.bench.results.words import time_of
from solscope.pages.headline import Headline, of_bench
from solscope.suite.published import upper_median
from solscope.suite.tables import suite_list, suite_shapes

PUBLIC_SUITE = "atrex"
"""The suite whose authors publish what deployed kernels reach."""


class BenchShape(msgspec.Struct, frozen=True):
    """One solution on one shape."""

    operator: str
    shape: str
    solution: str
    status: str
    reason: str | None
    median_us: float | None
    p20_us: float | None
    p80_us: float | None
    graph_us: float | None
    """Median inside a CUDA graph; null where that was not run."""
    bound_us: float | None
    published_us: float | None
    limiter: str | None
    s: float | None
    max_error: float | None
    samples: list[float]
    axes: dict[str, Any]
    weight: float


class BenchRun(msgspec.Struct, frozen=True):
    """When and how results were made; null if a line does not state it as text."""

    time: str | None
    command: str | None
    versions: dict[str, str] | None


class BenchPage(msgspec.Struct, frozen=True, tag="bench", tag_field="kind"):
    """Results of the benchmark: solutions, operators, shapes."""

    title: str
    headline: Headline
    devices: list[str]
    """All devices that results of this suite are of; the page is about one."""
    suites: list[str]
    """All suites that the results are of; the page is about one."""
    time: str
    """What importance and recoverable time are shares of."""
    leaderboard: Leaderboard
    shapes: list[BenchShape]
    machine: BenchRun
    """The newest run."""
    runs: int
    """From which the results are."""
    production_s: dict[str, float]
    """Median S of the deployed kernels on XPU-A by operator, as the public suite states it."""


def bench_page(
    results: Sequence[ShapeResult],
    title: str,
    device: str | None = None,
    suite: str | None = None,
    ignored: Sequence[str] = (),
) -> BenchPage:
    """Results of one suite on one device: those that are named, or the usual ones.

    `ignored` says what of the files does not count.
    """
    suite, device = usual(results, suite, device)
    lines = select(results, device=device, suite=suite)
    runs = [_bench_run(line.run) for line in lines]
    board = leaderboard(results, device, suite=suite)
    return BenchPage(
        title=title,
        headline=of_bench(board.best, ignored),
        devices=sorted({line.device for line in results if line.suite == suite}),
        suites=sorted({line.suite for line in results}),
        time=time_of(board.suite),
        leaderboard=board,
        shapes=[_bench_shape(line) for line in lines],
        machine=max(runs, key=lambda run: run.time or ""),
        runs=len({(run.time, run.command) for run in runs}),
        production_s=production_s() if suite == PUBLIC_SUITE else {},
    )


def _bench_run(run: dict[str, Any]) -> BenchRun:
    time, command, versions = (run.get(name) for name in ("time", "command", "versions"))
    return BenchRun(
        time=time if isinstance(time, str) else None,
        command=command if isinstance(command, str) else None,
        versions={name: str(version) for name, version in versions.items()}
        if isinstance(versions, dict)
        else None,
    )


def production_s() -> dict[str, float]:
    """Median S of the deployed kernels on XPU-A, by operator."""
    return {
        row.operator: upper_median([shape.s_pct for shape in suite_shapes(row.operator)]) / 100
        for row in suite_list()
    }


def _bench_shape(line: ShapeResult) -> BenchShape:
    graph = line.by("graph")
    return BenchShape(
        operator=line.operator,
        shape=line.shape,
        solution=line.solution,
        status=line.status,
        reason=line.reason,
        median_us=line.median_us,
        p20_us=line.p20_us,
        p80_us=line.p80_us,
        graph_us=None if graph is None else graph[1].median_us,
        bound_us=line.bound_us,
        published_us=line.published_us,
        limiter=line.limiter,
        s=line.s,
        max_error=line.max_error,
        samples=line.samples,
        axes=line.axes,
        weight=line.weight,
    )
