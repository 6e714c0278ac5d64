from __future__ import annotations

import pytest

from solscope.attribution.opening import open_attributed
from solscope.views.device_time import device_times
from solscope.views.execution import Execution, Share, _dtype, execution
from tests.making import aggregate, attributed, event
from tests.models import LAYER, kernels
from tests.recordings import recording
from tests.sampling import some


def facts(*events: dict[str, object]) -> Execution:
    found = attributed(*events)
    return execution(found, device_times(found))


def launched(
    at: int, call: str = "cudaLaunchKernel", name: str = "k", **more: object
) -> list[dict[str, object]]:
    return [
        event("runtime", call, at, 5, correlation=at),
        event("kernel", name, at + 10, 10, correlation=at, **more),
    ]


def test_replayed_kernels_are_counted_and_timed() -> None:
    found = facts(*launched(100), *launched(200, "cudaGraphLaunch"), *launched(300))
    assert found.graphs is not None
    assert found.graphs.kernels == 3
    assert found.graphs.kernels_pct == pytest.approx(100 / 3)
    assert (found.graph_launches, found.graphs_by_phase) == (1, [])


def test_without_launches_graphs_are_not_known() -> None:
    found = facts(event("kernel", "k", 10, 10))
    assert found.graphs is None
    assert found.unknown["graphs"] == "the profile holds no launch calls"


def test_a_summary_says_what_it_cannot_tell() -> None:
    rows = aggregate(
        {"kind": "kernel", "name": "nvjet_tst_64x8", "calls": 1, "total_ns": 5, "mean_ns": 5.0}
    )
    found = execution(rows, [])
    assert (found.graphs, found.concurrent_pct, found.compiled_regions) == (None, None, None)
    assert found.dtypes == [Share("bf16", 100.0)]
    assert {"graphs", "overlap_pct", "concurrent_pct", "compiled_regions"} <= set(found.unknown)


def test_time_under_two_activities_is_concurrent() -> None:
    found = facts(event("kernel", "a", 0, 10), event("kernel", "b", 6, 10, stream=9))
    assert found.concurrent_pct == pytest.approx(100 * 4 / 16)


def test_communication_under_compute_is_overlapped() -> None:
    comm = event("kernel", "ncclDevKernel_AllReduce_RING_LL", 0, 10, stream=9)
    assert facts(comm, event("kernel", "a", 6, 10)).overlap_pct == pytest.approx(40.0)
    alone = facts(event("kernel", "a", 6, 10))
    assert (alone.overlap_pct, alone.unknown["overlap_pct"]) == (None, "no communication ran")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_dynBatch_sm100f", "fp4"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT", "bf16"),
        ("nvjet_sm90_hsh_64x8_64x16_1x2_h_bz_coopB_TNT", "fp16"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64", "bf16"),
        ("ampere_sgemm_128x64_nn", "fp32"),
    ],
)
def test_names_state_the_type_of_products(name: str, dtype: str) -> None:
    found = facts(event("kernel", name, 0, 10))
    assert [share.name for share in found.dtypes] == [dtype]


def test_a_product_without_a_name_has_no_known_type() -> None:
    assert _dtype(None, None) is None
    assert _dtype(None, '["c10::BFloat16"]') == "bf16"


def test_cudnn_names_do_not_tell_the_16_bit_types_apart() -> None:
    name = "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_35_kernel0_0"
    found = facts(event("kernel", name, 0, 10))
    assert found.dtypes == [Share("unknown", 100.0)]
    assert "dtypes" in found.unknown


TRUTH = {
    # From their README: graphs replayed, dtype of most products, attention, experts.
    "traces/b200_eager.json.gz": (False, "fp4", True, True),
    "traces/h100_qwen1.5-0.5b.json.gz": (False, "bf16", True, False),
    "traces/mi300_qwen1.5-0.5b.json.gz": (False, "bf16", True, False),
    "traces/vllm_decode_full_exec.json.gz": (True, "fp4", True, True),
    "traces/vllm_prefilldecode_piecewise_exec.json.gz": (True, "fp4", True, True),
    "traces/mi300_sglang_qwen3-8b_decode.json.gz": (True, "bf16", True, False),
    "h200/models/llama8l-compiled-cudagraph.trace.json.gz": (True, "bf16", True, False),
    "h200/models/qwen3moe4l.trace.json.gz": (False, "bf16", True, True),
    "h200/graph/normal.trace.json.gz": (True, "bf16", True, False),
    "h200/graph/no_cuda_graph.trace.json.gz": (False, "bf16", True, False),
}


@pytest.mark.parametrize("name", some(TRUTH, 3))
def test_what_the_makers_of_recordings_state(name: str) -> None:
    found = open_attributed(str(recording(name)))
    known = execution(found, device_times(found))
    assert known.graphs is not None
    replays = known.graphs.kernels_pct > 50
    assert (replays, known.dtypes[0].name, bool(known.attention), bool(known.moe)) == TRUTH[name]
    assert known.chunked_prefill is (True if "prefilldecode_piecewise" in name else None)


def test_graphs_by_phase_of_a_loop_that_replays_decode_only() -> None:
    found = open_attributed(str(recording("h200/graph/normal.trace.json.gz")))
    phases = {use.phase: use for use in execution(found, device_times(found)).graphs_by_phase}
    assert phases["prefill"].kernels_pct == 0.0
    assert phases["decode"].kernels_pct > 95


def test_turns_of_drafts_and_verification_are_speculative() -> None:
    turn = f"E{LAYER}NGT" * 2 + f"E{LAYER * 4}NGT"
    assert facts(*kernels(turn * 2)).speculative
    alone = facts(*kernels(turn))
    assert alone.speculative is None
    assert alone.unknown["speculative"].startswith("neither names of steps nor turns")
