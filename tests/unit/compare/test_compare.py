from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from solscope.attribution import Attributed
from solscope.cli import run
from solscope.compare.profiles import Comparison, compare_profiles
from solscope.errors import UsageError
from tests.making import aggregate, attributed, event
from tests.recordings import attributed_recording, recording

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
OTHER_GEMM = "Cijk_Alik_Bljk_B_MT256x128x64"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
Kernels = list[tuple[str, int, int]]
"""Name, start within the step, duration."""


def steps(phase: str, starts: list[int], kernels: Kernels) -> list[dict[str, Any]]:
    """Annotated steps, each with these kernels; launches and kernels begin together."""
    out = []
    for start in starts:
        out.append(event("annotation", f"{phase}_step", start, 90))
        for at, (name, offset, dur) in enumerate(kernels):
            link = {"correlation": start * 10 + at + 1}
            out.append(event("runtime", "cudaLaunchKernel", start + at, 1, **link))
            out.append(event("kernel", name, start + offset, dur, stream=7 + at, **link))
    return out


def pair() -> Comparison:
    """Decode steps 1000 ns and 2000 ns apart, two and the last; the candidate overlaps more."""
    before = steps("decode", [0, 1000, 2000], [(GEMM, 10, 300), (NCCL, 310, 100)])
    after = steps("decode", [0, 2000, 4000], [(GEMM, 10, 300), (NCCL, 210, 500)])
    return compare_profiles([attributed(*before), attributed(*after)], ["a", "b"])


def test_step_times_and_what_they_consist_of() -> None:
    (phase,) = pair().phases
    before, after = phase.steps
    assert before is not None
    assert after is not None
    assert (phase.phase, phase.per, before.count, after.count) == ("decode", "step", 2, 2)
    # a: extents of 400, one gap of 600; b: extents of 700, one gap of 1300.
    assert (before.mean_ms, before.p50_ms, before.gap_p50_ms) == (400e-6, 400e-6, 600e-6)
    assert (before.time_ms, before.gap_ms) == (1000e-6, 600e-6)
    assert (after.mean_ms, after.gap_p50_ms, after.time_ms) == (700e-6, 1300e-6, 2000e-6)
    assert (after.p90_ms, after.gap_p90_ms) == (None, None), "two steps have no such quantile"
    assert (before.overlapped_ms, after.overlapped_ms) == (0.0, 100e-6)
    assert (before.gpu_ms, after.gpu_ms) == (400e-6, 800e-6)
    assert (before.idle_ms, after.idle_ms) == (0.0, 0.0)


def test_categories_sum_to_the_gpu_time_exactly() -> None:
    (phase,) = pair().phases
    assert phase.gpu_ns == [800, 1600]
    totals = {part.name: part.total_ns for part in phase.categories}
    assert totals == {"gemm": [600, 600], "comm": [200, 1000]}
    shares = {part.name: part.pct for part in phase.categories}
    assert shares == {"gemm": [75.0, 37.5], "comm": [25.0, 62.5]}
    assert [sum(side) for side in zip(*totals.values(), strict=True)] == phase.gpu_ns


def test_differences_sum_to_the_difference_of_step_time() -> None:
    (phase,) = pair().phases
    found = {(row.by, row.name): round(row.diff_ms * 1e6) for row in phase.differences}
    assert found == {
        ("time", "gap"): 700,
        ("category", "comm"): 400,
        ("time", "overlapped"): -100,
        ("category", "gemm"): 0,
        ("time", "idle"): 0,
    }
    assert [row.name for row in phase.differences[:2]] == ["gap", "comm"]
    assert phase.differences[1].ratio == 5.0
    assert sum(found.values()) == 2000 - 1000


def test_idle_inside_a_step() -> None:
    before = steps("decode", [0, 1000], [(GEMM, 10, 100), (GEMM, 210, 100)])
    (phase,) = compare_profiles([attributed(*before)] * 2, ["a", "b"]).phases
    assert phase.steps[0] is not None
    assert phase.steps[0].idle_ms == 100e-6


def test_what_only_one_side_has() -> None:
    before = steps("decode", [0, 1000], [(GEMM, 10, 300), (NCCL, 310, 100)])
    after = steps("decode", [0, 1000], [(OTHER_GEMM, 10, 200)])
    (phase,) = compare_profiles([attributed(*before), attributed(*after)], ["a", "b"]).phases
    assert {(row.by, row.name): row.time_ms for row in phase.only} == {
        ("category", "comm"): [100e-6, None],
        ("kernel", GEMM): [300e-6, None],
        ("kernel", OTHER_GEMM): [None, 200e-6],
        ("kernel", NCCL): [100e-6, None],
    }


def test_only_shared_phases_are_compared() -> None:
    both = steps("decode", [0, 1000, 2000], [(GEMM, 10, 300)])
    more = steps("prefill", [3000, 4000], [(GEMM, 10, 500)])
    result = compare_profiles([attributed(*both), attributed(*both, *more)], ["a", "b"])
    assert [phase.phase for phase in result.phases] == ["decode"]
    assert result.left_out == ["prefill"]
    assert [(w.code, w.message) for w in result.warnings] == [
        ("phases_left_out", "b: steps of phase prefill are not compared")
    ]
    assert result.profiles[1].compared_pct == pytest.approx(100 * 900 / 1900)


def test_without_a_shared_phase_totals_are_compared_and_marked() -> None:
    before = steps("decode", [0, 1000], [(GEMM, 10, 300)])
    after = steps("prefill", [0, 1000], [(GEMM, 10, 500)])
    result = compare_profiles([attributed(*before), attributed(*after)], ["a", "b"])
    (phase,) = result.phases
    assert (phase.phase, phase.per, phase.steps) == (None, "profile", [None, None])
    assert phase.gpu_ms == [600e-6, 1000e-6]
    assert [w.code for w in result.warnings] == ["unlike_units"]
    assert "a: steps of phase decode; b: steps of phase prefill" in result.warnings[0].message


def test_one_step_is_said_to_be_one() -> None:
    one, two = (steps("decode", starts, [(GEMM, 10, 300)]) for starts in ([0], [0, 1000]))
    result = compare_profiles([attributed(*one), attributed(*two)], ["a", "b"])
    assert [w.code for w in result.warnings] == ["single_step", "unlike_steps"]
    assert "one step only in a, b:" in result.warnings[0].message
    assert "in a no step follows" in result.warnings[1].message


def test_summaries_are_compared_as_totals_by_category_and_short_name() -> None:
    def side(calls: int) -> Attributed:
        row = {"kind": "kernel", "name": GEMM, "calls": calls, "total_ns": calls * 500}
        return aggregate(row | {"mean_ns": 500.0})

    result = compare_profiles([side(10), side(30)], ["a", "b"])
    (phase,) = result.phases
    assert (phase.per, phase.gpu_ns) == ("profile", [5_000, 15_000])
    (kernel,) = phase.kernels
    assert (kernel.name, kernel.calls, kernel.time_ms) == (GEMM, [10, 30], [0.005, 0.015])
    assert [row.diff_ms for row in phase.differences] == [pytest.approx(0.01)]
    assert [w.code for w in result.warnings] == ["unlike_units"]


def test_times_on_several_gpus_are_means_over_them() -> None:
    one = steps("decode", [0, 1000, 2000], [(GEMM, 10, 300)])
    two = [*one, *({**e, "device": 1} for e in one if e["kind"] == "kernel")]
    result = compare_profiles([attributed(*one), attributed(*two)], ["a", "b"])
    (phase,) = result.phases
    assert phase.gpu_ns == [600, 1200]
    assert phase.gpu_ms == [300e-6, 300e-6]
    assert [w.message for w in result.warnings] == [
        "decode: steps ran on 1, 2 GPUs; times are per GPU"
    ]


def test_one_profile_or_a_phase_that_is_missing_is_refused() -> None:
    side = attributed(*steps("decode", [0, 1000], [(GEMM, 10, 300)]))
    with pytest.raises(UsageError, match="at least two"):
        compare_profiles([side], ["a"])
    with pytest.raises(UsageError, match=r"phase prefill \(a: decode; b: decode\)"):
        compare_profiles([side, side], ["a", "b"], phase="prefill")


# --- Command line and real profiles

DEMOS = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]


@cache
def compared(*files: str) -> Comparison:
    profiles = [attributed_recording(recording(file)) for file in files]
    return compare_profiles(profiles, list(files))


def test_json_has_the_fields_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *DEMOS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"schema", *Comparison.__struct_fields__}
    assert [side["label"] for side in found["profiles"]] == DEMOS


def test_markdown_is_a_table_with_escaped_cells(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *DEMOS, "--markdown", "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert "|--:|--:|--:|--:|--:|--:|---|" in out
    assert "warning unlike_units" in out


def test_one_file_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", DEMOS[0]]) == 2
    assert "compare needs at least two" in capsys.readouterr().err


def test_the_same_work_on_two_vendors() -> None:
    result = compared("traces/h100_qwen1.5-0.5b.json.gz", "traces/mi300_qwen1.5-0.5b.json.gz")
    (phase,) = result.phases
    assert (phase.phase, phase.gpu_ns) == ("prefill", [31_905_473, 29_743_938])
    assert [side.cut for side in result.profiles] == [1, 1]
    by_role = sum(abs(row.diff_ms) for row in phase.differences if row.by == "role")
    assert by_role > 0.9 * sum(abs(row.diff_ms) for row in phase.differences if row.by != "time")


def test_without_cuda_graphs_the_same_kernels_wait_for_the_host() -> None:
    result = compared("h200/graph/normal.trace.json.gz", "h200/graph/no_cuda_graph.trace.json.gz")
    decode = next(phase for phase in result.phases if phase.phase == "decode")
    before, after = decode.gpu_ms
    assert after / before == pytest.approx(1, abs=0.02)
    assert decode.differences[0].name == "idle"
    assert decode.differences[0].diff_ms == pytest.approx(12.64, abs=0.01)
    assert not [row for row in decode.only if row.by == "role"]
    said = result.verdict
    slow, normal = (side.label for side in reversed(result.profiles))
    assert said.sentence.startswith(
        f"Why {slow} is slower: CUDA graphs are no longer used (97 % confident). Its decode steps "
        f"take 4.27 times as long as those of {normal}: 16.07 ms instead of 3.76 ms"
    )
    assert said.outcome == "regression"
    assert said.because[0].endswith("465 launches per step (14)")
    assert said.advice is not None
    assert "enforce_eager" in said.advice
    # The diagnosis takes fewer steps; its ratio is no other statement.
    assert said.legend is not None
    assert "The diagnosis compares 33 and 15 decode steps (left out: " in said.legend
    assert said.legend.endswith("its 95 % interval of the ratio is [3.56, 4.86].")


def test_profiles_that_cannot_be_diagnosed_say_why() -> None:
    said = compared("traces/h100_qwen1.5-0.5b.json.gz", "traces/mi300_qwen1.5-0.5b.json.gz").verdict
    assert (said.outcome, said.next_shows) == (None, "kernels")
    assert said.legend is not None
    assert said.legend.startswith("No cause can be named: recorded on different GPUs (")
    assert said.next is not None
    assert said.next.endswith(" --kernels")


@pytest.mark.parametrize("at", [0, 1])
def test_real_parts_sum_to_the_gpu_time(at: int) -> None:
    result = compared("h200/graph/normal.trace.json.gz", "h200/graph/no_cuda_graph.trace.json.gz")
    for phase in result.phases:
        for parts in (phase.categories, phase.operators):
            assert sum(part.total_ns[at] or 0 for part in parts) == phase.gpu_ns[at]
        first, second = phase.steps
        assert first is not None
        assert second is not None
        total = sum(row.diff_ms for row in phase.differences)
        assert total == pytest.approx(second.time_ms - first.time_ms, abs=1e-9)
