from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from solscope.attribution import Attributed
from solscope.errors import InputError, UsageError
from solscope.views.layers import UNKNOWN_KIND, LayerTable, Row, _usual_passes, layers
from tests.making import aggregate, attributed, event
from tests.models import LAYER, MODEL, kernels, launched

PREFILL = event("annotation", "prefill", 0, 90)


def decode(number: int, text: str = MODEL, *, dur: int = 10) -> list[dict[str, Any]]:
    """The decode step with this number, 1 µs apart from the next on the host, 10 µs on the GPU."""
    at = 1000 * number
    step = event("annotation", "decode_step", at, 500)
    return [step, *launched(text, at + 1, 10 * at, 1000 * number + 1, dur=dur)]


def table(*profiles: Attributed, **options: Any) -> LayerTable:
    return layers(profiles, [f"p{i}" for i in range(len(profiles))], **options)


def rows(result: LayerTable, kind: int = 0) -> dict[str, Row]:
    return {row.role: row for group in result.layer_kinds[kind].groups for row in group.rows}


def closes(result: LayerTable) -> None:
    """The sums of the table add up, for every profile."""
    for i, end_to_end in enumerate(result.end_to_end_us):
        outside = sum(group.sum_us[i] or 0 for group in result.outside)
        parts = result.layers_us[i] + outside + result.unattributed_us[i] + result.idle_us[i]
        assert parts - result.overlapped_us[i] == pytest.approx(end_to_end, abs=1e-9)
        kinds = sum((kind.sum_us[i] or 0) * kind.layers[i] for kind in result.layer_kinds)
        assert kinds == pytest.approx(result.layers_us[i], abs=1e-9)
        for kind in result.layer_kinds:
            groups = sum(group.sum_us[i] or 0 for group in kind.groups)
            assert groups == pytest.approx(kind.sum_us[i] or 0, abs=1e-9)
            for group in kind.groups:
                roles = sum(row.time_us[i] or 0 for row in group.rows)
                assert roles == pytest.approx(group.sum_us[i] or 0, abs=1e-9)


ONE = attributed(*decode(1), *decode(2, dur=30), *decode(3))
"""Two decode steps of 24 kernels, of 10 and of 30 ns each: 20 ns on average; and the last one."""


# --- Times


def test_times_are_means_over_layers_and_passes() -> None:
    result = table(ONE)
    assert (result.phase, result.passes) == ("decode", [2])
    assert result.end_to_end_us == pytest.approx([24 * 0.020])
    assert result.layers_us == pytest.approx([20 * 0.020])
    (kind,) = result.layer_kinds
    assert (kind.kind, kind.layers) == ("attention+dense", [2])
    assert kind.sum_us == pytest.approx([10 * 0.020])
    assert rows(result)["qkv"].time_us == pytest.approx([0.020])


def test_groups_and_roles_come_in_the_order_in_which_they_run() -> None:
    (kind,) = table(ONE).layer_kinds
    assert {group.group: [row.role for row in group.rows] for group in kind.groups} == {
        "attention": ["input_norm", "qkv", "rope", "kv_write", "attention", "o_proj"],
        "mlp": ["post_norm", "up_gate", "activation", "down"],
    }


def test_what_lies_outside_the_layers_is_per_pass() -> None:
    prologue, epilogue = table(ONE).outside
    assert [row.role for row in prologue.rows] == ["embedding"]
    assert prologue.rows[0].time_us == pytest.approx([0.020])
    assert [row.role for row in epilogue.rows] == ["final_norm", "lm_head", "sampler"]
    assert epilogue.sum_us == pytest.approx([0.060])


def test_sums_close_with_gaps_and_overlap() -> None:
    beside = event("memcpy", "Memcpy DtoD", 10_005, 12, correlation=77, stream=9)
    call = event("runtime", "cudaMemcpyAsync", 1100, 5, correlation=77)
    late = launched("T", 1200, 10_900, 90)
    result = table(attributed(*decode(1), call, beside, *late))
    closes(result)
    # 24 kernels in a row, 12 ns of copy beside them, then 660 ns nothing, then the late one
    assert result.end_to_end_us == pytest.approx([0.910])
    assert result.overlapped_us == pytest.approx([0.012])
    assert result.idle_us == pytest.approx([0.660])


def test_sums_close_for_two_profiles() -> None:
    closes(table(ONE, attributed(*decode(1, f"E{LAYER * 4}NGT"))))


def test_names_of_kernels_are_short_and_in_order() -> None:
    two = "ENGRKAGNGSG" + "NGRKAGNGSG" + "NGT"
    made = attributed(*decode(1, two.replace("NGR", "NGGR")))
    row = rows(table(made))["qkv"]
    assert row.kernels == [["nvjet_tst_128x8"]]
    assert row.kernel_times[0][0].time_us == pytest.approx(0.020)


def test_devices_of_one_profile_are_averaged_not_added() -> None:
    second = [{**e, "device": 1} if e["kind"] == "kernel" else e for e in decode(1)]
    made = attributed(*decode(1), *(e for e in second if e["kind"] == "kernel"))
    result = table(made)
    assert result.end_to_end_us == pytest.approx([0.240])
    assert rows(result)["qkv"].time_us == pytest.approx([0.010])
    closes(result)


# --- Options


def test_per_step_counts_all_layers() -> None:
    result = table(ONE, per="step")
    assert rows(result)["qkv"].time_us == pytest.approx([0.040])
    assert result.layer_kinds[0].sum_us == pytest.approx(result.layers_us)


SPLIT = "ENGGRKAGNGSGNGGRKAGNGSGNGT"


def test_per_call_is_the_mean_of_single_kernels() -> None:
    made = attributed(*decode(1, SPLIT))
    assert rows(table(made))["qkv"].time_us == pytest.approx([0.020])
    row = rows(table(made, per="call"))["qkv"]
    assert row.time_us == pytest.approx([0.010])
    assert row.kernel_times[0][0].time_us == pytest.approx(0.010)


def test_per_call_of_a_kernel_divides_by_its_own_calls() -> None:
    mixed = [
        {**e, "name": "cutlass_gemm"} if i == 3 and e["kind"] == "kernel" else e
        for i, e in enumerate(kernels(SPLIT))
    ]
    (row,) = [r for r in rows(table(attributed(*mixed), per="call")).values() if r.role == "qkv"]
    assert {k.name: k.time_us for k in row.kernel_times[0]} == {
        "nvjet_tst_128x8": pytest.approx(0.010),
        "cutlass_gemm": pytest.approx(0.010),
    }


SKEWED = attributed(*decode(1), *decode(2), *decode(3, dur=100), *decode(4))
"""Three steps, the third takes ten times as long; and the last one."""


def test_the_median_is_over_layers_and_passes() -> None:
    assert rows(table(SKEWED, stat="median"))["qkv"].time_us == pytest.approx([0.010])
    assert rows(table(SKEWED))["qkv"].time_us == pytest.approx([0.040])


def test_the_median_per_step_is_that_of_all_layers_of_a_step() -> None:
    assert rows(table(SKEWED, stat="median", per="step"))["qkv"].time_us == pytest.approx([0.020])


def test_the_median_per_call_is_that_of_single_kernels() -> None:
    made = attributed(*decode(1, SPLIT))
    row = rows(table(made, stat="median", per="call"))["qkv"]
    assert row.time_us == pytest.approx([0.010])


def test_the_90th_percentile_is_interpolated() -> None:
    # Six layers: 10, 10, 10, 10, 100, 100 ns; at 0.9 * 5 = 4.5 lies 100.
    assert rows(table(SKEWED, stat="p90"))["qkv"].time_us == pytest.approx([0.100])


def test_one_layer_alone() -> None:
    slow = [
        {**e, "dur_ns": 7} if e["kind"] == "kernel" and 11 <= i - 25 < 21 else e
        for i, e in enumerate(decode(1))
    ]
    result = table(attributed(*slow), layer=1)
    assert rows(result)["qkv"].time_us == pytest.approx([0.007])
    assert result.layer_kinds[0].sum_us == pytest.approx([0.070])
    assert result.layers_us == pytest.approx([0.170])


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"p0: no layer 2; there are 2, from 0"):
        table(ONE, layer=2)


# --- Phases and passes


BOTH = attributed(
    PREFILL, *launched(MODEL, 1, 200, 1, dur=100), *[e for n in range(1, 5) for e in decode(n)]
)
"""One prefill of 24 x 100 ns, three decode steps of 24 x 10 ns, and the last one."""


def test_the_phase_with_most_time_is_the_default() -> None:
    assert table(BOTH).phase == "prefill"


def test_a_phase_on_request() -> None:
    result = table(BOTH, phase="decode")
    assert (result.phase, result.passes) == ("decode", [3])
    assert result.end_to_end_us == pytest.approx([0.240])


def test_the_default_phase_is_one_that_all_profiles_have() -> None:
    assert table(BOTH, ONE).phase == "decode"


def test_without_a_common_phase_all_passes_count() -> None:
    prefill = attributed(PREFILL, *launched(MODEL, 1, 200, 1))
    result = table(prefill, ONE)
    assert (result.phase, result.passes) == (None, [1, 2])


def test_a_cut_step_is_left_out() -> None:
    head = kernels(LAYER * 2 + "NGT", 0)
    step = event("annotation", "decode_step", 1000, 500)
    result = table(attributed(*head, step, *launched(MODEL, 1001, 10_000, 1)))
    assert result.passes == [1]
    assert result.end_to_end_us == pytest.approx([0.240])


def test_passes_with_an_unusual_number_of_layers_are_left_out() -> None:
    warm_up = decode(3, f"E{LAYER * 3}NGT", dur=500)
    result = table(attributed(*decode(1), *decode(2), *warm_up))
    assert result.passes == [2]
    assert result.layer_kinds[0].layers == [2]


def test_a_pass_without_anything_outside_its_layers_is_not_unusual() -> None:
    bare = decode(3, LAYER * 2)
    assert table(attributed(*decode(1), *decode(2), *bare, *decode(4))).passes == [3]


# --- Side by side


def test_a_role_that_one_side_lacks_is_null_there() -> None:
    reduced = f"E{LAYER.replace('AG', 'AGC') * 2}NGT"
    result = table(ONE, attributed(*decode(1, reduced)))
    row = rows(result)["all_reduce"]
    assert row.time_us == [None, pytest.approx(0.010)]
    assert row.kernels == [[], ["ncclDevKernel_AllReduce"]]


def test_a_kind_of_layer_that_one_side_lacks_is_null_there() -> None:
    dense, moe = table(ONE, attributed(*decode(1, f"E{'NGRKAGNGODPSPF' * 2}NGT"))).layer_kinds
    assert (dense.kind, dense.layers) == ("attention+dense", [2, 0])
    assert (moe.kind, moe.layers) == ("attention+moe", [0, 2])
    assert dense.sum_us == [pytest.approx(0.200), None]
    assert moe.sum_us == [None, pytest.approx(0.140)]


def test_profiles_align_by_role_whatever_the_kernels_are_called() -> None:
    other = [
        {**e, "name": "Cijk_Alik_Bljk_BBS_BH"} if e["name"] == "nvjet_tst_128x8" else e
        for e in decode(1)
    ]
    row = rows(table(ONE, attributed(*other)))["qkv"]
    assert row.kernels == [["nvjet_tst_128x8"], ["Cijk_Alik_Bljk_BBS_BH"]]
    assert None not in row.time_us


def test_coverage_is_of_the_phase() -> None:
    result = table(ONE)
    assert (result.coverage.layer_pct, result.coverage.role_pct) == ([100.0], [100.0])


def test_what_has_no_role_lowers_the_coverage_of_roles_only() -> None:
    result = table(attributed(*decode(1, f"oE{LAYER * 2}NGT")))
    assert result.coverage.layer_pct == [100.0]
    assert result.coverage.role_pct == pytest.approx([96.0])


# --- Errors


def test_a_summary_has_no_layers() -> None:
    made = aggregate({"kind": "kernel", "name": "gemm", "calls": 1, "total_ns": 9, "mean_ns": 9.0})
    with pytest.raises(InputError, match="p0: a summary without single kernels has no layers"):
        table(made)
    with pytest.raises(InputError, match="p0: a summary without single kernels has no layers"):
        table(made, phase="decode")


def test_a_model_without_layers() -> None:
    with pytest.raises(InputError, match=r"p0: no layers found$"):
        table(attributed(*kernels("GNGSGNGSG")))


def test_a_phase_that_is_not_there() -> None:
    with pytest.raises(InputError, match="p0: no layers found in phase prefill"):
        table(ONE, phase="prefill")


def test_layers_of_unknown_kind_have_rows_and_count() -> None:
    """As in a profile whose second layer holds only kernels that say nothing."""
    second = (pl.col("place") == "layer") & (pl.col("layer") == 1)
    lost = [
        pl.when(~second).then(pl.col(name)).alias(name) for name in ("layer_kind", "group", "role")
    ]
    result = table(replace(ONE, activities=ONE.activities.with_columns(lost)))
    assert [(kind.kind, kind.layers) for kind in result.layer_kinds] == [
        ("attention+dense", [1]),
        (UNKNOWN_KIND, [1]),
    ]
    (unknown,) = rows(result, kind=1).values()
    assert unknown.role == "other"
    assert unknown.time_us == pytest.approx([10 * 0.020])
    assert result.coverage.role_pct[0] < table(ONE).coverage.role_pct[0]
    closes(result)


def test_where_two_numbers_of_layers_are_as_common_the_larger_counts() -> None:
    passes = pl.DataFrame({"pass": [1, 1, 2], "layer": [0, 1, 0]})
    assert _usual_passes(passes)["pass"].to_list() == [1, 1]
