"""Every limit at its edge: a run just short of it, one just beyond it, and what a check answers.

The numbers of the runs are written out, so that a limit which is moved by a fifth fails here.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from solscope.diagnose import thresholds
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.mix import Share
from solscope.diagnose.matching.units import match
from solscope.diagnose.thresholds import Thresholds
from solscope.diagnose.verdict.judging import _shifted
from solscope.readers.packed import Observations
from tests.sampling import some
from tests.unit.diagnose import test_causes, test_least_data
from tests.unit.diagnose.making import EAGER, GRAPH, PAGEABLE, PINNED, Edge, Made
from tests.unit.diagnose.test_causes import slower_host, slower_kernels, slower_section


def findings(normal: Made, abnormal: Made) -> Findings:
    found = find(match(normal.run(), abnormal.run(3)))
    assert found is not None
    return found


def slow(**counters: float) -> Made:
    """The host takes twice as long; sensors as given."""
    return slower_host(EAGER, 2.0, **counters)


def ops(factor: float, calls: int | None = None) -> Made:
    return EAGER.but(
        ops={n: (calls or count, us * factor, s) for n, (count, us, s) in EAGER.ops.items()}
    )


def grid(blocks: int) -> Made:
    kernels = {key: (calls, us, f"{blocks},1,1") for key, (calls, us, _) in WIDE.kernels.items()}
    return WIDE.but(kernels=kernels)


def unlike_grids(activation: int) -> Made:
    """Twice the blocks of norms, and so many of activations."""
    blocks = {"norm": 200, "activation": activation}
    return grid(100).but(
        kernels={
            key: (calls, us, f"{blocks[key[0]]},1,1")
            for key, (calls, us, _) in WIDE.kernels.items()
            if key[0] in blocks
        }
    )


def dtype(f32: float) -> Made:
    return MANY_GEMMS.but(
        kernels={
            ("gemm", "nvjet_128", "bf16"): (1000 - f32, 27.0, "132,1,1"),
            ("gemm", "sgemm_128", "f32"): (f32, 27.0, "132,1,1"),
        }
    )


def moved(name: str, more: float) -> Made:
    return EAGER.but(counters={name: EAGER.counters[name] + more})


def copies(us: float, size: int = 2_000_000, **counters: float) -> Made:
    return EAGER.but(copies={PINNED: (8, us, size)}, counters=counters)


def unpinned(size: int) -> Made:
    return EAGER.but(copies={PAGEABLE: (1, 150.0, size)})


def section(name: str, factor: float) -> Made:
    own, in_ops = SCHEDULED.sections[name]
    label = f"idle.host:{name}"
    return SCHEDULED.but(
        tiles={label: SCHEDULED.tiles[label] * factor}, sections={name: (own * factor, in_ops)}
    )


def longer(base: Made, **added_ms: float) -> Made:
    """Several sections take longer, and the GPU waits for each of them by as much."""
    tiles = {f"idle.host:{n}": base.tiles[f"idle.host:{n}"] + ms for n, ms in added_ms.items()}
    sections = {n: (base.sections[n][0] + ms, base.sections[n][1]) for n, ms in added_ms.items()}
    return base.but(tiles=tiles, sections=sections)


SCHEDULED = EAGER.but(tiles={"idle.host:schedule": 3.0})
LONG_SCHEDULE = EAGER.but(tiles={"idle.host:schedule": 8.0})
WIDE = GRAPH.but(
    kernels={
        ("norm", "rms_norm", "bf16"): (25, 6.0, "100,1,1"),
        ("activation", "silu_mul", "bf16"): (12, 8.3, "100,1,1"),
    }
)
MANY_GEMMS = GRAPH.but(kernels={("gemm", "nvjet_128", "bf16"): (1000, 27.0, "132,1,1")})

EDGES = [
    Edge("kernel_grew", gpu.kernels_slower, slower_kernels(EAGER,
         1.055), slower_kernels(EAGER, 1.065)),
    Edge("kernel_same", gpu.kernels_same, slower_kernels(EAGER,
         1.055), slower_kernels(EAGER, 1.045)),
    Edge("set_changed", work.kernel_set_changed,
         EAGER.but(kernels={("gemm", "new", "bf16"): (1, 110.0, "1,1,1")}),
         EAGER.but(kernels={("gemm", "new", "bf16"): (1, 160.0, "1,1,1")})),
    Edge("categories_slower", gpu.all_kernels_slower,
         slower_kernels(EAGER, 1.2, "gemm", "norm"),
         slower_kernels(EAGER, 1.2, "gemm", "norm", "attention")),
    Edge("clock_fell", gpu.clock_fell, moved("gpu_sm_frequency",
         -80), moved("gpu_sm_frequency", -120)),
    Edge("clock_fell", host.slower_clock, moved("cpu_frequency",
         -90), moved("cpu_frequency", -120)),
    Edge("bandwidth_fell", gpu.copies_slower, copies(53.5), copies(56.5)),
    Edge("bandwidth_with_traffic", gpu.copies_slower,
         copies(45.9, gpu_pcie_receive=900_000.0), copies(46.6, gpu_pcie_receive=900_000.0)),
    Edge("pcie_grew", gpu.pcie_traffic,
         EAGER.but(counters={"gpu_pcie_receive": 720_000.0}),
         EAGER.but(counters={"gpu_pcie_receive": 780_000.0})),
    Edge("pcie_more_mbps", gpu.pcie_traffic,
         EAGER.but(counters={"gpu_pcie_receive": 105_000.0}),
         EAGER.but(counters={"gpu_pcie_receive": 115_000.0}),
         EAGER.but(counters={"gpu_pcie_receive": 10_000.0})),
    Edge("foreign_gpu", gpu.foreign_gpu,
         EAGER.but(counters={"gpu_usage": 24.0}), EAGER.but(counters={"gpu_usage": 28.5})),
    Edge("runq_share", host.waits_for_core,
         slower_host(EAGER, 1.06, runq_ns=0.028e9), slower_host(EAGER, 1.06, runq_ns=0.034e9)),
    Edge("of_added", host.waits_for_core, slow(runq_ns=0.075e9), slow(runq_ns=0.11e9)),
    Edge("blocked_share", host.stopped,
         slower_host(EAGER, 1.04, oncpu_ns=0.943e9), slower_host(EAGER, 1.04, oncpu_ns=0.92e9)),
    Edge("throttled_share", host.throttled,
         moved("cgroup_throttled_ns", 0.045e9), moved("cgroup_throttled_ns", 0.055e9)),
    Edge("heap_grew", host.heap_grew,
         EAGER.but(counters={"process_mem_used": 1.08e9}),
         EAGER.but(counters={"process_mem_used": 1.12e9}),
         EAGER.but(counters={"process_mem_used": 1.00e9})),
    Edge("most", host.runs_longer, slow(oncpu_ns=0.75e9), slow(oncpu_ns=0.8e9)),
    Edge("host_ops_grew", host.slower_ops, ops(1.13), ops(1.17)),
    Edge("preempted_factor", host.preempted,
         EAGER.but(counters={"ctx_invol": 190.0}), EAGER.but(counters={"ctx_invol": 230.0}),
         EAGER.but(counters={"ctx_invol": 105.0})),
    Edge("preempted_more", host.preempted, moved("ctx_invol", 9), moved("ctx_invol", 11)),
    Edge("foreign_cpu", host.foreign_cpu, moved("host_cpu_usage",
         2.8), moved("host_cpu_usage", 3.2)),
    Edge("many_cores", host.many_cores_busy, moved("host_cpu_usage",
         9), moved("host_cpu_usage", 11)),
    Edge("own_threads", host.busy_threads,
         moved("process_cpu_ns", 0.13e9), moved("process_cpu_ns", 0.17e9)),
    Edge("major_faults", host.memory_pressure,
         EAGER.but(counters={"page_faults_major": 24.0}),
         EAGER.but(counters={"page_faults_major": 30.0})),
    Edge("psi_share", host.io_pressure,
         EAGER.but(counters={"psi_io_some_ns": 0.009e9}),
         EAGER.but(counters={"psi_io_some_ns": 0.011e9}),
         EAGER.but(counters={"psi_io_some_ns": 0.0})),
    Edge("iowait_pct", host.io_pressure,
         EAGER.but(counters={"host_cpu_iowait": 1.4}), EAGER.but(counters={"host_cpu_iowait": 1.7}),
         EAGER.but(counters={"host_cpu_iowait": 0.5})),
    Edge("io_bytes", host.more_io, moved("write_bytes", 2.9e6), moved("write_bytes", 3.9e6)),
    Edge("io_calls", host.more_io, moved("write_calls", 45.0), moved("write_calls", 65.0)),
    Edge("calls_grew", host.more_io,
         EAGER.but(counters={"write_bytes": 14e6}), EAGER.but(counters={"write_bytes": 16e6}),
         EAGER.but(counters={"write_bytes": 10e6})),
    Edge("io_rate_grew", host.more_io,
         slow(write_bytes=11.5e6), slow(write_bytes=12.5e6),
         EAGER.but(counters={"write_bytes": 10e6})),
    Edge("calls_grew", work.more_syncs,
         EAGER.but(calls={"sync": 14}), EAGER.but(calls={"sync": 16}),
         EAGER.but(calls={"sync": 10})),
    Edge("launches_grew", work.more_launches,
         EAGER.but(calls={"launch": 312}), EAGER.but(calls={"launch": 318})),
    Edge("launches_more", work.more_launches,
         EAGER.but(calls={"launch": 14}), EAGER.but(calls={"launch": 16}),
         EAGER.but(calls={"launch": 10})),
    Edge("graph_share_pct", work.graphs_lost,
         GRAPH.but(graph_pct=88.0, calls={"launch": 40, "graph_launch": 0}),
         GRAPH.but(graph_pct=86.0, calls={"launch": 40, "graph_launch": 0}), GRAPH),
    Edge("graph_launches", work.graphs_lost,
         GRAPH.but(graph_pct=80.0, calls={"launch": 40, "graph_launch": 975}),
         GRAPH.but(graph_pct=80.0, calls={"launch": 40, "graph_launch": 966}),
         GRAPH.but(calls={"graph_launch": 1000})),
    Edge("grid_same", work.batch_differs, grid(104), grid(106), WIDE),
    Edge("unit_spread", work.batch_differs, unlike_grids(178), unlike_grids(182), grid(100)),
    Edge("dtype_moved", work.dtype_differs, dtype(25), dtype(35), MANY_GEMMS),
    Edge("unpinned_grew", work.more_pageable, unpinned(1_150_000), unpinned(1_250_000),
         unpinned(1_000_000)),
    Edge("io_bytes", work.more_pageable, unpinned(58_000), unpinned(75_000), unpinned(100)),
    Edge("part", host.host_grew,
         EAGER.but(tiles={"idle.host:decode": 11.44, "compute.gemm": 2.9}),
         EAGER.but(tiles={"idle.host:decode": 11.7, "compute.gemm": 2.9})),
    Edge("attention_alone", work.attention_alone,
         slower_kernels(GRAPH, 1.5, "attention").but(
             kernels={("elementwise", "add", "bf16"): (200, 3.1, "64,1,1")}),
         slower_kernels(GRAPH, 1.5, "attention").but(
             kernels={("elementwise", "add", "bf16"): (200, 2.8, "64,1,1")}), GRAPH),
    Edge("section_grew", host.in_one_section, section("schedule", 1.9), section("schedule", 2.1),
         SCHEDULED),
    Edge("concentrated", host.in_one_section,
         longer(SCHEDULED, schedule=5.7, decode=4.3), longer(SCHEDULED, schedule=6.3, decode=3.7),
         SCHEDULED),
    Edge("disproportion", host.in_one_section,
         longer(LONG_SCHEDULE, schedule=9.3, decode=5.7),
         longer(LONG_SCHEDULE, schedule=10.2, decode=4.8), LONG_SCHEDULE),
    Edge("python_section", host.plain_python,
         slower_section(EAGER.but(sections={"schedule": (0.5, 1.0)}), "schedule", 1.6),
         slower_section(EAGER.but(sections={"schedule": (0.5, 1.0)}), "schedule", 2.4),
         EAGER.but(sections={"schedule": (0.5, 1.0)})),
    Edge("stopped_with_main", host.process_stopped,
         slow(oncpu_ns=0.5e9, process_cpu_ns=0.5e9 + 0.26e9),
         slow(oncpu_ns=0.5e9, process_cpu_ns=0.5e9 + 0.235e9)),
    Edge("min_effect", host.in_one_section,
         longer(EAGER, schedule=0.53), longer(EAGER, schedule=0.60)),
    Edge("dose_slack", host.slower_clock,
         longer(EAGER, decode=10.8).but(counters={"cpu_frequency": 1890.0}),
         longer(EAGER, decode=9.5).but(counters={"cpu_frequency": 1890.0})),
    *test_causes.EDGES,
]  # fmt: skip


def name(edge: Edge) -> str:
    return f"{edge.limit}-{edge.check.__name__}"


def holds(edge: Edge, limits: Thresholds) -> list[bool]:
    """Answers short of the limit and beyond it."""
    answers = []
    for abnormal in (edge.short, edge.beyond):
        found = find(match(edge.normal.run(), abnormal.run(3)), limits)
        assert found is not None
        answers.append(edge.check(found).holds is True)
    return answers


@pytest.mark.parametrize("edge", some(EDGES, 6), ids=name)
def test_a_check_answers_no_short_of_its_limit_and_yes_beyond(edge: Edge) -> None:
    assert holds(edge, Thresholds()) == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("edge", EDGES, ids=name)
def test_it_is_that_limit_which_decides(edge: Edge) -> None:
    value = getattr(Thresholds(), edge.limit)
    for factor in (0.7, 1.3):
        assert holds(edge, Thresholds(**{edge.limit: value * factor})) != [False, True], factor


# --- Limits of the verdict


def scaled(run: Observations, scale: Any) -> Observations:
    """Every step and tile of a run made longer or shorter, step by step."""
    tiles = [
        msgspec.structs.replace(t, ns=[round(ns * s) for ns, s in zip(t.ns, scale, strict=True)])
        for t in run.tiles
    ]
    walls = [sum(t.ns[at] for t in tiles) for at in range(len(run.steps))]
    steps = [
        msgspec.structs.replace(step, wall_ns=wall)
        for step, wall in zip(run.steps, walls, strict=True)
    ]
    return msgspec.structs.replace(run, tiles=tiles, steps=steps)


def test_a_faster_run_is_an_improvement_and_a_slower_one_a_regression() -> None:
    base = GRAPH.run()
    for factor, verdict in ((0.7, "improvement"), (1.4, "regression"), (1.0, "no_change")):
        result = diagnose_runs(base, scaled(GRAPH.run(3), [factor] * len(base.steps)))
        assert result.verdict == verdict


@pytest.mark.parametrize(
    ("larger", "significant"),
    [(5, True), (4, False)],
    ids=["p=0.008", "p=0.016"],
)
def test_single_steps_have_shifted_below_one_in_a_hundred(larger: int, significant: bool) -> None:
    # Of five steps each, all abnormal ones larger: p = 2/252. One of them between the largest two
    # normal ones: p = 4/252.
    abnormal = [100.0 + at for at in range(larger)] + [14.5] * (5 - larger)
    units = SimpleNamespace(
        normal=SimpleNamespace(wall=np.arange(11.0, 16.0)),
        abnormal=SimpleNamespace(wall=np.array(abnormal)),
        factor=1.0,
    )
    f: Any = SimpleNamespace(units=units, limits=Thresholds())
    assert _shifted(f, np.arange(5), np.arange(5)) is significant


@pytest.mark.parametrize(("p", "significant"), [(0.0099, True), (0.0101, False), (0.1, False)])
def test_a_mix_has_changed_below_one_in_a_hundred(p: float, significant: bool) -> None:
    limit = Thresholds().mix_p
    assert Share(0.1, 0.6, 0.0, p, limit).sure is significant


@pytest.mark.parametrize(("shared", "known"), [(2, False), (3, True)])
def test_the_pace_of_the_host_needs_three_operators(shared: int, known: bool) -> None:
    names = ("aten::mul", "aten::rms_norm", "aten::mm")[:shared]
    some = EAGER.but(ops={n: (5, us, s) for n, (_, us, s) in EAGER.ops.items()}).but(
        ops={n: EAGER.ops[n] for n in names}
    )
    ratio = findings(some, some).host.op_ratio
    assert (ratio is not None) is known


@pytest.mark.parametrize(("calls", "known"), [(9, False), (10, True)])
def test_an_operator_needs_ten_calls(calls: int, known: bool) -> None:
    some = ops(1.0, calls)
    assert (findings(some, some).host.op_ratio is not None) is known


@pytest.mark.parametrize(("spread", "regular"), [(0.3, True), (0.5, False)])
def test_a_section_is_regular_up_to_a_spread_of_15_percent(spread: float, regular: bool) -> None:
    run = slower_section(EAGER, "sample", 6.0).run(3)
    size = len(run.steps)
    scale = [1 + spread * (at * 7 % size / (size - 1) - 0.5) for at in range(size)]
    sections = [
        msgspec.structs.replace(
            s, own_ns=[round(ns * f) for ns, f in zip(s.own_ns, scale, strict=True)]
        )
        for s in run.sections
    ]
    found = find(match(EAGER.run(), msgspec.structs.replace(run, sections=sections)))
    assert found is not None
    answer = host.regular(found)
    assert answer.holds is regular, answer.text


@pytest.mark.parametrize(("gbps", "known"), [(0.95, False), (1.05, True)])
def test_copies_slower_than_1_gb_per_second_say_nothing(gbps: float, known: bool) -> None:
    small = copies(20.0, round(gbps * 20_000))
    assert (gpu.copies_slower(findings(small, small)).holds is not None) is known


@pytest.mark.parametrize(("syncs", "more"), [(1, False), (2, True)])
def test_one_more_call_per_step_is_more(syncs: int, more: bool) -> None:
    assert work.more_syncs(findings(EAGER, EAGER.but(calls={"sync": syncs}))).holds is more
    raised = find(
        match(EAGER.run(), EAGER.but(calls={"sync": syncs}).run()), Thresholds(calls_more=1.3)
    )
    assert raised is not None
    assert not work.more_syncs(raised).holds


TESTED_ABOVE = {"large_copy_gbps", "section_regular", "host_op_calls"}
"""Limits whose edge takes a test of its own."""


def limits_of_checks() -> set[str]:
    """Names in `limits.NAME` and `f.limits.NAME`, in the modules of evidence and causes."""
    folder = Path(thresholds.__file__).parent
    files = [file for name in ("evidence", "causes") for file in (folder / name).glob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    attributes = (node for node in nodes if isinstance(node, ast.Attribute))
    return {node.attr for node in attributes if ast.unparse(node.value).endswith("limits")}


def test_every_limit_that_a_check_reads_has_an_edge() -> None:
    others = limits_of_checks() - {edge.limit for edge in EDGES}
    assert others == TESTED_ABOVE | test_least_data.TESTED, "add an Edge for a new limit to EDGES"


def test_every_limit_has_a_reason() -> None:
    source = ast.parse(inspect.getsource(thresholds))
    body = next(node for node in source.body if isinstance(node, ast.ClassDef)).body
    fields = [(a, b) for a, b in pairwise(body) if isinstance(a, ast.AnnAssign)]
    for field, text in fields:
        assert isinstance(field.target, ast.Name)
        assert isinstance(text, ast.Expr), field.target.id
        words = ast.literal_eval(text.value)
        assert any(origin in words for origin in ("Measured", "Chosen", "Physics")), field.target.id
    assert len(fields) == len(Thresholds.__struct_fields__)
