"""What pages hold, beside what the library says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import msgspec
import polars as pl
import pytest

import solscope
from solscope import attribute
from solscope.bench.results.files import read_results
from solscope.errors import UsageError
from solscope.pages import details
from solscope.pages.bench import bench_page
from solscope.pages.comparison import comparison_page
from solscope.pages.diagnosis import diagnosis_page
from solscope.pages.profile import profile_page
from solscope.pages.ranks import ranks_pages
from solscope.pages.single import single_page
from solscope.readers.allocations import ALLOCATION_SCHEMA
from solscope.readers.packed import save
from solscope.views.host import host_table
from tests.making import attributed, event, profile
from tests.recordings import attributed_recording
from tests.unit.diagnose.test_single import EIGHTH

RESULTS = Path(__file__).parents[3] / "results" / "bench"
RUNS = Path(__file__).parents[4] / "shared" / "data" / "h200" / "runs"


@pytest.mark.skipif(not RUNS.is_dir(), reason="../shared/data is not here")
def test_sensors_are_drawn_in_the_unit_of_the_table() -> None:
    names = ["normal", "extra_sync"]
    runs = [attributed_recording(RUNS / f"{name}.trace.json.gz") for name in names]
    page = diagnosis_page(runs, names)
    counters = {(c.name, c.device): c for c in page.diagnosis.counters}
    lines = {(line.name, line.device): line for line in page.sensors}
    assert set(lines) == set(counters)
    for name in ("gpu_pcie_receive", "gpu_sm_frequency"):
        assert median(lines[name, 0].values[0]) == pytest.approx(counters[name, 0].normal)
    # A count that grows is drawn as its rate, at the end of the time that it is of.
    waiting = lines["oncpu_ns", None]
    times, values = waiting.times_ms[0], waiting.values[0]
    assert len(times) == len(values) == counters["oncpu_ns", None].test.n[0]
    assert times == sorted(times)
    assert max(values) < 200


def test_a_recording_on_its_own_has_all_its_steps_and_sensors(tmp_path: Path) -> None:
    run = attributed_recording(save(EIGHTH, tmp_path / "run.observations.json"))
    page = single_page(run)
    assert page.diagnosis.verdict == "periodic"
    assert [step.number for step in page.steps] == [step.number for step in EIGHTH.steps]
    counted = [step for step in page.steps if step.looked_at]
    assert len(counted) == page.diagnosis.run.steps == len(page.steps) - 2
    assert {sensor.line.name for sensor in page.sensors} == {one.name for one in EIGHTH.counters}
    parts = [sensor.part for sensor in page.sensors]
    assert parts == sorted(parts, reverse=True)  # Drivers come first.
    units = {sensor.line.name: sensor.unit for sensor in page.sensors}
    assert units["runq_ns"] == "% of time"


def test_results_of_several_suites_and_devices_are_shown_one_at_a_time() -> None:
    main = read_results([RESULTS / "h200-earlier.jsonl"])
    decode = read_results([RESULTS / "h200-decode.jsonl"])
    other = [msgspec.structs.replace(line, device="NVIDIA B200") for line in main[:3]]
    both = [*decode, *other, *main]
    page = bench_page(both, "results")
    assert (page.leaderboard.suite, page.leaderboard.device) == ("atrex", "NVIDIA H200")
    assert (page.suites, page.devices) == (["atrex", "decode"], ["NVIDIA B200", "NVIDIA H200"])
    assert page.leaderboard == bench_page(main, "results").leaderboard
    assert len(bench_page(both, "results", "NVIDIA B200").shapes) == 3
    page = bench_page(both, "results", suite="decode")
    assert (page.leaderboard.suite, page.devices) == ("decode", ["NVIDIA H200"])
    assert page.production_s == {}
    with pytest.raises(UsageError, match="'NVIDIA B200' for suite decode"):
        bench_page(both, "results", "NVIDIA B200", "decode")


def test_ranks_of_one_run_make_a_page_and_other_profiles_none() -> None:
    made = [
        attribute(replace(profile(event("kernel", "gemm", 0, 10), rank=rank), path=path))
        for rank, path in ((1, "d/rank1.json"), (0, "d/rank0.json"), (0, "other.json"))
    ]
    (page,) = ranks_pages([*made, attributed(event("kernel", "gemm", 0, 10))])
    assert page.title == "d"
    assert [row.rank for row in page.run.ranks] == [0, 1]
    assert [one.path for one in page.summaries] == ["d/rank0.json", "d/rank1.json"]
    assert ranks_pages(made[1:]) == []


def test_the_page_of_ranks_says_what_ranks_says() -> None:
    """Without whole steps nobody is named, though rank 1 waits least."""
    made = [
        attribute(replace(profile(event("kernel", "ncclDevKernel_AllReduce", 0, dur), rank=rank),
                          path=f"d/rank{rank}.json"))
        for rank, dur in ((0, 30), (1, 10))
    ]  # fmt: skip
    (page,) = ranks_pages(made)
    assert page.run.skew is not None
    assert page.run.skew.slowest == 1
    assert page.headline.sentence.startswith(
        "Cannot tell who waits for whom: only 0 whole steps after the first."
    )
    demo = [attribute(solscope.open(path)) for path in solscope.find_profiles(["demo:ranks"])]
    (page,) = ranks_pages(demo)
    verdict = solscope.rank_table(solscope.open_run("demo:ranks")).verdict
    assert page.headline.sentence.startswith(verdict)
    assert "wait for rank 2" in page.headline.sentence
    assert page.headline.severity == "bad"
    step, cost, share = page.headline.figures
    assert [step.name, cost.name, share.name] == ["step", "cost of rank 2", "cost as a share"]
    assert [step.scope, cost.scope, share.scope] == ["mean of 5 steps", "per step", "of the step"]
    # One scope: the sentence has the same three figures, and one is the ratio of the others.
    said = f"{cost.value:,.2f} of {step.value:,.2f} ms per step ({share.value:.1f} %)"
    assert said in page.headline.sentence
    assert cost.value / step.value == pytest.approx(share.value / 100)
    costs = {row.rank: row.cost_ms for row in page.table.ranks}
    assert cost.value == pytest.approx(costs[2])
    assert page.headline.legend == page.table.legend


def test_ranks_stand_on_one_time_line_with_their_waiting() -> None:
    demo = [attribute(solscope.open(path)) for path in solscope.find_profiles(["demo:ranks"])]
    (page,) = ranks_pages(demo)
    lanes = page.lanes
    assert lanes is not None
    assert [lane.rank for lane in lanes.lanes] == [row.rank for row in page.table.ranks]
    assert len(lanes.steps) == page.table.steps
    for lane, row in zip(lanes.lanes, page.table.ranks, strict=True):
        assert lane.start_us == sorted(lane.start_us)
        waited = sum(lane.wait_us) / row.steps / 1e3
        assert row.wait_ms == pytest.approx(waited, abs=1e-3)
    without = [
        attribute(
            replace(profile(event("kernel", "gemm", 0, 10), rank=rank), path=f"d/rank{rank}.json")
        )
        for rank in (0, 1)
    ]
    (page,) = ranks_pages(without)
    assert page.lanes is None


def test_a_trace_is_read_again_for_memory_unless_its_header_says_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(path: Path) -> pl.DataFrame:
        asked.append(path.name)
        return ALLOCATION_SCHEMA.to_frame()

    monkeypatch.setattr(details, "read_allocations", read)
    on = {"profile_memory": 1}
    for name, header in (("off", {"with_stack": 1}), ("on", {"with_stack": 1} | on), ("old", {})):
        path = tmp_path / f"{name}.json"
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 10}
        path.write_text(json.dumps({**header, "traceEvents": [kernel]}))
        assert details.profile_details(attribute(solscope.open(path))).memory == []
    assert asked == ["on.json", "old.json"]


def test_a_report_has_the_host_side_and_the_dashboard_asks_for_it() -> None:
    demo = attribute(solscope.open("demo:vllm-b200"))
    assert profile_page(demo).details is None
    page = profile_page(demo, whole=True)
    assert page.details is not None
    assert page.details.host is not None
    assert page.details.host.span_ms == pytest.approx(page.summary.gpu_span_ms)
    assert page.details.memory == []
    assert page.efficiency is not None
    assert [row.name for row in page.efficiency.rows] == ["prefill"]
    alone = profile_page(attributed(event("kernel", "gemm", 0, 10)), whole=True)
    assert alone.details is not None
    assert alone.details.host is None
    assert alone.details.no_host is not None
    assert alone.efficiency is None


def test_two_profiles_are_compared_kernel_by_kernel_and_three_are_not() -> None:
    made = [
        attributed(event("kernel", "gemm", 0, dur), event("kernel", "b", 50, 5)) for dur in (10, 20)
    ]
    page = comparison_page(made, ["a", "b"])
    assert page.kernels is not None
    (phase,) = page.kernels.phases
    assert phase.diff_ms == pytest.approx(1e-5)
    assert comparison_page([*made, made[0]], ["a", "b", "c"]).kernels is None


def test_a_page_leaves_out_stacks_that_it_does_not_draw() -> None:
    made = attribute(solscope.open("demo:vllm-b200"))
    host = details.profile_details(made).host
    assert host is not None
    whole = host_table(made)
    assert whole.stacks
    assert host.stacks == []
    assert host.waiting_ms == whole.waiting_ms
