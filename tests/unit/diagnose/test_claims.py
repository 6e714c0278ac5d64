"""A diagnosis claims no more than was measured."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from solscope.diagnose.causes import UNKNOWN, causes
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import Answer, Check
from solscope.diagnose.findings.findings import find
from solscope.diagnose.matching.units import match
from solscope.diagnose.single import diagnose_run
from solscope.diagnose.thresholds import Thresholds
from solscope.diagnose.verdict.ranking import rank
from solscope.readers.packed import ANCHOR, Observations
from solscope.report.results.diagnose.diagnosis import markdown_diagnosis
from tests.unit.diagnose.making import EAGER, GRAPH, PINNED
from tests.unit.diagnose.test_causes import (
    FP32,
    HAPPENED,
    slower_host,
    slower_kernels,
    slower_section,
)
from tests.unit.diagnose.test_thresholds import findings


def without_sensors(run: Observations) -> Observations:
    return msgspec.structs.replace(run, counters=[])


def test_more_work_in_an_annotated_step_is_slower_and_not_another_unit() -> None:
    more = GRAPH.but(
        kernels={key: (1.65 * n, us, grid) for key, (n, us, grid) in GRAPH.kernels.items()},
        tiles={name: 1.65 * ms for name, ms in GRAPH.tiles.items() if name.startswith("compute")},
    )
    result = diagnose_runs(GRAPH.run(), more.run(3))
    assert result.comparability.factor == 1.0
    assert result.ratio is not None
    assert result.ratio > 1.3


@pytest.mark.parametrize("sides", ["both", "normal", "abnormal"])
def test_a_cause_is_less_sure_without_the_sensors_that_rule_out_others(sides: str) -> None:
    normal, abnormal = EAGER.run(), slower_section(EAGER, "sample", 6.0).run(3)
    sure = diagnose_runs(normal, abnormal)
    if sides in ("both", "normal"):
        normal = without_sensors(normal)
    if sides in ("both", "abnormal"):
        abnormal = without_sensors(abnormal)
    unsure = diagnose_runs(normal, abnormal)
    assert sure.causes[0].id == unsure.causes[0].id == "slow_section"
    assert unsure.causes[0].confidence < sure.causes[0].confidence - 0.05
    assert "run-queue time was not sampled" in unsure.missing_evidence
    assert "run-queue time was not sampled" not in sure.missing_evidence


def test_no_sentence_speaks_of_a_clock_or_a_queue_that_was_not_measured() -> None:
    ops = {n: (calls, us * 1.4, shape) for n, (calls, us, shape) in EAGER.ops.items()}
    alone = slower_host(EAGER, 1.4).but(ops=ops)
    measured = diagnose_runs(EAGER.run(), alone.run(3)).sentence
    assert "at the same clock and without waiting for a core" in measured
    silent = diagnose_runs(without_sensors(EAGER.run()), without_sensors(alone.run(3))).sentence
    assert "clock" not in silent
    assert "core" not in silent


@pytest.mark.parametrize(
    ("clock", "same"), [(1.0, True), (0.97, True), (0.94, False), (1.06, False)]
)
def test_a_clock_that_moved_is_not_called_the_same(clock: float, same: bool) -> None:
    ops = {n: (calls, us * 1.4, shape) for n, (calls, us, shape) in EAGER.ops.items()}
    slower = slower_host(EAGER, 1.4, cpu_frequency=2100.0 * clock).but(ops=ops)
    result = diagnose_runs(EAGER.run(), slower.run(3))
    assert result.verdict == "no_change"
    assert ("at the same clock" in result.sentence) is same
    assert "without waiting for a core" in result.sentence


def test_a_co_tenant_is_seen_with_as_few_samples_as_the_clock() -> None:
    shared = slower_kernels(GRAPH, 1.6).but(counters={"gpu_usage": 99.0}).run(3)
    few = [msgspec.structs.replace(c, n=2, values=c.values[:2], clock=1) for c in shared.counters]
    thin = msgspec.structs.replace(shared, counters=few, clocks=[*shared.clocks, [0, 5000]])
    result = diagnose_runs(GRAPH.run(), thin)
    assert result.causes[0].id == "gpu_contention"
    assert any("in use 99 %" in text for text in result.causes[0].evidence)


def test_a_narrower_type_does_not_make_a_run_slower() -> None:
    wide = GRAPH.but(kernels=FP32)
    found = findings(wide, slower_host(GRAPH, 6.0))
    assert found.delta_ms > 0
    assert work.dtype_differs(found).holds is False
    assert work.dtype_differs(findings(GRAPH, wide.but(tiles={"compute.gemm": 4.3}))).holds


def test_slower_attention_over_the_same_keys_is_no_other_workload() -> None:
    slow = slower_kernels(EAGER, 8.0, "attention")
    result = diagnose_runs(EAGER.run(), slow.run(3))
    assert result.verdict == "regression"
    assert "workload_context" not in [cause.id for cause in result.causes]


def test_a_clock_explains_no_more_than_it_can() -> None:
    slow = slower_kernels(GRAPH, 2.5).but(counters={"gpu_sm_frequency": 0.93 * 1980.0})
    result = diagnose_runs(GRAPH.run(), slow.run(3))
    assert gpu.clock_fell(findings(GRAPH, slow)).holds
    assert result.causes[0].id != "gpu_clock"


def test_a_recording_that_breaks_off_is_weak() -> None:
    run = EAGER.run(3)
    cut = msgspec.structs.replace(
        run, run=msgspec.structs.replace(run.run, warnings=["truncated: the file breaks off"])
    )
    result = diagnose_runs(EAGER.run(), cut)
    assert result.comparability.level == "weak"
    assert "the abnormal recording breaks off" in result.comparability.reasons[0]


def test_causes_that_the_verdict_does_not_need_are_listed() -> None:
    result = diagnose_runs(EAGER.run(), EAGER.but(calls={"sync": 30}).run())
    assert result.verdict == "no_change"
    assert [cause.id for cause in result.hidden_causes] == ["extra_sync"]


def test_what_was_not_sampled_rules_nothing_out() -> None:
    """A cause that a missing sensor would show is open; one that a sensor contradicts is not."""
    slow = slower_section(EAGER, "sample", 6.0)
    sampled = diagnose_runs(EAGER.run(), slow.run(3))
    blind = diagnose_runs(without_sensors(EAGER.run()), without_sensors(slow.run(3)))
    assert {item.id: item.ruled_out for item in sampled.excluded}["cpu_contention"]
    open_causes = {item.id: item.reason for item in blind.excluded if not item.ruled_out}
    assert open_causes["cpu_contention"] == "run-queue time was not sampled"
    assert not any("not sampled" in item.reason for item in blind.excluded if item.ruled_out)
    before, _, after = markdown_diagnosis(blind, top=5).partition("not judged, for lack of data")
    assert "cpu_contention" in after
    assert "cpu_contention" not in before


def test_what_speaks_against_a_cause_comes_before_what_is_not_known_of_it() -> None:
    """Also when the check that was not answered is the first, or is required."""
    unknown, refuted = Answer(None, "not sampled"), Answer(False, "it is idle")
    seen, forbidden = Answer(True, "it waits"), Answer(True, "it was not there")
    known = findings(EAGER, slower_section(EAGER, "sample", 6.0))
    for required, banned, reason, ruled_out in (
        ((seen, unknown, refuted), (), "it is idle", True),
        ((seen, unknown), (forbidden,), "it was not there", True),
        ((seen, unknown), (), "not sampled", False),
    ):
        cause = replace(
            causes()[0],
            required=tuple(answering(answer) for answer in required),
            forbidden=tuple(answering(answer) for answer in banned),
        )
        (excluded,) = rank(known, [cause]).excluded
        assert (excluded.reason, excluded.ruled_out) == (reason, ruled_out)


def answering(answer: Answer) -> Check:
    """A check with this answer."""
    return lambda _: answer


def test_nothing_is_ever_sure() -> None:
    result = diagnose_runs(EAGER.run(), EAGER.run(3))
    assert result.causes[0].id == "none"
    assert 0.5 <= result.causes[0].confidence < 1.0


def test_a_clock_that_fell_without_effect_is_listed() -> None:
    lower = EAGER.but(counters={"gpu_sm_frequency": 1500.0, "gpu_pcie_receive": 3_000_000.0})
    result = diagnose_runs(EAGER.run(), lower.run(3))
    assert result.verdict == "no_change"
    latent = {item.id: item.text for item in result.latent}
    assert latent["gpu_clock"] == "SM clock 1500 MHz (normal 1980)"
    assert latent["pcie"].startswith("PCIe to the GPU 3,000 MB/s")


def test_sums_over_threads_say_nothing_of_the_main_thread() -> None:
    """Some tools count the time of all threads: together they run for more than all the time."""
    threads = EAGER.but(counters={"oncpu_ns": 1.6e9, "host_cpu_usage": 6.0})
    slow = slower_host(threads, 2, oncpu_ns=1.9e9, host_cpu_usage=56.0)
    result = diagnose_runs(threads.run(), slow.run(3))
    assert "host_memory" not in [cause.id for cause in result.causes]
    said = "\n".join(
        [*(item.reason for item in result.excluded)]
        + [text for cause in result.causes for text in (*cause.evidence, *cause.against)]
    )
    assert "all threads together wait for a core" in said
    assert "main thread runs" not in said
    assert "main thread is blocked" not in said


def in_cycles(run: Observations) -> Observations:
    """The same, as a file that knows cycles only: its readings have a unit of their own."""
    return msgspec.structs.replace(
        run, run=msgspec.structs.replace(run.run, found_by=f"{ANCHOR}Scheduler.run_batch")
    )


TWO_GPUS = EAGER.but(
    kernels={("comm", "all_gather", None): (1, 17.0, "8,1,1")},
    tiles={"comm.comm": 0.017},
    counters={"gpu_link_receive": 1e9, "gpu_pcie_receive": 2e8},
)
COMPUTE = ("gemm", "attention", "norm", "activation", "elementwise")


@pytest.mark.parametrize(
    ("counter", "value", "cause", "text"),
    [
        ("gpu_link_receive", 2.6e13, "interconnect", "links between GPUs, to this one, ×26,000"),
        ("gpu_pcie_receive", 7e11, "pcie", "PCIe to the GPU ×3,500"),
        ("gpu_sm_frequency", 360.0, "gpu_clock", "SM clock 360 (normal 1980)"),
    ],
)
def test_a_link_or_a_clock_is_named_before_the_kernels_that_suffer_from_it(
    counter: str, value: float, cause: str, text: str
) -> None:
    """The step waits for the host, so that nothing of this makes it slower."""
    slow = slower_kernels(TWO_GPUS, 1.4, *COMPUTE).but(
        tiles={"idle.host:decode": 10.0}, counters={counter: value, "gpu_usage": 99.0}
    )
    result = diagnose_runs(in_cycles(TWO_GPUS.run()), in_cycles(slow.run(3)))
    assert result.verdict == "no_change"
    assert result.latent[0].id == cause
    assert text in result.latent[0].text
    assert "MB/s" not in result.latent[0].text
    assert "MHz" not in result.latent[0].text


@pytest.mark.parametrize(("idle", "named"), [(2e-4, True), (0.0, False)])
def test_a_reading_without_a_unit_needs_another_to_be_more_than(idle: float, named: bool) -> None:
    """Half of a unit that nobody stated may be next to nothing."""
    normal = TWO_GPUS.but(counters={"gpu_pcie_receive": idle})
    slow = slower_kernels(normal, 1.4, *COMPUTE).but(
        tiles={"idle.host:decode": 10.0}, counters={"gpu_pcie_receive": 0.5}
    )
    result = diagnose_runs(in_cycles(normal.run()), in_cycles(slow.run(3)))
    assert ("pcie" in [item.id for item in result.latent]) is named
    assert "nothing" not in " ".join(item.text for item in result.latent)


def test_links_between_gpus_have_no_unit_that_nobody_stated() -> None:
    """A metrics file does not say it either."""
    slow = TWO_GPUS.but(counters={"gpu_link_receive": 3e9})
    result = diagnose_runs(TWO_GPUS.run(), slow.run(3))
    assert [item.text for item in result.latent] == ["links between GPUs, to this one, ×3"]
    slow = TWO_GPUS.but(counters={"gpu_pcie_receive": 8e8})
    result = diagnose_runs(TWO_GPUS.run(), slow.run(3))
    assert [item.text for item in result.latent] == ["PCIe to the GPU 800,000 MB/s (200,000)"]


def test_communication_is_named_beside_slower_kernels_if_it_lost_much_more() -> None:
    key = ("comm", "all_gather", None)
    for comm_us, named in ((30.0, False), (4200.0, True)):
        slow = slower_kernels(TWO_GPUS, 1.4, *COMPUTE).but(
            kernels={key: (1, comm_us, "8,1,1")}, tiles={"comm.comm": comm_us / 1000}
        )
        result = diagnose_runs(TWO_GPUS.run(), slow.run(3))
        assert ("interconnect" in [cause.id for cause in result.causes]) is named


def test_copies_of_unknown_size_show_a_shared_link_by_its_traffic() -> None:
    unknown = TWO_GPUS.but(copies={PINNED: (8, 44.0, 0)})
    slow = slower_kernels(unknown, 1.4, *COMPUTE).but(
        copies={PINNED: (8, 400.0, 0)}, tiles={"memcpy.HtoD": 3.2}
    )
    for traffic, named in ((2e8, False), (7e11, True)):
        run = slow.but(counters={"gpu_pcie_receive": traffic})
        result = diagnose_runs(in_cycles(unknown.run()), in_cycles(run.run(3)))
        assert ("pcie" in [cause.id for cause in result.causes]) is named


def test_copies_that_lost_as_much_as_kernels_do_not_show_a_shared_link() -> None:
    unknown = TWO_GPUS.but(copies={PINNED: (8, 44.0, 0)})
    slow = slower_kernels(unknown, 1.4, *COMPUTE).but(
        copies={PINNED: (8, 62.0, 0)}, counters={"gpu_pcie_receive": 7e11}
    )
    found = find(match(in_cycles(unknown.run()), in_cycles(slow.run(3))))
    assert found is not None
    assert gpu.pcie_traffic(found).holds
    assert gpu.pcie_shared(found).holds is False


@pytest.mark.parametrize(("traffic", "ruled_out"), [(2e5, True), (8e5, False)])
def test_kernels_that_are_slower_too_rule_out_a_link_without_more_traffic(
    traffic: float, ruled_out: bool
) -> None:
    sized = EAGER.but(counters={"gpu_pcie_receive": 2e5})
    slow = slower_kernels(sized, 1.4, *COMPUTE).but(counters={"gpu_pcie_receive": traffic})
    answer = gpu.kernels_slower_like_copies(findings(sized, slow))
    assert answer.holds is ruled_out


def test_causes_within_the_noise_are_listed_as_hidden_changes() -> None:
    slower = slower_section(EAGER, "schedule", 0.4).run(3)
    result = diagnose_runs(EAGER.run(), slower)
    assert result.verdict == "no_change"
    assert [cause.id for cause in result.hidden_causes] == [
        item.id for item in result.latent if item.component == "cause"
    ]


def test_what_would_prove_a_cause_is_listed_where_none_fits() -> None:
    normal = EAGER.run()
    abnormal = slower_host(EAGER, 2, oncpu_ns=0.5e9, runq_ns=0.48e9, ctx_invol=200.0).run(3)
    assert diagnose_runs(normal, abnormal).causes[0].id == "cpu_contention"
    result = diagnose_runs(without_sensors(normal), without_sensors(abnormal))
    assert result.causes[0].id == "unknown"
    assert "run-queue time was not sampled" in result.missing_evidence
    assert "CPU quota and throttling were not sampled" in result.missing_evidence
    assert not any("median host operator" in text for text in result.missing_evidence)


MOST = (29 + 1) / (29 + 2)
"""Of 29 causes that were named in the lab's test half, none was wrong."""


@pytest.mark.parametrize("name", ["cpu_quota", "graphs_off", "workload_batch"])
def test_no_cause_is_surer_than_the_known_answers_allow(name: str) -> None:
    normal, abnormal = HAPPENED[name]
    found = diagnose_runs(normal.run(), abnormal.run(3))
    assert found.causes[0].id == name
    assert found.causes[0].confidence == pytest.approx(MOST)
    assert sum(cause.confidence for cause in found.causes) == pytest.approx(1.0)
    assert found.causes[-1].id == UNKNOWN
    assert "100 %" not in f"{found.why}"
    unlimited = diagnose_runs(normal.run(), abnormal.run(3), Thresholds(lab_right=10**9))
    assert unlimited.causes[0].confidence > MOST
    assert [c.id for c in unlimited.causes] == [c.id for c in found.causes]


def test_causes_within_one_run_are_no_surer_either() -> None:
    made = EAGER.but(steps=60)
    runs = [made.run(), slower_section(made, "sample", 6.0).run()]
    slow = [int(20 <= at < 40) for at in range(60)]

    def mixed(first: list[int], second: list[int]) -> list[int]:
        return [(first, second)[of][at] for at, of in enumerate(slow)]

    tiles = [
        msgspec.structs.replace(a, ns=mixed(a.ns, b.ns))
        for a, b in zip(runs[0].tiles, runs[1].tiles, strict=True)
    ]
    sections = [
        msgspec.structs.replace(a, own_ns=mixed(a.own_ns, b.own_ns), ns=mixed(a.ns, b.ns))
        for a, b in zip(runs[0].sections, runs[1].sections, strict=True)
    ]
    walls = [sum(tile.ns[at] for tile in tiles) for at in range(60)]
    steps = [
        msgspec.structs.replace(step, wall_ns=wall, start_ns=sum(walls[:at]))
        for at, (step, wall) in enumerate(zip(runs[0].steps, walls, strict=True))
    ]
    run = msgspec.structs.replace(runs[0], tiles=tiles, sections=sections, steps=steps)
    limits = Thresholds(lab_right=2)
    free, found = diagnose_run(run), diagnose_run(run, limits)
    assert free.causes[0].id == found.causes[0].id != UNKNOWN
    assert free.causes[0].confidence > found.causes[0].confidence == pytest.approx(3 / 4)
