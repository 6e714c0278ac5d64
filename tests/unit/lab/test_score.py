from __future__ import annotations

import math
from pathlib import Path

import pytest

from solscope.lab.answers import OURS, Answer, Answered, noise_bands
from solscope.lab.pairs import Pair, normal_pairs
from solscope.lab.rankers import RANKERS
from solscope.lab.score import LabScore, committed, packed, score_answers, wilson
from solscope.report.results.lab import markdown_score, score_parts
from tests.printing import printed


def pair(name: str, fault: str = "gc", half: str = "test", **more: object) -> Pair:
    facts = {"mode": "eager", "strength": 2, "expected": [fault]} | more
    return Pair(id=name, half=half, fault=fault, normal="n", abnormal=name, **facts)  # type: ignore[arg-type]


def answered(item: Pair, ratio: float, causes: list[str], **more: object) -> Answered:
    nothing = {name: Answer([], alarm=False) for name in RANKERS}
    alarm = bool(causes) and causes[0] not in ("none", "unknown")
    ours = Answer(causes, alarm=alarm, **more)  # type: ignore[arg-type]
    return Answered(item, ratio, {OURS: ours, **nothing})


CONTROLS = [
    answered(pair("a1", "none"), 1.06, ["none"], verdict="no_change"),
    answered(pair("a2", "none"), 0.98, ["cpu_slow"], verdict="regression"),
]


def group(result: LabScore, name: str, ranker: str = OURS) -> tuple[int, int, int, float | None]:
    (row,) = [g for g in result.groups if g.group == name and g.ranker == ranker]
    return row.pairs, row.top1.hits, row.top3.hits, row.mrr


def test_wilson_is_the_known_formula() -> None:
    rate = wilson(9, 10)
    assert (rate.rate, rate.hits, rate.n) == (0.9, 9, 10)
    assert rate.low == pytest.approx(0.5958, abs=1e-4)
    assert rate.high == pytest.approx(0.9821, abs=1e-4)
    assert wilson(0, 0).rate is None
    assert wilson(0, 5).low == 0.0
    assert wilson(5, 5).high == 1.0


def test_places_and_groups() -> None:
    items = [
        answered(pair("p1"), 2.0, ["gc", "disk_io"]),
        answered(pair("p2"), 1.4, ["disk_io", "lock_wait", "gc"]),
        answered(pair("p3", strength=1), 1.1, ["unknown"]),
        answered(pair("p4", mode="graph"), 1.5, ["a", "b", "c", "gc"]),
    ]
    result = score_answers([*items, *CONTROLS])
    assert group(result, "moved")[:3] == (4, 1, 2)
    assert group(result, "moved")[3] == pytest.approx((1 + 1 / 3 + 0 + 1 / 4) / 4)
    assert group(result, "slow")[:3] == (3, 1, 2)
    assert group(result, "strength:1")[:3] == (1, 0, 0)
    assert group(result, "mode:graph")[:3] == (1, 0, 0)
    assert group(result, "moved", "suspicion score")[:3] == (4, 0, 0)
    assert result.answering["test"].n == 3
    assert result.answering["test"].hits == 1


def test_any_of_the_expected_causes_is_right() -> None:
    item = answered(pair("p", expected=["kernel_changed", "dtype_changed"]), 2.0, ["dtype_changed"])
    result = score_answers([item])
    assert group(result, "moved")[:2] == (1, 1)
    assert [(c.expected, c.named) for c in result.confusion] == [("dtype_changed", "dtype_changed")]


def test_the_noise_of_pairs_without_a_fault_decides_what_moved() -> None:
    items = [
        answered(pair("inside"), 1.05, ["none"], latent=["gc"]),
        answered(pair("beyond"), 1.07, ["gc"]),
        answered(pair("faster"), 0.8, ["gc"]),
    ]
    result = score_answers([*items, *CONTROLS])
    assert result.noise_pct["test eager"] == pytest.approx(6, abs=0.1)
    assert {p.id: p.state for p in result.pairs} == {
        "inside": "latent",
        "beyond": "moved",
        "faster": "moved",
        "a1": "control",
        "a2": "control",
    }


def test_pairs_of_two_sessions_may_have_the_same_name() -> None:
    items = [answered(pair("p"), 2.0, ["gc"]), answered(pair("p"), 1.0, ["none"])]
    result = score_answers(items)
    assert [p.state for p in result.pairs] == ["moved", "latent"]
    assert group(result, "moved")[:2] == (1, 1)


def test_without_such_pairs_three_percent_is_noise() -> None:
    assert noise_bands([answered(pair("p"), 2.0, [])]) == {
        "test eager": pytest.approx(math.log(1.03))
    }


def test_latent_pairs_are_right_by_name_by_list_or_by_silence() -> None:
    items = [
        answered(pair("listed"), 1.0, ["none"], latent=["gc"]),
        answered(pair("named"), 1.0, ["gc"]),
        answered(pair("silent"), 1.0, ["none"]),
        answered(pair("wrong"), 1.0, ["disk_io"]),
    ]
    (ours,) = [c for c in score_answers([*items, *CONTROLS]).controls if c.ranker == OURS]
    assert (ours.latent_right.hits, ours.latent_named.hits, ours.latent_right.n) == (3, 2, 4)


def test_false_alarms() -> None:
    (ours,) = [c for c in score_answers(CONTROLS).controls if c.ranker == OURS]
    assert (ours.false_alarms.hits, ours.false_alarms.n) == (1, 2)


def test_taking_nothing_for_faster_is_no_alarm_but_a_false_change() -> None:
    items = [answered(pair("a", "none"), 0.98, ["unknown"], verdict="improvement")]
    (ours,) = [c for c in score_answers(items).controls if c.ranker == OURS]
    assert (ours.false_alarms.hits, ours.false_changes.hits) == (0, 1)


def test_halves_are_never_mixed() -> None:
    items = [answered(pair("p", half="tune"), 2.0, ["gc"]), answered(pair("q"), 2.0, ["x"])]
    result = score_answers(items)
    rates = {g.half: g.top1.rate for g in result.groups if g.group == "moved" and g.ranker == OURS}
    assert rates == {"tune": 1.0, "test": 0.0}
    assert list(rates) == ["tune", "test"]


def test_brier_and_closure() -> None:
    items = [
        answered(pair("p"), 2.0, ["gc"], confidences=[0.9], closure_pct=0.02),
        answered(pair("q"), 2.0, ["x"], confidences=[0.6], closure_pct=0.01),
    ]
    result = score_answers(items)
    assert result.brier["test"] == pytest.approx((0.1**2 + 0.6**2) / 2)
    assert result.closure_pct == 0.02


def test_reports_show_what_went_wrong() -> None:
    items = [answered(pair("good"), 2.0, ["gc"]), answered(pair("bad"), 2.0, ["disk_io"])]
    result = score_answers([*items, *CONTROLS])
    text = printed(score_parts, result, width=200)
    first, answer, *_ = text.splitlines()
    assert first == "4 pairs: 2 moved, 0 latent, 2 without a fault"
    assert answer == (
        "test: the right cause comes first in 1 of 2 pairs with a fault whose steps take at least "
        "1.3 times as long, beyond the noise; false alarms in 1 of 2 pairs without a fault"
    )
    assert "made of the normal recordings" not in text
    assert "test: all that moved (n = 2)" in text
    assert "solscope            0.50 [0.09, 0.91]" in text
    listed = text.partition("pairs that went wrong")[2]
    assert "bad" in listed
    assert "a2" in listed
    assert "good" not in listed
    assert "good" in printed(score_parts, result, width=140, every=True)
    row = "| test | all that moved | 2 | solscope | 0.50 [0.09, 0.91] | 0.50 [0.09, 0.91] | 0.50 |"
    assert row in markdown_score(result)
    assert max(map(len, printed(score_parts, result, width=80).splitlines())) <= 80


def test_pairs_of_two_normal_recordings_are_called_that() -> None:
    result = score_answers([answered(pair("a~b", "none"), 1.0, ["none"]), *CONTROLS])
    text = printed(score_parts, result, width=200)
    assert "1 of the pairs without a fault is made of the normal recordings of others" in text


def test_a_slow_pair_within_the_noise_is_listed_when_it_went_wrong() -> None:
    apart = answered(pair("apart", "none"), 1.6, ["none"])
    slow = answered(pair("slow"), 1.4, ["disk_io"])
    quick = answered(pair("quick"), 1.1, ["disk_io"])
    result = score_answers([apart, slow, quick])
    assert {p.id: p.state for p in result.pairs}["slow"] == "latent"
    listed = printed(score_parts, result, width=140).partition("pairs that went wrong")[2]
    assert "slow" in listed
    assert "quick" not in listed


def test_committed_results_are_looked_for_upwards(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "lab" / "h200"
    folder.mkdir(parents=True)
    (folder / "pairs.jsonl").write_text("{}\n")
    below = tmp_path / "src"
    below.mkdir()
    assert committed(below) == [folder]


def test_a_folder_of_folders_stands_for_those_below_it(tmp_path: Path) -> None:
    for name in ("tune", "test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pairs.jsonl").touch()
    assert packed([tmp_path]) == [tmp_path / "test", tmp_path / "tune"]
    assert packed([tmp_path / "tune"]) == [tmp_path / "tune"]
    (tmp_path / "tune" / "empty").mkdir()
    assert packed([tmp_path / "tune" / "empty"]) == [tmp_path / "tune" / "empty"]


def test_with_the_right_cause_left_out_the_rest_is_scaled_up() -> None:
    answer = Answer(["gc", "disk_io", "unknown"], alarm=True, confidences=[0.8, 0.15, 0.05])
    first, confidence = answer.without(["gc"])
    assert first == "disk_io"
    assert confidence == pytest.approx(0.75)
    assert answer.without(["gc", "disk_io"])[0] == "unknown"
    assert Answer(["gc"], alarm=True, confidences=[1.0]).without(["gc"]) == ("unknown", 1.0)


def test_a_confident_wrong_cause_is_immodest() -> None:
    items = [
        answered(pair("p"), 2.0, ["gc", "disk_io"], confidences=[0.8, 0.2]),
        answered(pair("q"), 2.0, ["gc", "unknown"], confidences=[0.8, 0.2]),
        answered(pair("r"), 2.0, ["gc", "a", "unknown"], confidences=[0.8, 0.11, 0.09]),
    ]
    rate = score_answers(items).left_out["test"]
    assert (rate.hits, rate.n) == (2, 3)


def test_families_are_those_of_the_causes() -> None:
    items = [answered(pair("p"), 2.0, ["disk_io"]), answered(pair("q"), 2.0, ["graphs_off"])]
    (row,) = [g for g in score_answers(items).groups if (g.group, g.ranker) == ("moved", OURS)]
    assert (row.family.hits, row.family.n, row.top1.hits) == (1, 2, 0)


def test_normal_runs_of_the_same_loop_are_pairs_without_a_fault() -> None:
    made = [
        Pair(f"p{at}", "tune", "gc", ["gc"], mode, 1, f"n{at}", f"a{at}", base=base)
        for at, (mode, base) in enumerate(
            [
                ("eager", {}),
                ("eager", {"copies": 4}),
                ("graph", {}),
                ("eager", {}),
                ("eager", {}),
                ("graph", {}),
            ]
        )
    ]
    found = normal_pairs([*made, made[-1]])
    assert [(pair.normal, pair.abnormal) for pair in found] == [
        ("n0", "n3"),
        ("n3", "n4"),
        ("n2", "n5"),
    ]
    assert all(pair.is_control for pair in found)
