"""Judging: each kind of tolerance, at its limits."""

from __future__ import annotations

import msgspec
import pytest
import torch

from solscope.operators.task import Judgement, Output, Tolerance
from solscope.operators.tasks.fp8 import (
    MAX,
    decode_blocks,
    encode,
    fp8_dtype,
    quantize,
    quantize_blocks,
)
from solscope.operators.tasks.judge import both, exactly, judge, within
from solscope.operators.tasks.rotation import rotation_judgement
from solscope.operators.tasks.tolerances import UNIT, rounded


def test_close_counts_values_outside() -> None:
    wanted = torch.ones(1000)
    got = wanted.clone()
    got[7] = 1.5
    strict = within(Tolerance("close", rtol=0.01), got, wanted)
    assert not strict.ok
    assert strict.max_error == 0.5
    assert "1 of 1000 values" in strict.reason
    assert "[7]" in strict.reason
    assert within(Tolerance("close", rtol=0.01, matched=0.999), got, wanted).ok
    assert not within(Tolerance("close", rtol=0.01, matched=0.999, rms=0.01), got, wanted).ok


def test_a_reason_names_a_value_that_is_outside_its_own_limit() -> None:
    """Not the one with the largest error, which may be right for its size."""
    wanted = torch.tensor([1e14, 100.0, 1.0, 0.0]).double()
    got = torch.tensor([1.005e14, 103.0, 1.5, 1e-6]).double()
    verdict = within(Tolerance("close", atol=1e-3, rtol=0.01), got, wanted)
    assert verdict.max_error == pytest.approx(5e11, rel=1e-3)
    assert "2 of 4 values" in verdict.reason
    assert "worst 0.5 at [2]: 1.5 instead of 1" in verdict.reason


def test_nan_and_infinity_are_not_close_to_numbers() -> None:
    wanted = torch.ones(4)
    for bad in (float("nan"), float("inf")):
        assert not within(Tolerance("close", atol=1e9, rms=1e9), torch.full((4,), bad), wanted).ok
    infinite = torch.tensor([1.0, float("-inf"), float("nan")])
    assert within(Tolerance("close", atol=1e-6), infinite, infinite.clone()).ok
    for value in (float("inf"), float("-inf"), float("nan")):
        verdict = within(
            Tolerance("close", atol=1.0, rtol=1.0), torch.zeros(1), torch.full((1,), value)
        )
        assert (verdict.ok, verdict.max_error) == (False, float("inf"))


def test_exactly_names_the_first_difference() -> None:
    wanted = torch.arange(6).view(2, 3)
    got = wanted.clone()
    got[1, 0] = 9
    verdict = exactly(got, wanted)
    assert not verdict.ok
    assert verdict.reason == "1 of 6 values differ, the first at [1, 0]: 9 instead of 3"
    assert exactly(wanted, wanted).ok


def test_codes_allow_neighbors_only() -> None:
    wanted = encode(torch.tensor([1.0, -1.0, 0.0, 448.0]), "e4m3fn")
    next_up = (wanted.view(torch.uint8) + torch.tensor([1, 1, 0, 0], dtype=torch.uint8)).view(
        wanted.dtype
    )
    assert within(Tolerance("codes", matched=0.5), next_up, wanted).ok
    assert not within(Tolerance("codes", matched=0.6), next_up, wanted).ok
    doubled = encode(wanted.float() * 2, "e4m3fn")
    assert not within(Tolerance("codes", matched=0.0), doubled, wanted).ok


def test_codes_around_zero_are_neighbors() -> None:
    zero = encode(torch.tensor([0.0, -0.0]), "e4m3fn")
    least = torch.tensor([0x81, 0x01], dtype=torch.uint8).view(torch.float8_e4m3fn)
    assert within(Tolerance("codes", matched=0.0), least, zero).ok


def test_no_number_is_a_neighbor_of_nan() -> None:
    for fp8, value, code in (
        ("e4m3fn", 448.0, 0x7F),
        ("e4m3fn", -448.0, 0xFF),
        ("e4m3fnuz", 0.0, 0x80),
    ):
        number = encode(torch.tensor([value]), fp8)
        nan = torch.tensor([code], dtype=torch.uint8).view(number.dtype)
        assert nan.float().isnan()
        for got, wanted in ((nan, number), (number, nan)):
            verdict = within(Tolerance("codes", matched=0.0), got, wanted)
            assert (verdict.ok, verdict.max_error) == (False, float("inf"))
        assert within(Tolerance("codes"), nan, nan.clone()).ok


def test_shape_and_compare() -> None:
    output = Output("float32", Tolerance("exact"))
    assert not judge(output, torch.zeros(2), torch.zeros(3), {}, {}).ok
    special = Output("float32", Tolerance("exact"), lambda *_: Judgement(ok=True, max_error=3.0))
    assert judge(special, torch.zeros(2), torch.ones(2), {}, {}).max_error == 3.0


def test_both_needs_both() -> None:
    good, bad = Judgement(True, 0.0, 0.1), Judgement(False, 2.0, reason="wrong")
    assert both(good, bad) == Judgement(False, 2.0, 0.1, "wrong")


def test_large_tensors_are_judged_in_slices(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("solscope.operators.tasks.judge._SLICE", 10)
    wanted = torch.randn(7, 5)
    got = wanted.clone()
    got[6, 4] += 1
    verdict = within(Tolerance("close", rtol=1e-3), got, wanted)
    assert "[6, 4]" in verdict.reason
    assert verdict.rms_error is not None
    assert abs(verdict.rms_error - 1 / float(wanted.norm())) < 1e-6


@pytest.mark.parametrize("values", [3, 12, 1 << 24])
def test_rows_are_judged_whole(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in a slice where it is longer, else as many as fit."""
    monkeypatch.setattr("solscope.operators.tasks.judge._SLICE", values)
    wanted = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    got = wanted.clone()
    got[4:6] *= 1.1
    verdict = within(Tolerance("close", atol=1e-3, rtol=1.0, row_rms=0.05), got, wanted)
    assert verdict.reason.startswith("2 of 7 rows are off by over 0.05 RMS, first [4, 0]")


def test_one_rounding_is_what_a_tolerance_of_one_allows() -> None:
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(1))
    for dtype in ("bfloat16", "float16"):
        once = values.to(getattr(torch, dtype))
        tolerance = rounded(dtype, 1, "", atol=1e-7)
        assert within(tolerance, once, values).ok
        off = (values * (1 + 3 * UNIT[dtype])).to(once.dtype)
        assert not within(tolerance, off, values).ok


def test_values_that_all_round_the_same_way_are_right_and_others_as_far_off_are_not() -> None:
    tolerance = rounded("bfloat16", 1, "")
    few = torch.full((2,), 1.0 + 0.9 * 2**-8)  # both round by nearly half a step
    for wanted in (few, few.repeat(5000)):
        assert within(tolerance, wanted.bfloat16(), wanted).ok
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(1))
    down = (values.view(torch.int32) & ~0xFFFF).view(torch.float32).bfloat16()
    wide = msgspec.structs.replace(tolerance, rtol=2 * tolerance.rtol)
    verdict = within(wide, down, values)
    assert verdict.reason.startswith("relative RMS error 0.0033 is over 0.002")


def test_a_row_times_a_factor_above_a_power_of_two_rounds_down_everywhere() -> None:
    tolerance = rounded("bfloat16", 1, "")
    row = torch.randn(1, 1280, generator=torch.Generator().manual_seed(2)).bfloat16().double()
    wanted = row * (1 + 0.6 * 2**-8)
    assert (wanted.bfloat16().double() == row).double().mean() > 0.7
    assert within(tolerance, wanted.bfloat16(), wanted).ok
    assert not within(tolerance, (wanted * (1 + 2**-9)).bfloat16(), wanted).ok


def test_one_row_is_not_reason_enough_for_a_wider_limit() -> None:
    wanted = torch.randn(1, 4096, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(1, 4096, generator=torch.Generator().manual_seed(4))
    limit = Tolerance("close", rtol=1.0, rms=4.5e-3)
    assert not within(limit, (wanted * (1 + 6e-3 * noise)).bfloat16(), wanted).ok


def test_one_row_may_have_more_codes_off_than_many() -> None:
    wanted = encode(torch.ones(1, 100), "e4m3fn")
    got = encode(torch.where(torch.arange(100) < 8, 1.125, 1.0)[None], "e4m3fn")
    tolerance = Tolerance("codes", matched=0.94, worst_row=0.91)
    assert within(tolerance, got, wanted).ok
    assert not within(Tolerance("codes", matched=0.94), got, wanted).ok
    verdict = within(tolerance, got.repeat(50, 1), wanted.repeat(50, 1))
    assert verdict.reason == "400 of 5000 codes are off by one, more than 6.06 %"


def test_fp8_saturates_in_both_encodings() -> None:
    for fp8, largest in MAX.items():
        assert torch.finfo(fp8_dtype(fp8)).max == largest
        codes = encode(torch.tensor([1e6, -1e6, 0.0]), fp8)
        assert codes.float().tolist() == [largest, -largest, 0.0]


def test_quantized_rows_come_back() -> None:
    values = torch.randn(8, 64) * torch.logspace(-3, 3, 8)[:, None]
    codes, scale = quantize(values, "e4m3fn")
    back = codes.float() * scale
    assert float(((back - values).abs() / values.abs().amax(-1, keepdim=True)).max()) < 2**-4
    assert codes.float().abs().amax(-1).tolist() == [448.0] * 8


def test_blocks_with_ragged_edges_come_back() -> None:
    values = torch.randn(2, 200, 300)
    codes, scale = quantize_blocks(values, (128, 128), "e4m3fn")
    assert codes.shape == values.shape
    assert scale.shape == (2, 2, 3)
    back = decode_blocks(codes, scale, (128, 128), torch.float32)
    assert float((back - values).abs().max() / values.abs().max()) < 2**-4


def test_a_single_value_is_one_row() -> None:
    tolerance = Tolerance("close", atol=0.0, rtol=1e-3, row_rms=1e-3)
    judgement = within(tolerance, torch.tensor(2.0), torch.tensor(1.0))
    assert not judgement.ok
    assert "1 of 1 rows" in judgement.reason


def test_rotated_values_below_the_normal_ones_may_round_to_either_side_of_a_tie() -> None:
    step = 2.0**-24  # between the smallest numbers of fp16
    wanted = torch.tensor([[1000.0, 1.5 - 1e-4]], dtype=torch.float64) * step
    either = [torch.tensor([[1000.0, side]]).mul(step).half() for side in (1.0, 2.0, 3.0)]
    judged = [rotation_judgement("float16", got, wanted.float()).ok for got in either]
    assert judged == [True, True, False]
