"""What a page of the HTML report and of the dashboard shows: results of the library, as they are.

A page is a plain value: `kind` says which one it is, the other fields are results of views. The
front end (`frontend/`) draws it; it computes nothing that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from solscope.attribution import Attributed
from solscope.bench.base import ShapeResult
from solscope.bench.leaderboard import Leaderboard, leaderboard
from solscope.bench.score import select, usual
from solscope.compare.profiles import Comparison, compare_profiles
from solscope.diagnose.counters import by_key, series
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.observations import Counter, Observations
from solscope.diagnose.observe import observe
from solscope.errors import InputError, UsageError
from solscope.hardware import Hardware
from solscope.operators.from_config import Model
from solscope.ranks.facts import rank_facts
from solscope.ranks.read import make_run
from solscope.suite.published import upper_median
from solscope.suite.tables import suite_list, suite_shapes
from solscope.views.collectives import collective_calls
from solscope.views.hotspots import HotspotTable, hotspots
from solscope.views.idle import CAUSES
from solscope.views.kernels import KernelTable, kernels
from solscope.views.layers import LayerTable, layers
from solscope.views.operators import OperatorTable, hardware_of, operator_table
from solscope.views.rank_rows import Run, computes_longest, runs
from solscope.views.ranks import rank_table
from solscope.views.summary import Summary, summarize
from solscope.views.timeline import Timeline, timeline
from solscope.views.tree import TimeNode, time_tree

PUBLIC_SUITE = "atrex"
MOST_KERNELS = 2_000
"""Rows in the kernel table of a page; a note says how many more `solscope kernels` lists."""


class Roofs(msgspec.Struct, frozen=True):
    """What a GPU can do at most, for the roofline."""

    name: str
    title: str
    hbm_tbps: float | None
    peaks_tflops: dict[str, float]
    """By pipe: `tensor.bf16`, `vector.fp32`, ..."""
    measured: bool


class ProfilePage(msgspec.Struct, frozen=True, tag="profile", tag_field="kind"):
    """One profile."""

    title: str
    summary: Summary
    timeline: Timeline
    tree: TimeNode
    """By phase, role and kernel; by category and kernel for a summary."""
    layer_tree: TimeNode | None
    """The same with the layers between phase and role; null where no layer is known."""
    operators: OperatorTable | None
    """Null for a summary, which has no calls."""
    hotspots: HotspotTable | None
    roofs: Roofs | None
    kernels: KernelTable
    kernels_left_out: int
    idle_causes: dict[str, str]
    """What each cause of idle time means."""


class ComparisonPage(msgspec.Struct, frozen=True, tag="comparison", tag_field="kind"):
    """Several profiles side by side."""

    title: str
    comparison: Comparison
    layers: LayerTable | None
    no_layers: str | None
    """Why there is no table of layers."""
    summaries: list[Summary]


class RanksPage(msgspec.Struct, frozen=True, tag="ranks", tag_field="kind"):
    """The ranks of one run, one file each."""

    title: str
    run: Run
    verdict: str
    """Which rank the others wait for, or that none stands out: as `solscope ranks` says it."""
    computes_longest: list[int]
    """Ranks that compute clearly longer than the fastest."""
    summaries: list[Summary]
    """Of the files, in the order of the ranks."""


class StepTime(msgspec.Struct, frozen=True):
    """One step of a run."""

    start_ms: float
    """From the start of the run's first step."""
    time_ms: float
    phase: str | None
    whole: bool
    """False for a step that the recording shows only in part."""


class SensorLine(msgspec.Struct, frozen=True):
    """One sensor in both runs, over the time of their steps."""

    name: str
    device: int | None
    times_ms: list[list[float]]
    values: list[list[float]]
    """Readings, or rates of a count that grows, in the unit that the diagnosis names."""


class DiagnosisPage(msgspec.Struct, frozen=True, tag="diagnosis", tag_field="kind"):
    """What changed between two runs, and why."""

    title: str
    labels: list[str]
    diagnosis: Diagnosis
    steps: list[list[StepTime]]
    """Of the normal and of the abnormal run."""
    sensors: list[SensorLine]


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
    devices: list[str]
    """All devices that results of this suite are of; the page is about one."""
    suites: list[str]
    """All suites that the results are of; the page is about one."""
    leaderboard: Leaderboard
    shapes: list[BenchShape]
    machine: BenchRun
    """The newest run."""
    runs: int
    """From which the results are."""
    production_s: dict[str, float]
    """Median S of the deployed kernels on XPU-A by operator, as the public suite states it."""


Page = ProfilePage | ComparisonPage | RanksPage | DiagnosisPage | BenchPage


def roofs_of(card: Hardware) -> Roofs:
    """The roofs of one GPU."""
    bandwidth = card.value("hbm.bandwidth")
    return Roofs(
        name=card.name,
        title=card.title,
        hbm_tbps=None if bandwidth is None else bandwidth / 1e12,
        peaks_tflops={pipe: f.value / 1e12 for pipe, f in card.peaks.items() if pipe != "sfu"},
        measured=card.measured,
    )


def profile_page(
    attributed: Attributed, hardware: Hardware | None = None, model: Model | None = None
) -> ProfilePage:
    """Everything about one profile."""
    card = hardware or hardware_of(attributed)
    single = not attributed.profile.is_aggregate
    table = kernels(attributed)
    return ProfilePage(
        title=attributed.profile.path,
        summary=summarize(attributed),
        timeline=timeline(attributed),
        tree=time_tree(attributed),
        layer_tree=time_tree(attributed, layers=True) if _has_layers(attributed) else None,
        operators=operator_table(attributed, card, model=model) if single else None,
        hotspots=hotspots(attributed, card, model=model) if single else None,
        roofs=None if card is None else roofs_of(card),
        kernels=msgspec.structs.replace(table, kernels=table.kernels[:MOST_KERNELS]),
        kernels_left_out=max(0, len(table.kernels) - MOST_KERNELS),
        idle_causes=CAUSES,
    )


def _has_layers(attributed: Attributed) -> bool:
    return attributed.activities["layer"].count() > 0


def comparison_page(profiles: Sequence[Attributed], labels: Sequence[str]) -> ComparisonPage:
    """Several profiles, aligned by phase, layer and role."""
    table, reason = _layers(profiles, labels)
    return ComparisonPage(
        title=" · ".join(labels),
        comparison=compare_profiles(profiles, labels),
        layers=table,
        no_layers=reason,
        summaries=[summarize(profile) for profile in profiles],
    )


def ranks_pages(profiles: Sequence[Attributed]) -> list[RanksPage]:
    """One page for each run whose ranks are files among these profiles."""
    ranked = [one for one in profiles if one.profile.metadata.rank is not None]
    if len(ranked) < 2:
        return []
    summaries = {one.profile.path: summarize(one, top=0) for one in ranked}
    calls = {one.profile.path: collective_calls(one) for one in ranked}
    found = runs(list(summaries.values()), calls)
    by_path = {one.profile.path: one for one in ranked}
    return [
        RanksPage(
            title=Path(run.name).name,
            run=run,
            verdict=_waits_for(run, by_path),
            computes_longest=computes_longest(run),
            summaries=[summaries[row.path] for row in run.ranks],
        )
        for run in found
        # One file that merges its ranks lists them on its own page.
        if len({row.path for row in run.ranks}) > 1
    ]


def _waits_for(run: Run, profiles: Mapping[str, Attributed]) -> str:
    facts = [rank for row in run.ranks for rank in rank_facts(profiles[row.path], row.rank)]
    return rank_table(make_run(run.name, facts)).verdict


def diagnosis_page(runs: Sequence[Attributed], labels: Sequence[str]) -> DiagnosisPage:
    """A normal and an abnormal run."""
    observed = [observe(run) for run in runs]
    return DiagnosisPage(
        title=" → ".join(labels),
        labels=list(labels),
        diagnosis=diagnose_runs(observed[0], observed[1]),
        steps=[
            [
                StepTime(step.start_ns / 1e6, step.wall_ns / 1e6, step.phase, step.whole)
                for step in run.steps
            ]
            for run in observed
        ],
        sensors=_sensors(observed),
    )


def bench_page(
    results: Sequence[ShapeResult],
    title: str,
    device: str | None = None,
    suite: str | None = None,
) -> BenchPage:
    """Results of one suite on one device: those that are named, or the usual ones."""
    suite, device = usual(results, suite, device)
    lines = select(results, device=device, suite=suite)
    runs = [_bench_run(line.run) for line in lines]
    return BenchPage(
        title=title,
        devices=sorted({line.device for line in results if line.suite == suite}),
        suites=sorted({line.suite for line in results}),
        leaderboard=leaderboard(results, device, suite=suite),
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


def _sensors(observed: Sequence[Observations]) -> list[SensorLine]:
    sides = [by_key(run) for run in observed]
    keys = sorted({key for side in sides for key in side}, key=str)
    return [_sensor(observed, [side.get(key) for side in sides], *key) for key in keys]


def _sensor(
    observed: Sequence[Observations],
    counters: Sequence[Counter | None],
    name: str,
    device: int | None,
) -> SensorLine:
    lines = [series(run, counter) for run, counter in zip(observed, counters, strict=True)]
    return SensorLine(
        name=name,
        device=device,
        times_ms=[line.times_ms.tolist() for line in lines],
        values=[line.values.tolist() for line in lines],
    )


def _layers(
    profiles: Sequence[Attributed], labels: Sequence[str]
) -> tuple[LayerTable | None, str | None]:
    try:
        return layers(profiles, labels), None
    except (InputError, UsageError) as error:
        return None, str(error)
