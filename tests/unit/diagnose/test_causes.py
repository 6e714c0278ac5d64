"""Every cause: a run in which it happens, and what a diagnosis makes of it."""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from solscope.diagnose.causes import NONE, OWN_CAUSES, UNKNOWN, causes
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.evidence import host
from solscope.diagnose.evidence.base import any_of, statement
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.findings.sensors import SensorFindings
from solscope.diagnose.matching.units import match
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.diagnose.verdict.ranking import rank
from solscope.readers.packed import HostOp, Observations
from tests.sampling import some
from tests.unit.diagnose.making import EAGER, GRAPH, PAGEABLE, PINNED, SHAPES, Edge, Made


def slower_host(base: Made, factor: float, **counters: float) -> Made:
    """The host takes longer everywhere."""
    tiles = {n: v * factor for n, v in base.tiles.items() if "host:" in n or "call" in n}
    sections = {n: (own * factor, ops) for n, (own, ops) in base.sections.items()}
    return base.but(tiles=tiles, sections=sections, counters=counters)


def slower_kernels(base: Made, factor: float, *categories: str) -> Made:
    """Kernels take longer per call; all of them unless categories are given."""
    kernels = {
        key: (calls, us * factor, grid)
        for key, (calls, us, grid) in base.kernels.items()
        if not categories or key[0] in categories
    }
    tiles = {f"compute.{key[0]}": base.tiles[f"compute.{key[0]}"] * factor for key in kernels}
    return base.but(kernels=kernels, tiles=tiles)


def slower_section(base: Made, name: str, added_ms: float, **counters: float) -> Made:
    """One section takes longer."""
    own, ops = base.sections[name]
    return base.but(
        tiles={f"idle.host:{name}": base.tiles[f"idle.host:{name}"] + added_ms},
        sections={name: (own + added_ms, ops * own / (own + added_ms))},
        counters=counters,
    )


def eager_of_graph() -> Made:
    return EAGER.but(requests=None, ops=GRAPH.ops)


FP32 = {
    ("gemm", "nvjet_128", "bf16"): (0, 0.0, "1,1,1"),
    ("gemm", "sgemm_128", "f32"): (48, 90.0, "132,1,1"),
}
UNFUSED = {
    ("attention", "flash_fprop", "bf16"): (0, 0.0, "1,1,1"),
    ("gemm", "bmm", "bf16"): (24, 60.0, "32,32,1"),
    ("softmax", "softmax_forward", "f32"): (12, 40.0, "32,32,1"),
}

HAPPENED: dict[str, tuple[Made, Made]] = {
    "workload_batch": (EAGER, slower_kernels(EAGER, 1.5).but(requests=64)),
    "workload_context": (GRAPH, slower_kernels(GRAPH, 2.5, "attention")),
    "workload_mix": (
        EAGER.but(phases=("decode",) * 7 + ("mixed",), steps=33),
        EAGER.but(phases=("decode", "mixed"), steps=33),
    ),
    "cpu_contention": (
        EAGER,
        slower_host(EAGER, 2, oncpu_ns=0.5e9, runq_ns=0.48e9, ctx_invol=200.0),
    ),
    "cpu_slow": (EAGER, slower_host(EAGER, 2, cpu_frequency=1050.0).but(
        ops={n: (c, us * 2, s) for n, (c, us, s) in EAGER.ops.items()})),
    "cpu_quota": (
        EAGER,
        slower_host(EAGER, 2, oncpu_ns=0.5e9, runq_ns=0.48e9, cgroup_throttled_ns=0.5e9),
    ),
    "cpu_affinity": (
        EAGER, slower_host(EAGER, 1.5, oncpu_ns=0.66e9, runq_ns=0.32e9, affinity_cores=1)
    ),
    "gpu_contention": (
        GRAPH, slower_kernels(GRAPH, 1.6).but(counters={"gpu_other_processes": 1})
    ),
    "gpu_clock": (GRAPH, slower_kernels(GRAPH, 1.6).but(counters={"gpu_sm_frequency": 1200.0})),
    "pcie": (
        GRAPH,
        GRAPH.but(
            copies={PINNED: (8, 180.0, 2_000_000)},
            tiles={"memcpy.HtoD": 1.44},
            counters={"gpu_pcie_receive": 2e6},
        ),
    ),
    "interconnect": (
        GRAPH.but(
            kernels={("comm", "all_reduce", None): (24, 20.0, "8,1,1")},
            tiles={"comm.comm": 0.48},
        ),
        GRAPH.but(
            kernels={("comm", "all_reduce", None): (24, 90.0, "8,1,1")},
            tiles={"comm.comm": 2.16},
        ),
    ),
    "host_memory": (
        EAGER, slower_section(slower_host(EAGER, 1.15), "schedule", 4.0, host_cpu_usage=80.0)
    ),
    "disk_io": (
        EAGER,
        slower_section(EAGER, "schedule", 10.0, write_bytes=1e8, write_calls=90.0,
                       oncpu_ns=0.7e9, ctx_vol=90.0),
    ),
    "gc": (EAGER, slower_section(EAGER, "schedule", 60.0)),
    "lock_wait": (
        EAGER,
        slower_section(EAGER, "decode", 15.0, oncpu_ns=0.55e9, process_cpu_ns=1.8e9,
                       ctx_vol=200.0, process_threads=41),
    ),
    "slow_section": (EAGER, slower_section(EAGER, "sample", 6.0)),
    "extra_sync": (
        EAGER,
        EAGER.but(calls={"sync": 30}, tiles={"idle.sync": 3.0, "idle.host:decode": 14.0}),
    ),
    "pageable_copy": (
        GRAPH,
        GRAPH.but(
            copies={PINNED: (0, 0.0, 0), PAGEABLE: (8, 150.0, 2_000_000)},
            tiles={"memcpy.HtoD": 0.0, "memcpy.HtoD pageable": 1.2},
        ),
    ),
    "graphs_off": (GRAPH, eager_of_graph()),
    "kernel_changed": (
        GRAPH,
        GRAPH.but(
            kernels=UNFUSED,
            tiles={"compute.attention": 0.0, "compute.gemm": 2.7, "compute.softmax": 0.5},
        ),
    ),
    "dtype_changed": (GRAPH, GRAPH.but(kernels=FP32, tiles={"compute.gemm": 4.3})),
    "allocator": (
        EAGER, EAGER.but(calls={"alloc": 6, "free": 6}, tiles={"idle.alloc": 8.0})
    ),
}  # fmt: skip


EDGES = (
    Edge(
        "gc_pause_ms",
        host.long_pause,
        slower_section(EAGER, "schedule", 18.5),
        slower_section(EAGER, "schedule", 20.5),
    ),
)
"""Limits that only one cause reads; `test_thresholds.py` moves them and those of shared checks."""


@pytest.mark.parametrize("cause", OWN_CAUSES, ids=lambda cause: cause.id)
def test_every_check_of_a_cause_states_what_holds(cause: Cause) -> None:
    """The reference, which is generated, quotes these sentences."""
    supporting = (support.check for support in cause.supporting)
    for check in (*cause.required, *supporting, *cause.forbidden):
        assert re.fullmatch(r"[A-Z].+\.", statement(check)), check


def test_either_of_several_checks_is_stated() -> None:
    assert statement(any_of(host.throttled, host.fewer_cores)) == (
        'Any of: "A quota stops the process", "The process may use fewer cores".'
    )


@cache
def findings(name: str) -> Findings:
    normal, abnormal = HAPPENED[name]
    found = find(match(normal.run(), abnormal.run(3)))
    assert isinstance(found, Findings)
    return found


def test_there_is_a_run_for_every_cause() -> None:
    """These are also the ids that machines rely on, in the order of the reference."""
    ids = [cause.id for cause in OWN_CAUSES]
    assert (NONE, UNKNOWN) == ("none", "unknown")
    assert list(HAPPENED) == ids, f"HAPPENED needs these, in this order: {', '.join(ids)}"


def ranking(result: Diagnosis) -> str:
    """Causes with their evidence, and what excludes the others, for a message."""
    named = [
        f"{cause.id} {cause.confidence:.0%}: for {'; '.join(cause.evidence) or 'nothing'}"
        + (f"; against {'; '.join(cause.against)}" if cause.against else "")
        for cause in result.causes
    ]
    excluded = [f"{item.id} is excluded: {item.reason}" for item in result.excluded]
    return "\n".join([*named, *excluded])


@cache
def diagnosed(name: str) -> Diagnosis:
    normal, abnormal = HAPPENED[name]
    return diagnose_runs(normal.run(), abnormal.run(3))


@pytest.mark.parametrize("name", some(HAPPENED, 2))
def test_it_is_named_first(name: str) -> None:
    result = diagnosed(name)
    assert result.causes[0].id == name, ranking(result)
    assert result.verdict == ("workload_changed" if name.startswith("work") else "regression")
    assert result.causes[0].evidence


RELATED = {"gc": "slow_section", "disk_io": "slow_section", "host_memory": "slow_section"}
"""What also is true of such a run: one section got slower."""


@pytest.mark.parametrize("name", some(reversed(HAPPENED), 2))
def test_without_it_nothing_else_is_named_with_confidence(name: str) -> None:
    others = [cause for cause in causes() if cause.id != name]
    first = rank(findings(name), others).first
    assert first.id in (UNKNOWN, RELATED.get(name)) or first.confidence < 0.75, (
        first.id, first.confidence)  # fmt: skip


@pytest.mark.parametrize("name", HAPPENED)
def test_confidences_sum_to_one(name: str) -> None:
    assert sum(c.confidence for c in rank(findings(name)).causes) == pytest.approx(1.0)


@pytest.mark.parametrize("base", [EAGER, GRAPH], ids=["eager", "graph"])
def test_the_same_run_again_is_no_change(base: Made) -> None:
    result = diagnose_runs(base.run(), base.run(3))
    assert result.verdict == "no_change"
    assert [cause.id for cause in result.causes] == ["none"]


NO_SENSORS = ("cpu_contention", "cpu_quota", "cpu_affinity", "lock_wait")


@pytest.mark.parametrize("name", NO_SENSORS)
def test_what_only_sensors_tell_is_not_guessed_without_them(name: str) -> None:
    normal, abnormal = (msgspec.structs.replace(made.run(), counters=[]) for made in HAPPENED[name])
    result = diagnose_runs(normal, abnormal)
    assert result.verdict == "regression"
    assert result.causes[0].id == UNKNOWN or result.causes[0].confidence < 0.75


def test_use_of_the_gpu_alone_names_nothing() -> None:
    busy = slower_host(EAGER, 1.5, gpu_usage=90.0, gpu_power_mw=600_000.0)
    result = diagnose_runs(EAGER.run(), busy.run())
    assert result.causes[0].id == UNKNOWN


def test_all_host_code_at_another_pace_is_no_change_unless_something_drives_it() -> None:
    ops = {n: (calls, us * 1.4, shape) for n, (calls, us, shape) in EAGER.ops.items()}
    alone = slower_host(EAGER, 1.4).but(ops=ops)
    driven = alone.but(counters={"host_cpu_usage": 16.0})
    result = diagnose_runs(EAGER.run(), alone.run(3))
    assert result.verdict == "no_change"
    assert "×1.40" in result.sentence
    assert "all host code takes ×1.40" in result.causes[0].evidence[1]
    assert len(diagnose_runs(EAGER.run(), EAGER.run(3)).causes[0].evidence) == 1
    assert diagnose_runs(EAGER.run(), driven.run(3)).causes[0].id == "cpu_slow"


def test_collections_that_were_recorded_are_named() -> None:
    marked = EAGER.but(tiles={"idle.gc": 2.0}, sections={"gc": (2.0, 0.0)})
    result = diagnose_runs(EAGER.run(), marked.run(3))
    assert result.causes[0].id == "gc"
    assert result.causes[0].confidence > 0.9


def test_a_batch_is_told_by_launch_grids_where_shapes_are_hidden() -> None:
    kernels = {
        key: (calls, us * 1.3, grid.replace("32,1,1", "64,1,1"))
        for key, (calls, us, grid) in GRAPH.kernels.items()
    }
    result = diagnose_runs(GRAPH.run(), slower_kernels(GRAPH, 1.3).but(kernels=kernels).run(3))
    assert (result.verdict, result.causes[0].id) == ("workload_changed", "workload_batch")


def test_a_longer_context_is_told_by_shapes_where_they_are() -> None:
    longer = slower_kernels(EAGER, 2.0, "attention").but(
        ops={"aten::_flash_attention": (240, 100.0, SHAPES.replace("1536", "3584"))}
    )
    result = diagnose_runs(EAGER.run(), longer.run())
    assert result.verdict == "workload_changed"
    assert result.causes[0].id == "workload_context"
    assert "1536" in result.causes[0].evidence[0]


def test_other_work_that_does_not_explain_the_difference_is_not_blamed_for_it() -> None:
    """A longer context beside a faster host: steps get shorter in spite of it."""
    longer = slower_kernels(EAGER, 2.0, "attention").but(
        ops={"aten::_flash_attention": (240, 100.0, SHAPES.replace("1536", "3584"))}
    )
    result = diagnose_runs(slower_host(EAGER, 3.0).run(), longer.run(3))
    assert result.verdict == "workload_changed"
    assert result.ratio is not None
    assert result.ratio < 0.9
    assert result.sentence.endswith("; the change of work accounts for only 0 % of that.")
    assert "accounts for" not in diagnose_runs(EAGER.run(), longer.run(3)).sentence


@pytest.mark.parametrize(("start", "changed"), [(513, False), (530, False), (1024, True)])
def test_contexts_that_grow_are_told_by_their_mean(start: int, changed: bool) -> None:
    def growing(run: Observations, lengths: range) -> Observations:
        name = "aten::_flash_attention"
        shapes = {SHAPES.replace("1536", str(length)): 12 for length in lengths}
        others = [op for op in run.host_ops if op.name != name]
        return msgspec.structs.replace(run, host_ops=[*others, HostOp(name, 240, 1, 1, 1, shapes)])

    normal = growing(EAGER.run(), range(513, 519))
    abnormal = growing(slower_host(EAGER, 2.0).run(3), range(start, start + 3))
    result = diagnose_runs(normal, abnormal)
    assert (result.verdict == "workload_changed") is changed
    assert (result.causes[0].id == "workload_context") is changed


def test_what_is_there_without_effect_is_latent() -> None:
    synced = EAGER.but(calls={"sync": 30})
    result = diagnose_runs(EAGER.run(), synced.run())
    assert result.verdict == "no_change"
    assert [(item.id, item.ms) for item in result.latent] == [("extra_sync", 0.0)]


def test_a_faster_run_is_an_improvement_and_says_what_is_gone() -> None:
    normal, abnormal = HAPPENED["cpu_contention"]
    result = diagnose_runs(abnormal.run(), normal.run())
    assert result.verdict == "improvement"
    assert result.causes[0].id == "cpu_contention"
    assert result.causes[0].title.startswith("in the normal run")


@pytest.mark.parametrize("name", list(HAPPENED))
def test_evidence_is_said_once(name: str) -> None:
    for cause in rank(findings(name)).causes:
        for text in cause.evidence:
            others = [other for other in cause.evidence if other != text]
            assert not any(text in other.split("; ") for other in others)


@pytest.mark.parametrize(("pressure", "holds"), [(3.4, False), (9.0, True)])
def test_pressure_of_the_machine_proves_io_if_it_is_part_of_the_added_time(
    pressure: float, holds: bool
) -> None:
    """Waiting for I/O in 3.4 % of the time does not make steps half as long again."""
    change: Any = SimpleNamespace(name="psi_io_some_ns", normal=0.0, abnormal=pressure)
    parts: Any = SimpleNamespace(normal_ms=5.7, abnormal_ms=8.55, delta_ms=2.85)
    findings: Any = SimpleNamespace(
        sensors=SensorFindings([change], parts, THRESHOLDS), limits=THRESHOLDS
    )
    assert host.io_pressure(findings).holds
    assert host.stalled_by_io(findings).holds is holds
