from __future__ import annotations

from typing import Any

import pytest

from solscope.attribution.usual_steps import LeftOut
from solscope.views.steps import step_summary, step_times
from tests.making import aggregate, attributed, event
from tests.models import kernels, launched

MS = 1_000_000


def step(name: str, number: int, ms: float, gap_ms: float = 0.0) -> list[dict[str, Any]]:
    """A step of one kernel that starts every 10 ms, `gap_ms` late, and takes `ms`."""
    at = 10 * MS * number
    kernel = launched("G", at + 1, at + round(gap_ms * MS), number + 1, dur=round(ms * MS))
    return [event("annotation", name, at, 1000), *kernel]


def test_count_and_quantiles_by_phase() -> None:
    """Step times of 10 + late ms each, the last step left out."""
    late = [0, 1, 1, 3, 3, 6, 6, 6, 6, 6, 6, 7]
    steps = [step("decode_step", i, 2, gap_ms) for i, gap_ms in enumerate(late)]
    found = step_summary(attributed(*(e for s in steps for e in s)))
    (decode,) = found.phases
    assert (found.count, found.cut, found.found_by) == (12, 0, "annotation")
    assert (decode.phase, decode.count) == ("decode", 11)
    assert decode.basis.left_out == LeftOut(last=1)
    assert decode.basis.step_ms == decode.tpot_ms == pytest.approx(117 / 11)
    assert (decode.p50_ms, decode.p90_ms) == pytest.approx((10.0, 12.0))
    assert decode.slowest_ms == pytest.approx(13.0)


def test_a_high_quantile_of_few_steps_is_null() -> None:
    """It would be no more than the slowest step."""
    steps = [step("decode_step", i, 2) for i in range(10)]
    (few,) = step_summary(attributed(*(e for s in steps for e in s))).phases
    assert (few.count, few.p90_ms, few.p99_ms) == (9, None, None)
    steps = [step("decode_step", i, 2) for i in range(101)]
    (many,) = step_summary(attributed(*(e for s in steps for e in s))).phases
    assert (many.p90_ms, many.p99_ms) == pytest.approx((10.0, 10.0))


def test_phases_are_apart_and_the_most_frequent_first() -> None:
    events = [*step("prefill", 0, 8), *step("decode_step", 1, 1), *step("decode_step", 2, 1)]
    found = step_summary(attributed(*events)).phases
    assert [(p.phase, p.basis.of) for p in found] == [("decode", 2), ("prefill", 1)]


def test_times_of_whole_steps_in_order() -> None:
    events = [*step("prefill", 0, 8), *step("decode_step", 1, 3), *step("decode_step", 2, 1)]
    assert step_times(attributed(*events)) == {"prefill": [10.0], "decode": [10.0]}


def test_the_gap_is_the_time_to_the_next_step() -> None:
    found = step_summary(attributed(*step("decode_step", 0, 4), *step("decode_step", 1, 4, 1)))
    # The first ends at 4 ms, the second starts at 11 ms; after it there is none.
    assert found.phases[0].gap_p50_ms == pytest.approx(7.0)


def test_a_single_step_has_no_gap() -> None:
    assert step_summary(attributed(*step("decode_step", 0, 4))).phases[0].gap_p50_ms is None


def test_requests_tokens_and_tokens_per_second() -> None:
    sizes = (30, 34, 90)
    events = [e for i, size in enumerate(sizes) for e in step(f"step[DECODE bs={size}]", i, 4)]
    (decode,) = step_summary(attributed(*events)).phases
    assert (decode.requests, decode.tokens) == (32.0, 32.0)
    # 64 tokens in two steps of 10 ms; the last step has no step time
    assert decode.tokens_per_s == pytest.approx(64 / 0.020)


def test_without_annotations_tokens_are_not_known() -> None:
    (phase,) = step_summary(attributed(*kernels("GNG"))).phases
    assert (phase.phase, phase.tokens, phase.requests) == (None, None, None)
    assert phase.tokens_per_s is None


def test_a_cut_step_counts_but_is_not_timed() -> None:
    head = event("kernel", "gemm", 0, 9 * MS)
    found = step_summary(attributed(head, *step("decode_step", 1, 4)))
    assert (found.count, found.cut) == (2, 1)
    assert [(p.phase, p.count, p.p50_ms) for p in found.phases] == [("decode", 1, 4.0)]


def test_a_summary_without_single_kernels_has_no_steps() -> None:
    row = {"kind": "kernel", "name": "gemm", "calls": 1, "total_ns": 9, "mean_ns": 9.0}
    found = step_summary(aggregate(row))
    assert (found.count, found.cut, found.found_by, found.phases) == (0, 0, None, [])
