from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import solscope
from solscope.cli import app
from solscope.errors import InputError, UsageError
from solscope.hardware import find, measured_path
from solscope.operators.from_config import Config, Model
from solscope.readers.nvtx import operators_from_ranges
from solscope.report.results.operators import operators_parts
from solscope.views.operators import (
    OperatorRow,
    OperatorTable,
    named_hardware,
    operator_table,
)
from tests.making import aggregate, attributed, event, profile
from tests.printing import printed
from tests.recordings import attributed_recording
from tests.sampling import some

DATA = Path(__file__).parents[4] / "shared" / "data"
shared = pytest.mark.skipif(
    not DATA.is_dir(), reason="the shared profiles are not beside the repository"
)
GEMM, COPY = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT", "acme_copy"


def mm(start: int, correlation: int, m: int = 64) -> list[dict[str, Any]]:
    """A product that launches a fill and a kernel of 10 us."""
    ids: dict[str, Any] = {"external_id": correlation}
    inputs = {
        "input_dims": json.dumps([[m, 1024], [1024, 1024]]),
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
        "input_strides": "[[1024,1],[1024,1]]",
        "concrete_inputs": '["",""]',
    }
    more = {"correlation": correlation, **ids}
    fill = {"correlation": correlation + 1, **ids}
    return [
        event("cpu_op", "aten::mm", start, 500, **ids, **inputs),
        event("runtime", "cudaMemsetAsync", start + 10, 5, **fill),
        event("runtime", "cudaLaunchKernel", start + 20, 5, **more),
        event("memset", "Memset (Device)", start + 1000, 2000, bytes=64, **fill),
        event("kernel", GEMM, start + 4000, 10_000, **more),
    ]


def lost(start: int) -> list[dict[str, Any]]:
    """The same kernels without their launch."""
    return [
        event("memset", "Memset (Device)", start + 1000, 2000, bytes=64),
        event("kernel", GEMM, start + 4000, 10_000),
    ]


def whole(table: OperatorTable) -> float:
    """All shares together."""
    return sum(r.pct for r in table.operators) + sum(r.pct for r in table.no_cost)


def test_a_call_is_all_kernels_of_its_operator_and_costs_once() -> None:
    (row,) = operator_table(attributed(*mm(0, 10)), find("H200")).operators
    assert (row.op, row.operator, row.calls, row.time_us) == ("aten::mm", "dense_gemm", 1, 12.0)
    assert row.flop == 2 * 64 * 1024 * 1024
    assert row.bytes == 2 * (64 * 1024 + 1024 * 1024 + 64 * 1024)
    assert row.tflops == pytest.approx(row.flop / 12e-6 / 1e12)
    assert row.tbps == pytest.approx(row.bytes / 12e-6 / 1e12)
    assert row.intensity == pytest.approx(row.flop / row.bytes)


def test_bound_and_score() -> None:
    (row,) = operator_table(attributed(*mm(0, 10)), named_hardware("H200")).operators
    # 2.36 MB fit in the L2, whose bandwidth was measured: 8.8715 TB/s.
    assert row.limiter == "launch"
    assert row.bound_us == pytest.approx(0.500172)
    assert row.efficiency_pct == pytest.approx(100 * 0.500172 / 12)
    assert row.best_pct == row.efficiency_pct


def test_the_share_of_hbm_stands_beside_the_bound() -> None:
    (row,) = operator_table(attributed(*mm(0, 10)), named_hardware("H200")).operators
    # 2 x (64 + 1024 + 64) x 1024 bytes at 4.8 TB/s
    assert row.hbm_us == pytest.approx(0.49152)
    assert row.hbm_pct == pytest.approx(100 * 0.49152 / 12)
    assert (row.expected_us, row.expected_pct) == (None, None)
    (unknown,) = operator_table(attributed(*mm(0, 10))).operators
    assert (unknown.hbm_us, unknown.hbm_pct) == (None, None)


def experts(start: int) -> list[dict[str, Any]]:
    """8 rows for 64 experts with weights of 4 MiB each; 20 us."""
    inputs = {
        "input_dims": "[[8,2048],[64,2048,1024],[64],[],[]]",
        "input_types": '["c10::BFloat16","c10::BFloat16","int","",""]',
    }
    return [
        event("cpu_op", "aten::_grouped_mm", start, 500, external_id=7, **inputs),
        event("runtime", "cudaLaunchKernel", start + 20, 5, correlation=7, external_id=7),
        event("kernel", "acme_grouped", start + 4000, 20_000, correlation=7),
    ]


def test_experts_that_are_likely_read_more_than_the_bound_assumes() -> None:
    table = operator_table(attributed(*experts(0)), named_hardware("H200"))
    (row,) = table.operators
    # 64 (1 - (63/64)^8) = 7.577 experts of 4 MiB, rows of 4096 bytes in and 2048 out, 64 offsets
    likely = 64 * (1 - (63 / 64) ** 8) * (4 << 20) + 8 * (4096 + 2048) + 64 * 4
    assert row.hbm_us == pytest.approx(likely / 4.8e12 * 1e6)
    assert row.hbm_pct == pytest.approx(33.15, abs=0.01)
    # 31.8 MB fit in the L2, from which they may come at 8.87 TB/s.
    assert row.expected_us == pytest.approx(likely / 8.8715e12 * 1e6)
    assert row.expected_pct == pytest.approx(17.94, abs=0.01)
    assert row.efficiency_pct == pytest.approx(100 * 0.500172 / 20)
    text = printed(operators_parts, table, top=None, width=140, color=False)
    assert "likely: S where the bound assumes luck, such as few experts; HBM: S if all" in text


STEP = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk4000sqsq4sqsk4000)"


def paged(times: list[int], step: str = STEP) -> list[dict[str, Any]]:
    """A step with one paged attention per layer, which take these times."""
    inputs = {
        "input_dims": "[[4,32,128],[4,8,128],[4,8,128]]",
        "input_types": json.dumps(["c10::BFloat16"] * 3),
    }
    made = [event("annotation", step, 0, 100 * len(times))]
    for i, time in enumerate(times):
        ids: dict[str, Any] = {"external_id": i + 1}
        op = event("cpu_op", "vllm::unified_attention_with_output", 100 * i, 90, **ids, **inputs)
        launch = event("runtime", "cudaLaunchKernel", 100 * i + 10, 5, correlation=i + 1, **ids)
        kernel = event("kernel", "flash_fwd_kernel", 10**6 * (i + 1), time, correlation=i + 1)
        made += [op, launch, kernel | ids]
    return made


def test_attention_takes_the_lengths_that_its_step_states() -> None:
    (row,) = operator_table(attributed(*paged([40_000] * 8)), find("H200")).operators
    assert (row.operator, row.calls) == ("unified_attention", 8)
    assert row.axes is not None
    assert row.axes["sequences"] == [[1, 1000, 4]]
    assert row.source == "from the lengths that the step states"


def test_attention_without_stated_lengths_has_no_cost() -> None:
    table = operator_table(attributed(*paged([40_000] * 8, "decode")), find("H200"))
    assert [row.reason for row in table.no_cost] == ["lengths of the sequences are not recorded"]


def test_layers_that_attend_far_faster_than_others_may_have_a_window() -> None:
    table = operator_table(attributed(*paged([13_000, 40_000] * 4)), find("H200"))
    assert [(row.calls, row.time_us) for row in table.operators] == [(4, 40.0)]
    (windowed,) = table.no_cost
    assert windowed.calls == 4
    assert windowed.reason.startswith("far faster than equal calls of other layers")


@pytest.mark.parametrize(("window", "costed"), [(None, 8), (128, 0)])
def test_a_config_with_a_window_decides_what_attends(window: int | None, costed: int) -> None:
    """Layers that it does not describe may have the window too."""
    model = Model(Config(hidden_size=4096, sliding_window=window), "config.json")
    table = operator_table(attributed(*paged([40_000] * 8)), find("H200"), model=model)
    assert sum(row.calls for row in table.operators) == costed


def test_one_slow_call_is_no_evidence_of_windows() -> None:
    table = operator_table(attributed(*paged([40_000] * 15 + [90_000])), find("H200"))
    assert sum(row.calls for row in table.operators) == 16


def test_columns_that_say_nothing_are_left_out() -> None:
    table = operator_table(attributed(*mm(0, 10)), named_hardware("H200"))
    text = printed(operators_parts, table, top=None, width=140, color=False)
    assert "HBM" in text
    assert "likely" not in text


def test_the_vendor_s_figures_come_first() -> None:
    card = named_hardware("H200")
    assert card.value("tensor.bf16") == 989.4e12
    assert card.value("hbm.bandwidth") == 4.8e12
    assert card.value("l2.bandwidth") == pytest.approx(8.8715e12)


def test_by_shape_and_by_operator() -> None:
    made = attributed(*mm(0, 10), *mm(30_000, 20), *mm(60_000, 30, m=128))
    shapes = operator_table(made, find("H200")).operators
    assert [(r.axes or {})["m"] for r in shapes] == [64, 128]
    (row,) = operator_table(made, find("H200"), "operator").operators
    assert (row.calls, row.axes) == (3, None)
    assert row.flop == pytest.approx((2 * shapes[0].flop + shapes[1].flop) / 3)
    with pytest.raises(UsageError, match="by shape or operator"):
        operator_table(made, by="kernel")  # type: ignore[arg-type]


def test_what_has_no_cost_is_listed_and_shares_sum_to_all() -> None:
    made = attributed(
        *mm(0, 10),
        event("cpu_op", "acme::magic", 30_000, 50, external_id=5, input_dims="[[4]]"),
        event("runtime", "cudaLaunchKernel", 30_010, 5, correlation=5, external_id=5),
        event("kernel", "acme", 40_000, 6000, correlation=5),
        event("kernel", "stray", 50_000, 6000),
    )
    table = operator_table(made)
    assert table.hardware is None
    assert {(r.op, r.reason) for r in table.no_cost} == {
        ("acme::magic", "no cost model for this operator"),
        ("other kernels", "launch not recorded"),
    }
    assert table.cost_pct == pytest.approx(50)
    assert whole(table) == pytest.approx(100)
    assert table.operators[0].bound_us is None


def test_published_bounds_stay_available() -> None:
    # 64 x 1024 x 1024 in bf16: 2.4 MB at 4.8 TB/s of HBM take longer than the FLOP, caches or not
    table = operator_table(attributed(*mm(0, 10)), find("H200"), bound="published")
    (row,) = table.operators
    assert table.bound == "published"
    size = 2 * (64 * 1024 + 1024 * 1024 + 64 * 1024)
    assert row.limiter == "hbm"
    assert row.bound_us == pytest.approx(size / 4.8e12 * 1e6)
    with pytest.raises(UsageError, match="corrected or published, not 'best'"):
        operator_table(attributed(*mm(0, 10)), bound="best")  # type: ignore[arg-type]


def test_shapes_of_nvtx_ranges_give_a_cost() -> None:
    name = "aten::mm, op_id = 7, sizes = [[64, 1024], [1024, 1024]], input_op_ids = [(1,0), (2,0)]"
    recorded = profile(
        event("annotation", name, 0, 500),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=1),
        event("kernel", GEMM, 4000, 10_000, correlation=1),
    )
    made = replace(recorded, events=operators_from_ranges(recorded.events))
    (row,) = operator_table(solscope.attribute(made), find("H200")).operators
    assert (row.op, row.axes) == ("aten::mm", {"m": 64, "n": 1024, "k": 1024, "dtype": "bf16"})
    assert row.flop == 2 * 64 * 1024 * 1024


def test_copies_outside_operators_cost_their_bytes() -> None:
    made = attributed(event("memcpy", "Memcpy DtoD (Device -> Device)", 0, 1000, bytes=500))
    (row,) = operator_table(made, find("H200")).operators
    assert (row.op, row.operator, row.bytes) == ("memcpy", "copy", 1000)


def test_copies_of_operators_without_shapes_cost_their_bytes() -> None:
    made = attributed(
        event("cpu_op", "aten::copy_", 0, 90, external_id=1),
        event("runtime", "cudaMemcpyAsync", 10, 5, correlation=1, external_id=1),
        event("memcpy", "Memcpy HtoD (Pinned -> Device)", 1000, 50, correlation=1, bytes=6400),
    )
    (row,) = operator_table(made, find("H200")).operators
    assert (row.op, row.axes) == (
        "aten::copy_",
        {"read_bytes": 0, "write_bytes": 6400, "host_bytes": 6400},
    )


def test_lost_kernels_take_inputs_from_the_same_sequence() -> None:
    calls = [mm(30_000 * i, 10 * (i + 1)) for i in range(20)]
    made = attributed(*(e for c in calls for e in c), *lost(700_000), *mm(730_000, 300))
    recorded, inferred = operator_table(made, find("H200")).operators
    assert (recorded.calls, recorded.inferred_calls) == (21, 0)
    assert (inferred.calls, inferred.inferred_calls, inferred.time_us) == (1, 1, 12.0)
    assert inferred.axes == recorded.axes


def test_twins_that_disagree_give_nothing() -> None:
    calls = [mm(30_000 * i, 10 * (i + 1), m=64 + i % 2) for i in range(20)]
    made = attributed(*(e for c in calls for e in c), *lost(700_000), *mm(730_000, 300))
    table = operator_table(made, find("H200"))
    assert all(row.inferred_calls == 0 for row in table.operators)
    assert [r.reason for r in table.no_cost] == ["launch not recorded"]


def test_a_summary_has_no_calls() -> None:
    made = aggregate({"kind": "kernel", "name": "a", "calls": 1, "total_ns": 10, "mean_ns": 10.0})
    with pytest.raises(InputError, match="a summary has no single calls"):
        operator_table(made)


def test_damaged_inputs_have_no_cost() -> None:
    events = mm(0, 10)
    events[0] |= {"input_dims": "[[4,"}
    (row,) = operator_table(attributed(*events)).no_cost
    assert row.reason == "no input shapes recorded"


def test_text_has_the_rows_and_the_reasons() -> None:
    made = attributed(*mm(0, 10), event("kernel", "stray", 50_000, 6000))
    table = operator_table(made, named_hardware("H200"))
    text = printed(operators_parts, table, top=None, width=140, color=False)
    assert "aten::mm m=64 n=1024 k=1024 dtype=bf16" in text
    assert "launch not recorded" in text
    assert "FLOP and bytes known for 66.7 % of GPU time" in text


# --- Real profiles


@cache
def opened(name: str) -> OperatorTable:
    return operator_table(attributed_recording(DATA / name))


def gemm(name: str, op: str, **axes: int) -> OperatorRow:
    (row,) = (
        r
        for r in opened(name).operators
        if r.op == op and not r.inferred_calls and axes.items() <= (r.axes or {}).items()
    )
    return row


H100_QWEN = "traces/h100_qwen1.5-0.5b.json.gz"


@shared
@pytest.mark.parametrize(
    ("op", "axes", "tflops", "score"),
    [
        ("aten::mm", {"m": 8944, "n": 2816, "k": 1024}, 610.7, 61.7),
        ("aten::addmm", {"m": 8944, "n": 1024, "k": 1024}, 580.2, 58.7),
        ("aten::mm", {"m": 8944, "n": 1024, "k": 2816}, 674.6, 68.2),
    ],
)
def test_products_of_h100_qwen(op: str, axes: dict[str, int], tflops: float, score: float) -> None:
    row = gemm(H100_QWEN, op, **axes)
    assert row.tflops == pytest.approx(tflops, abs=0.5)
    assert row.efficiency_pct == pytest.approx(score, abs=0.1)
    assert row.limiter == "tensor.bf16"


@shared
def test_time_of_a_product_includes_its_memset() -> None:
    row = gemm(H100_QWEN, "aten::mm", m=8944, n=2816, k=1024)
    assert row.flop / 1e9 == pytest.approx(51.58, abs=0.005)
    assert row.time_us == pytest.approx(84.5, abs=0.05)


@shared
@pytest.mark.parametrize(
    "name",
    [
        *(
            f"h200/models/{model}.trace.json.gz"
            for model in ("llama8l", "llama8l-stack", "qwen3moe4l", "qwen3next4l", "deepseekv3-4l")
        ),
        H100_QWEN,
        "traces/mi300_qwen1.5-0.5b.json.gz",
    ],
)
def test_most_time_has_a_cost(name: str) -> None:
    assert (opened(name).cost_pct or 0) >= 90


PROFILES = sorted(
    path.relative_to(DATA).as_posix()
    for folder in ("traces", "h200", "nsys")
    for path in (DATA / folder).rglob("*")
    if path.name.endswith((".json.gz", ".sqlite"))
)


@shared
@pytest.mark.parametrize("name", some(PROFILES, 8))
def test_nothing_is_faster_than_its_bound(name: str) -> None:
    table = opened(name)
    assert [r for r in table.operators if (r.best_pct or 0) > 100] == []
    assert whole(table) == pytest.approx(100)


@shared
def test_replayed_kernels_take_inputs_from_a_companion() -> None:
    folder = DATA / "h200" / "graph"
    made = solscope.attribute(
        solscope.open(folder / "normal.trace.json.gz"),
        companion=solscope.open(folder / "no_cuda_graph.trace.json.gz"),
    )
    table = operator_table(made)
    assert (table.cost_pct or 0) >= 95
    assert max(row.best_pct or 0 for row in table.operators) <= 100
    # The twelve layers of 40 decode steps, each with one product of this shape.
    up = {"m": 32, "n": 22016, "k": 4096, "dtype": "bf16"}
    (row,) = (row for row in table.operators if row.axes == up)
    assert (row.calls, row.inferred_calls) == (480, 480)


def test_one_of_several_that_cannot_be_used_is_skipped(tmp_path: Path) -> None:
    summary = tmp_path / "kern_sum.csv"
    summary.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "100.0,1000,1,1000.0,1000.0,1000,1000,0.0,k\n"
    )
    small = str(Path(__file__).parents[2] / "data" / "kineto_b200.json.gz")
    both = CliRunner().invoke(app, ["operators", "--json", small, str(summary)])
    assert (both.exit_code, json.loads(both.stdout)["profiles"][0]["profile"]) == (0, small)
    assert "skipped" in both.stderr
    twice = CliRunner().invoke(app, ["hotspots", "--json", small, "demo:vllm-b200"])
    assert [one["hardware"] for one in json.loads(twice.stdout)["profiles"]] == ["B200", "B200"]


def test_a_measured_file_takes_the_rest_from_the_vendor(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(measured_path("H200").read_text(encoding="utf-8"), encoding="utf-8")
    for card in (named_hardware(str(own)), named_hardware("H200.measured")):
        assert (card.name, card.measured) == ("H200.measured", True)
        assert card.value("tensor.bf16") == 777.691e12
        assert card.value("sfu") == find("H200").value("sfu")


@shared
def test_a_share_is_never_more_than_all() -> None:
    path = DATA / "h200" / "models" / "qwen3moe4l.trace.json.gz"
    table = operator_table(attributed_recording(path))
    assert (table.cost_pct, table.no_cost) == (100.0, [])
    assert "known for 100.0 % of GPU time" in printed(
        operators_parts, table, top=3, width=80, color=False
    )
