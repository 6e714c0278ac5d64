from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import solscope
from solscope.attribution import Attributed, attribute
from solscope.errors import InputError, UsageError
from solscope.report.results.hotspots import hotspots_parts
from solscope.views.device_time import device_times
from solscope.views.hotspots import Hotspot, advice, hotspots
from solscope.views.hotspots.base import HotspotCoverage
from solscope.views.hotspots.todo import ToDo, Unranked, to_do, unranked
from solscope.views.operators import named_hardware
from solscope.views.typical_step import typical_step
from tests.making import aggregate, attributed, event
from tests.printing import printed
from tests.recordings import attributed_recording

DATA = Path(__file__).parents[4] / "shared" / "data"
H200 = named_hardware("H200")
GEMM, ADD = (
    "nvjet_tst_128x8_64x12_2x1_v_bz_TNT",
    "void at::native::vectorized_elementwise_kernel<4>",
)
MM = {"input_dims": "[[8192,8192],[8192,8192]]", "input_types": '["c10::BFloat16","c10::BFloat16"]'}
SMALL = {"input_dims": "[[64],[64],[]]", "input_types": '["float","float","Scalar"]'}


def op(name: str, kernel: str, at: int, dur: int, number: int, **inputs: str) -> list[Any]:
    """An operator and its one kernel, launched 100 ns before it starts."""
    ids: dict[str, Any] = {"external_id": number}
    return [
        event("cpu_op", name, at - 120, 50, **ids, **inputs),
        event("runtime", "cudaLaunchKernel", at - 100, 50, correlation=number, **ids),
        event("kernel", kernel, at, dur, correlation=number, **ids),
    ]


def made() -> Attributed:
    return attributed(
        *op("aten::mm", GEMM, 10_000, 2_000_000, 1, **MM),
        *op("aten::add", ADD, 2_010_000, 2000, 2, **SMALL),
        *op("aten::add", ADD, 2_012_000, 3000, 3, **SMALL),
        *op("aten::add", ADD, 2_015_000, 4000, 4, **SMALL),
        event("kernel", "ncclDevKernel_AllReduce", 2_019_000, 50_000),
    )


def of_kind(kind: str, made_of: Attributed) -> list[Hotspot]:
    return [h for h in hotspots(made_of, H200).hotspots if h.kind == kind]


def test_an_operator_gives_back_what_lies_above_its_target() -> None:
    (row,) = of_kind("operator", made())
    least = 2 * 8192**3 / 989.4e12 * 1e6  # 1111.29 us, by the tensor cores
    assert (row.operator, row.limiter, row.calls_per_step) == ("aten::mm", "tensor.bf16", 1)
    assert row.bound_us == pytest.approx(least)
    assert row.efficiency_pct == pytest.approx(100 * least / 2000)
    assert row.recoverable_us == pytest.approx(2000 - least / 0.8)
    assert row.confidence == "high"
    assert "1 call x 2,000.00 µs; bound: 1,111.29 µs per call" in row.why


def test_a_run_of_tiny_kernels_gives_back_all_but_the_slowest() -> None:
    (row,) = of_kind("fusion", made())
    assert row.operator == "add + add + add"
    assert (row.time_us, row.recoverable_us) == (9.0, 5.0)


def test_exposed_communication_and_idle_time() -> None:
    assert [(h.operator, h.recoverable_us) for h in of_kind("comm", made())] == [
        ("all_reduce", 50.0)
    ]
    assert sum(h.recoverable_us for h in of_kind("idle", made())) == 0


HTOD, DTOD = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"


def copies() -> Attributed:
    """6 ms of copies from the host, of which a kernel hides 1 ms; then one within the GPU."""
    return attributed(
        event("kernel", GEMM, 0, 2_000_000),
        event("memcpy", HTOD, 1_000_000, 6_000_000, stream=9, bytes=1000),
        event("memcpy", DTOD, 7_000_000, 1_000_000, bytes=1000),
    )


def test_exposed_copies_by_direction() -> None:
    (row,) = of_kind("copy", copies())
    assert (row.operator, row.time_us, row.recoverable_us) == ("memcpy HtoD", 6000.0, 5000.0)
    assert row.recoverable_pct_of_step == pytest.approx(100 * 5 / 8)
    assert row.rank == 1


@pytest.mark.parametrize(("kernel_ms", "can_hide"), [(4, False), (6, True)])
def test_copies_are_to_be_hidden_only_where_enough_runs_that_can(
    kernel_ms: int, can_hide: bool
) -> None:
    (row,) = of_kind(
        "copy",
        attributed(
            event("memcpy", HTOD, 0, 5_000_000, stream=9, bytes=1000),
            event("kernel", GEMM, 5_000_000, kernel_ms * 1_000_000),
        ),
    )
    assert row.advice == (advice.COPIES if can_hide else advice.TOO_MANY_COPIES)["HtoD"]


def test_a_copy_has_one_row() -> None:
    """One within the GPU has a bound where the hardware is known, and is a copy elsewhere."""
    known = [(h.kind, h.operator) for h in hotspots(copies(), H200).hotspots if h.kind != "idle"]
    assert sorted(known) == [("copy", "memcpy HtoD"), ("operator", "memcpy")]
    rows = [(h.kind, h.operator) for h in hotspots(copies()).hotspots]
    assert rows == [("copy", "memcpy HtoD"), ("copy", "memcpy DtoD")]


def launched(count: int, every: int) -> Attributed:
    return attributed(
        *(e for i in range(count) for e in op("aten::add", ADD, every * i, 2000, i + 1, **SMALL))
    )


@pytest.mark.parametrize(("count", "every", "slow"), [(40, 50_000, True), (3, 9_000_000, False)])
def test_slow_launches_are_named_where_many_short_gaps_show_them(
    count: int, every: int, slow: bool
) -> None:
    (host,) = (h for h in of_kind("idle", launched(count, every)) if h.operator == "host")
    assert ("the host launches too slowly" in host.why) == slow
    assert ("Capture the step in a graph" in host.advice) == slow


def test_a_few_long_gaps_are_not_mended_by_a_graph() -> None:
    """Many short gaps, and more time in two long ones, as where the host had to wait for a core."""
    starts = [50_000 * i + 4_000_000 * (i // 20) for i in range(60)]
    run = attributed(
        *(e for i, at in enumerate(starts) for e in op("aten::add", ADD, at, 2000, i + 1, **SMALL))
    )
    (host,) = (h for h in of_kind("idle", run) if h.operator == "host")
    assert "the host launches too slowly" not in host.why
    assert host.advice == advice.IDLE["host"]


def test_an_eager_profile_is_advised_only_for_graph_replays() -> None:
    unknown = [event("kernel", "some_kernel", 0, 1000)]
    graph = event("runtime", "cudaGraphLaunch", -500, 100)
    advice = {
        replays: printed(
            hotspots_parts, hotspots(attributed(*events)), top=1, width=120, color=False
        )
        for replays, events in ((False, unknown), (True, [graph, *unknown]))
    }
    assert "use --model config.json\n" in advice[False]
    assert "use --model config.json or --with an eager profile or capture\n" in advice[True]


def test_rows_are_ranked_and_fit_into_the_step() -> None:
    table = hotspots(made(), H200)
    saved = [h.recoverable_us for h in table.hotspots]
    assert saved == sorted(saved, reverse=True)
    assert [h.rank for h in table.hotspots] == [1, 2, 3]
    assert table.step_ms == pytest.approx(2.059)
    assert table.coverage.cost_pct == pytest.approx(100 * 2009 / 2059)
    assert sum(h.recoverable_pct_of_step for h in table.hotspots) < 100


def test_without_hardware_no_operator_is_ranked() -> None:
    table = hotspots(made())
    assert table.hardware is None
    assert {h.kind for h in table.hotspots} == {"fusion", "comm"}


def test_a_target_is_a_percentage() -> None:
    with pytest.raises(UsageError, match="not 120"):
        hotspots(made(), H200, 120)


def test_a_summary_has_no_hotspots() -> None:
    summary = aggregate(
        {"kind": "kernel", "name": "a", "calls": 1, "total_ns": 10, "mean_ns": 10.0}
    )
    with pytest.raises(InputError, match="a summary has no single calls"):
        hotspots(summary)


def test_text_shows_the_arithmetic() -> None:
    text = printed(hotspots_parts, hotspots(made(), H200), top=1, width=120, color=False)
    assert "1. aten::mm m=8192 n=8192 k=8192" in text
    assert ": 1 call x 2,000.00 µs" in text
    # No steps were found: shares are of the recording, in the table and in words.
    assert "% of the recording (confidence: high)" in text
    assert "of recording" in text
    assert "of step" not in text
    assert "of the step " not in text
    assert "FLOP and bytes known for 97.6 % of GPU time" in text


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared profiles are not beside the repository")
@pytest.mark.parametrize(
    "name", ["h200/models/qwen3moe4l.trace.json.gz", "traces/b200_eager.json.gz"]
)
def test_real_profiles_give_back_less_than_a_step(name: str) -> None:
    table = hotspots(attributed_recording(DATA / name))
    assert table.steps > 0
    assert sum(h.recoverable_us for h in table.hotspots) <= 1000 * table.step_ms
    assert {h.kind for h in table.hotspots} >= {"operator", "fusion", "idle"}


def test_data_in_a_cache_of_unknown_speed_is_held_to_hbm() -> None:
    # 10^7 floats in, 5 x 10^6 out: 40 MB fit in the 50 MB of the L2 of an H100, whose speed is not
    # known. 60 MB at 33.454 TB/s of loads and stores: 1.793 us; at 3.35 TB/s of HBM: 17.91 us
    inputs = {"input_dims": "[[5000000],[5000000],[]]", "input_types": SMALL["input_types"]}
    profile = attributed(
        *op("aten::add", ADD, 10_000, 100_000, 1, **inputs), event("kernel", "k", 110_000, 900)
    )
    row = hotspots(profile, named_hardware("H100")).hotspots[0]
    assert row.bound_us == pytest.approx(60e6 / 33.45408e12 * 1e6)
    assert (row.limiter, row.confidence) == ("l1", "medium")
    assert row.recoverable_us == pytest.approx(100 - 60e6 / 3.35e12 * 1e6 / 0.8)
    assert "time from HBM (the l2 bandwidth is unknown): 17.91 µs" in row.why


def collective(at: int, dur: int, number: int, stream: int) -> list[Any]:
    """An all-reduce of 45 MB, which an H200 cannot send in less than 100 us."""
    inputs = {"input_dims": "[[11250000]]", "input_types": '["float"]'}
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    made = op("record_param_comms", kernel, at, dur, number, **inputs)
    made[-1]["stream"] = stream
    return made


def layers(count: int) -> Attributed:
    """One decode step of so many layers, each with a product whose weights fill half of the L2."""
    mm = {
        "input_dims": "[[1,4096],[4096,4096]]",
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
    }
    events = [event("annotation", "decode_step", 0, count * 100_000)]
    for at in range(count):
        events += op("aten::mm", GEMM, 10_000 + at * 90_000, 80_000, at + 1, **mm)
    return attributed(*events)


def test_weights_of_a_step_that_overflow_the_caches_come_from_hbm() -> None:
    size, held = 2 * 4096 * 4096, H200.value("l2.size")
    assert held is not None
    assert size < held
    (one,) = [h for h in hotspots(layers(1), H200).hotspots if h.kind == "operator"]
    assert (one.limiter, "from HBM" in one.why) == ("l2", False)
    (row,) = [h for h in hotspots(layers(8), H200).hotspots if h.kind == "operator"]
    share = 1 - held / (8 * size)  # 0.766 of each layer's 33.6 MB at 4.8 TB/s: 5.35 us, not 3.78
    goal = share * size / 4.8e12 * 1e6 / 0.8
    assert (row.limiter, row.confidence) == ("l2", "high")
    assert row.bound_us == pytest.approx(8 * (one.bound_us or 0))
    assert row.recoverable_us == pytest.approx(8 * (80 - goal))
    assert "time from HBM (the layers of a step exceed the caches)" in row.why
    assert row.advice == advice.about_operator("hbm", tiny=False)


def test_communication_has_a_bound_and_counts_what_nothing_hides() -> None:
    # 10 ... 410 and 310 ... 610 us: 600 us together; a product hides 110 ... 210 of it
    profile = attributed(
        *collective(10_000, 400_000, 1, stream=8),
        *collective(310_000, 300_000, 2, stream=9),
        *op("aten::mm", GEMM, 110_000, 100_000, 3, **MM),
        # What the rest could hide under.
        *op("custom::work", "work_kernel", 700_000, 900_000, 4),
    )
    (row,) = of_kind("comm", profile)
    assert (row.operator, row.limiter, row.calls_per_step) == ("all_reduce", "interconnect", 2)
    assert (row.time_us, row.recoverable_us) == (700.0, 500.0)
    # 45 MB at 450 GB/s in each direction, twice
    assert row.bound_us == pytest.approx(200)
    assert row.efficiency_pct == pytest.approx(100 * 200 / 700)
    assert "interconnect bound: 200.00 µs" in row.why
    assert all(h.operator != "record_param_comms" for h in of_kind("operator", profile))


def test_without_a_launch_floor_the_shortest_call_counts() -> None:
    # 64 floats take no time from any memory; the shortest call of the profile takes 0.9 us
    small = op("aten::add", ADD, 10_000, 5_000, 1, **SMALL)
    profile = attributed(*small, event("kernel", "k", 15_000, 900))
    (row,) = hotspots(profile, named_hardware("H100")).hotspots
    assert row.recoverable_us == pytest.approx(5 - 0.9 / 0.8)
    assert "shortest call in the profile (the launch floor is unknown): 0.90 µs" in row.why
    assert row.confidence == "medium"
    assert row.advice.startswith("Too small for a kernel of its own")


def test_a_long_call_with_little_work_is_not_called_small() -> None:
    """What takes 40 us has a kernel of its own, however little the bound asks for."""
    long = op("aten::add", ADD, 10_000, 40_000, 1, **SMALL)
    profile = attributed(*long, event("kernel", "k", 50_000, 900))
    (row,) = hotspots(profile, H200).hotspots
    assert row.limiter == "launch"
    assert row.advice.startswith("Its work needs less than a launch: try another kernel")


@pytest.mark.parametrize("limiter", ["hbm", "l2", "l1", "tensor.bf16", "vector.fp32", None])
def test_advice_does_not_say_what_limits_the_kernel_that_ran(limiter: str | None) -> None:
    """The bound names what limits the best kernel; of this one, only the time is known."""
    said = advice.about_operator(limiter, tiny=False)
    assert "busy" not in said
    assert "ound by" not in said


def test_the_contract_for_machines() -> None:
    table = msgspec.to_builtins(hotspots(made(), H200))
    assert {"profile", "hardware", "step_ms", "coverage", "hotspots"} <= table.keys()
    assert table["coverage"].keys() == {"cost_pct", "graph_replays"}
    assert list(table["hotspots"][0]) == [
        *("rank", "kind", "operator", "role", "axes", "calls_per_step", "time_us", "bound_us"),
        *("limiter", "expected_us", "efficiency_pct", "recoverable_us", "recoverable_pct_of_step"),
        *("confidence", "why", "advice"),
    ]


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared profiles are not beside the repository")
@pytest.mark.parametrize(
    ("name", "operator", "exposed_pct"),
    [
        # Exposed communication as interval arithmetic on the raw events has it, of the step time
        ("traces/b200_eager.json.gz", "all_reduce", 2.5),
        ("traces/a100_hta_tracediff_control.json.gz", "all_to_all", 17.2),
    ],
)
def test_exposed_communication_of_real_profiles(
    name: str, operator: str, exposed_pct: float
) -> None:
    recorded = attributed_recording(DATA / name)
    rows = hotspots(recorded).hotspots
    step = typical_step(recorded, device_times(recorded))
    assert step is not None
    assert 100 * step.exposed_comm_ns / step.wall_ns >= exposed_pct - 0.1
    (row,) = (h for h in rows if h.kind == "comm" and h.operator == operator)
    assert row.recoverable_pct_of_step == pytest.approx(exposed_pct, abs=0.1)
    assert row.limiter == "interconnect"
    assert 0 < (row.efficiency_pct or 0) < 100


@pytest.mark.parametrize(
    ("name", "said"),
    [("demo:vllm-b200", advice.IDLE["launch"]), ("demo:vllm-mi300x-graph", advice.IN_GRAPHS)],
)
def test_graphs_are_no_advice_where_they_are_used(name: str, said: str) -> None:
    rows = hotspots(attribute(solscope.open(name))).hotspots
    assert {row.advice for row in rows if (row.kind, row.operator) == ("idle", "launch")} == {said}


def test_every_row_says_what_to_do() -> None:
    for name in ("demo:vllm-b200", "demo:vllm-mi300x-graph"):
        rows = hotspots(attribute(solscope.open(name))).hotspots
        assert all(row.advice and not row.advice.endswith(".") for row in rows)


def row(number: int, kind: str, name: str, pct: float, said: str) -> Hotspot:
    return Hotspot(
        rank=number,
        kind=kind,  # type: ignore[arg-type]
        operator=name,
        role=None,
        axes=None,
        calls_per_step=1,
        time_us=10 * pct,
        bound_us=None,
        limiter=None,
        expected_us=None,
        efficiency_pct=None,
        recoverable_us=10 * pct,
        recoverable_pct_of_step=pct,
        confidence="medium",
        why="",
        advice=said,
    )


def todo_of(*rows: Hotspot) -> list[ToDo]:
    table = hotspots(made())
    return to_do(msgspec.structs.replace(table, profile="a b.json", hotspots=list(rows)))


def test_rows_with_one_remedy_are_one_thing_to_do() -> None:
    first, second = todo_of(
        row(1, "idle", "host", 40, advice.SLOW_LAUNCHES),
        row(2, "copy", "memcpy HtoD", 20, advice.COPIES["HtoD"]),
        row(3, "idle", "launch", 11, advice.IDLE["launch"]),
        row(4, "copy", "memcpy DtoD", 2, advice.OTHER_COPIES),
        row(5, "copy", "memcpy DtoH", 0.5, advice.COPIES["DtoH"]),
    )
    assert (first.advice, first.rows) == (advice.SLOW_LAUNCHES, [1, 3])
    assert (first.recoverable_us, first.recoverable_pct_of_step) == (510, 51)
    # The sum beside its parts, so that each can be found in the verdict.
    assert first.saves == (
        "Saves at most 0.510 of 2.059 ms of the recording: 0.400 ms waiting for the host + "
        "0.110 ms idle between launch and start"
    )
    # What is not worth a line of its own is not named beside others.
    assert (second.advice, second.rows) == (advice.COPIES["HtoD"], [2, 4])


def test_kernels_of_two_operators_are_two_things_to_do() -> None:
    said = advice.about_operator("tensor.bf16", tiny=False)
    found = todo_of(row(1, "operator", "mm", 8, said), row(2, "operator", "bmm", 4, said))
    assert [one.rows for one in found] == [[1], [2]]


def test_a_command_to_do_names_the_profile() -> None:
    (found,) = todo_of(row(1, "idle", "host", 40, advice.IDLE["host"]))
    assert "(`solscope host 'a b.json'`)" in found.advice


def test_a_config_is_asked_for_before_what_concerns_less_of_the_step() -> None:
    doing = [ToDo("a", [1], 500, 50, ""), ToDo("b", [2], 50, 5, "")]
    for known, place in ((0, 0), (40, 1), (49, 1), (60, None)):
        table = msgspec.structs.replace(
            hotspots(made()), step_ms=10, coverage=HotspotCoverage(cost_pct=known)
        )
        # The GPU is busy for 6 of 10 ms: 60 % of a step, of which a part is not known.
        lost = 60 * (100 - known) / 100
        why = (
            f"Without it {lost / 10:.2f} of 10.00 ms of the recording are not ranked: FLOP and "
            f"bytes are known for only {known:.1f} % of its GPU time"
        )
        expected = None if place is None else Unranked(known, lost, place, why)
        assert unranked(table, doing, 6.0) == expected


def test_what_saves_little_is_not_to_do() -> None:
    assert todo_of(row(1, "idle", "host", 0.9, advice.IDLE["host"])) == []
