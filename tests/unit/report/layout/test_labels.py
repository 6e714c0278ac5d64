"""Names of profiles above their columns."""

from __future__ import annotations

from solscope.report.layout.labels import headings

SUMMARIES = [
    "h100.sqlite",
    "nsys_per-stage_decode_kern_sum.csv",
    "nsys_per-stage_prefill_kern_sum.csv",
]


def test_names_with_room_stay_whole() -> None:
    assert headings(SUMMARIES, 40) == SUMMARIES


def test_names_that_differ_in_the_middle_can_be_told_apart() -> None:
    assert headings(SUMMARIES, 20) == ["h100.sqlite", "…decode…", "…prefill…"]


def test_whole_words_are_shown() -> None:
    sides = ["mi300_sglang_qwen3-8b_decode", "mi300_sglang_qwen3-8b_prefilldecode"]
    assert headings(sides, 15) == ["…decode", "…prefilldecode"]
    assert headings(["trace_of_run_a_a", "trace_of_run_a"], 6) == ["…a_a", "…a"]


def test_the_same_name_twice_is_no_reason_to_show_nothing() -> None:
    assert headings(["one_long_name", "one_long_name"], 8) == ["…name", "…name"]
