"""Score, comparison and leaderboard on results whose numbers are written out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from solscope.bench.base import ShapeResult, Timing
from solscope.bench.results.contrast import contrast
from solscope.bench.results.files import append_result, latest, read_results
from solscope.bench.results.leaderboard import leaderboard
from solscope.bench.results.score import score, select, usual
from solscope.cli import run
from solscope.errors import InputError, UsageError
from solscope.report.results.bench import (
    MOST_UNDECIDED,
    contrast_parts,
    leaderboard_parts,
    results_parts,
    score_parts,
)
from tests.printing import printed

JITTER = (0.995, 1.0, 1.0, 1.005, 0.998, 1.002)


@pytest.fixture(autouse=True)
def stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take bounds and weights as the lines state them, so that sums can be done by hand."""
    monkeypatch.setattr("solscope.bench.results.score.restate", list)


def line(operator: str, shape: str, median_us: float, **more: Any) -> ShapeResult:
    """A passed line: bound 10 us, six samples in each of two processes."""
    samples = [median_us * factor for factor in JITTER]
    facts: dict[str, Any] = {
        "solution": "mine",
        "status": "passed",
        "device": "NVIDIA H200",
        "method": "cold-v1",
        "median_us": median_us,
        "samples": [*samples, *samples],
        "samples_per_restart": [6, 6],
        "bound_us": 10.0,
        "s": 10.0 / median_us,
        "published_us": 12.0,
        "weight": 0.5,
        "calls": 1.0,
        "suite": "atrex",
        "run": {"id": "one"},
        **more,
    }
    return ShapeResult(operator=operator, shape=shape, **facts)


def test_an_operator_is_weighted_by_calls_not_by_ratios() -> None:
    rows = [line("rms_norm", "0", 20.0, calls=3.0), line("rms_norm", "1", 100.0, calls=1.0)]
    (found,) = score(rows).operators
    assert found.s_passed == pytest.approx((3 * 10 + 1 * 10) / (3 * 20 + 1 * 100))
    assert (found.s, found.covered_weight) == (found.s_passed, 1.0)
    assert found.published_s == pytest.approx(4 * 12 / 160)
    assert (found.shapes_passed, found.shapes) == (2, 56)
    assert found.recoverable == pytest.approx(found.importance * (1 - 0.25))


def test_shares_of_time_stand_in_for_calls() -> None:
    rows = [
        line("rms_norm", "0", 20.0, calls=None, weight=0.75),
        line("rms_norm", "1", 100.0, calls=None, weight=0.25),
    ]
    (found,) = score(rows).operators
    assert found.s == pytest.approx(0.75 * 0.5 + 0.25 * 0.1)


def test_all_operators_are_weighted_by_importance_and_what_lacks_is_told() -> None:
    rows = [line("rms_norm", "0", 20.0), line("l2_norm", "0", 100.0)]
    found = score(rows)
    norms = {one.operator: one.importance for one in found.operators}
    covered = (
        0.5 * norms["rms_norm"] + 0.5 * norms["l2_norm"]
    )  # each has one shape of half the time
    wanted = 0.5 * norms["rms_norm"] * 0.5 + 0.5 * norms["l2_norm"] * 0.1
    assert found.covered == pytest.approx(covered)
    assert found.weighted_s == pytest.approx(wanted)
    assert found.s_covered == pytest.approx(wanted / covered)
    assert found.recoverable == pytest.approx(covered - wanted)


def test_what_failed_or_was_declined_counts_as_nothing() -> None:
    whole = [line("rms_norm", at, 20.0) for at in "01"]
    for status in ("unsupported", "wrong_numbers"):
        half = [whole[0], msgspec.structs.replace(whole[1], status=status, solution="mine")]
        assert score(half).operators[0].s == pytest.approx(0.5 * 0.5)
        assert score(half).operators[0].s_passed == pytest.approx(0.5)
    declining = [
        msgspec.structs.replace(one, solution="half", declined=["tokens = 3"])
        for one in (whole[0], msgspec.structs.replace(whole[1], status="unsupported"))
    ]
    board = leaderboard([*whole, *declining])
    assert [one.solution for one in board.entries] == ["mine", "half"]
    last = board.entries[-1]
    assert (last.shapes_unsupported, last.declined) == (1, 1)


def test_versions_of_a_solution_do_not_mix() -> None:
    rows = [
        line("rms_norm", "0", 20.0, solution_hash="old"),
        line("rms_norm", "1", 20.0, solution_hash="old"),
        line("rms_norm", "0", 40.0, solution_hash="new"),
    ]
    assert [(one.shape, one.median_us) for one in latest(rows)] == [("0", 40.0)]
    assert [one.shape for one in latest([*rows, rows[1]])] == ["0", "1"]


def test_the_fastest_that_passed_counts_and_one_solution_can_be_asked_for() -> None:
    rows = [
        line("rms_norm", "0", 40.0, solution="slow"),
        line("rms_norm", "0", 20.0, solution="fast"),
        line("rms_norm", "0", 5.0, solution="evil", status="faster_than_bound"),
    ]
    (found,) = score(rows).operators
    assert (found.s_passed, found.best) == (0.5, {"fast": 1})
    assert score(rows, "slow").s_covered == 0.25
    assert score(rows, "evil").weighted_s is None
    board = leaderboard(rows)
    assert [(one.solution, one.wins) for one in board.entries] == [
        ("fast", 1),
        ("slow", 0),
        ("evil", 0),
    ]
    assert board.entries[-1].shapes_failed == 1


def test_another_method_has_its_own_score() -> None:
    graph = {"graph-v1": Timing(median_us=12.5, samples=[12.5] * 5, samples_per_restart=[5])}
    rows = [line("rms_norm", "0", 20.0, methods=graph), line("rms_norm", "1", 20.0)]
    found = score(rows, method="graph-v1")
    assert (found.method, found.s_covered) == ("graph-v1", 0.8)
    assert found.operators[0].shapes_passed == 1
    without = line("rms_norm", "2", 20.0, methods={"kineto": Timing(reason="no spans")})
    for unknown in ("gra", ""):
        with pytest.raises(UsageError, match=f"no times by '{unknown}'"):
            score([*rows, without], method=unknown)


def test_by_its_name_the_newest_version_of_a_method_is_taken() -> None:
    def timed(**us: float) -> dict[str, Timing]:
        return {
            f"graph-{version}": Timing(median_us=at, samples=[at] * 5, samples_per_restart=[5])
            for version, at in us.items()
        }

    old = line("rms_norm", "0", 20.0, methods=timed(v1=12.5))
    both = line("rms_norm", "0", 20.0, methods=timed(v2=25.0, v10=10.0, v9=50.0))
    assert (old.by("graph"), both.by("warm")) == (("graph-v1", old.methods["graph-v1"]), None)
    found = score([both], method="graph")
    assert (found.method, found.s_covered) == ("graph-v10", 1.0)
    assert score([both], method="cold") == score([both])
    with pytest.raises(InputError, match=r"by graph-v1, B by graph-v10.*both have: no method"):
        contrast([old], [both], method="graph")
    assert contrast([both], [both], method="graph").method == "graph-v10"


def test_scaled_shapes_and_mixed_devices_are_refused() -> None:
    with pytest.raises(InputError, match="scaled"):
        score([line("rms_norm", "0", 20.0, scale=0.5)])
    both = [line("rms_norm", "0", 20.0), line("rms_norm", "0", 20.0, solution="b", device="cpu")]
    with pytest.raises(UsageError, match="several devices"):
        score(both)
    assert score(both, device="cpu").device == "cpu"
    assert score(both, device="h200").device == "NVIDIA H200"
    twice = [*both, line("rms_norm", "0", 20.0, device="NVIDIA H200 NVL")]
    assert score(twice, device="NVIDIA H200").device == "NVIDIA H200"
    with pytest.raises(UsageError, match="no results of device 'h200'"):
        score(twice, device="h200")


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.9, "faster"), (1.1, "slower"), (1.0, "cannot tell")]
)
def test_a_difference_is_told_only_when_there_is_one(factor: float, verdict: str) -> None:
    before = [line("rms_norm", "0", 20.0), line("rms_norm", "1", 30.0)]
    after = [line("rms_norm", "0", 20.0 * factor), line("rms_norm", "2", 1.0)]
    found = contrast(before, after)
    assert (found.verdict, found.shapes[0].verdict) == (verdict, verdict)
    (row,) = found.operators
    assert (row.operator, row.shapes, row.share_pct) == ("rms_norm", 1, 100.0)
    assert row.change_pct == pytest.approx(100 * (found.ratio - 1))
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(factor)
    assert (found.only_a, found.only_b) == (1, 1)


def test_few_shapes_that_take_long_outweigh_many_and_the_sentence_says_so() -> None:
    def lines(long_us: float, short_us: float, only: str) -> list[ShapeResult]:
        short = [line("b", str(at), short_us, weight=0.1) for at in range(3)]
        return [line("a", "0", long_us), *short, line(only, "9", 1.0)]

    found = contrast(lines(1000, 10, "c"), lines(2000, 5, "d"))
    assert found.verdict == "slower"
    assert found.sentence.startswith("B is slower than A: it takes ")
    assert "; a decides (+" in found.sentence
    assert "the other way round: faster on 3 of 4 shapes, slower on 1." in found.sentence
    assert "1 shape passed with A alone, 1 shape passed with B alone." in found.sentence


def test_a_comparison_says_its_verdict_before_the_shapes() -> None:
    found = contrast([line("rms_norm", "0", 20.0)], [line("rms_norm", "0", 10.0)])
    rows = printed(contrast_parts, found, width=100).splitlines()
    assert rows[1].startswith("B is faster than A: it takes 0.5 times as long (")
    assert rows.index(head("\n".join(rows))) > 1


def test_nothing_takes_1_times_as_long() -> None:
    found = contrast([line("rms_norm", "0", 20.0)], [line("rms_norm", "0", 20.0)])
    start = "Whether B is faster than A cannot be told: it takes as long ("
    assert found.sentence.startswith(start)
    assert re.search(r"as long \([\d.]+ to [\d.]+ times\), shapes weighted", found.sentence)


def test_an_operator_that_went_the_other_way_does_not_decide() -> None:
    def lines(a_us: float, b_us: float, c_us: float) -> list[ShapeResult]:
        return [line(name, "0", us) for name, us in (("a", a_us), ("b", b_us), ("c", c_us))]

    found = contrast(lines(100, 100, 100), lines(55, 132, 131))
    assert (found.verdict, found.operators[0].operator) == ("slower", "a")
    assert "; b decides (+" in found.sentence


def test_a_best_of_more_solutions_is_told_shape_by_shape() -> None:
    before = [line("rms_norm", at, 20.0, solution=name) for at in "01" for name in ("a", "b")]
    after = [*before[:2], line("rms_norm", "1", 20.0, solution="b")]
    found = contrast(before, after)
    assert (found.a, found.b, found.uneven) == (["a", "b"], ["a", "b"], 1)
    assert contrast(before, before).uneven == 0
    assert contrast(before, after, "a", "b").uneven == 0
    swapped = [line("rms_norm", "0", 10.0, solution="b"), line("rms_norm", "1", 10.0, solution="a")]
    found = contrast(swapped, before)
    assert found.uneven == 2
    assert [(one.a_solution, one.b_solution) for one in found.shapes] == [("b", "a"), ("a", "a")]
    wide = printed(contrast_parts, found, width=140, color=False)
    assert head(wide).split()[-4:] == ["A", "by", "B", "by"]
    assert "on 2 shapes A and B have other solutions" in wide
    single = printed(contrast_parts, contrast(before, after, "a", "b"), width=140, color=False)
    assert " by " not in head(single)
    assert "other solutions" not in single


def head(text: str) -> str:
    """The names of the columns of a comparison."""
    (row,) = [row for row in text.splitlines() if row.startswith("B / A ")]
    return row


def test_processes_that_disagree_widen_the_interval() -> None:
    before = [line("rms_norm", "0", 20.0)]
    samples = [*(18.0 * f for f in JITTER), *(22.0 * f for f in JITTER)]
    after = [line("rms_norm", "0", 19.0, samples=samples)]
    found = contrast(before, after)
    assert found.low < 0.91
    assert found.high > 1.09
    assert found.verdict == "cannot tell"


def test_one_process_cannot_show_how_processes_differ() -> None:
    def single(median_us: float) -> list[ShapeResult]:
        return [line("rms_norm", "0", median_us, samples_per_restart=[12])]

    a = single(20.0)
    near = contrast(a, single(21.4))
    assert near.shapes[0].processes == (1, 1)
    assert (near.verdict, near.shapes[0].verdict) == ("cannot tell", "cannot tell")
    assert near.low < 1 < near.high
    assert contrast(a, single(23.0)).verdict == "slower"
    assert (
        contrast([line("rms_norm", "0", 20.0)], [line("rms_norm", "0", 21.4)]).verdict == "slower"
    )


def test_runs_of_two_machines_may_differ_by_more_than_processes_of_one_show() -> None:
    def timed(median_us: float, **run: str) -> list[ShapeResult]:
        return [line("rms_norm", shape, median_us, run=run) for shape in "01"]

    a = timed(20.0, id="a", machine="m")
    same = contrast(a, timed(20.5, id="b", machine="m"))
    other = contrast(a, timed(20.5, id="b", machine="n"))
    unknown = contrast(a, timed(20.5, id="b"))
    assert [found.verdict for found in (same, other, unknown)] == ["slower", *2 * ["cannot tell"]]
    assert [found.shapes[0].other_machine for found in (same, other, unknown)] == [
        False,
        True,
        True,
    ]
    assert contrast(timed(20.0, id="a"), timed(20.5, id="a")).verdict == "slower"
    assert contrast(timed(20.0), timed(20.5)).verdict == "cannot tell"  # Nothing is known of both.
    assert contrast(a, timed(21.0, id="b", machine="n")).verdict == "slower"
    assert other.high == pytest.approx(1.035 * same.high)  # for both shapes alike
    wide = printed(contrast_parts, other, width=140, color=False)
    assert "2 shapes timed in two runs that may be of two machines" in wide
    assert "two machines" not in printed(contrast_parts, same, width=140, color=False)


def test_shapes_of_an_operator_share_what_one_process_cannot_show() -> None:
    def lines(median_us: float, *operators: str) -> list[ShapeResult]:
        return [
            line(name, str(shape), median_us, samples_per_restart=[12])
            for name in operators
            for shape in range(4 // len(operators))
        ]

    def high(*operators: str) -> float:
        return contrast(lines(20.0, *operators), lines(20.0, *operators)).high

    assert high("rms_norm") > 1.08  # one process timed all four, so nothing makes up for it
    assert high("rms_norm", "l2_norm") < high("rms_norm") - 0.01


def test_an_operator_without_importance_does_not_decide() -> None:
    def lines(norm_us: float, other_us: float, importance: float) -> list[ShapeResult]:
        return [
            line("rms_norm", "0", norm_us, importance=importance),
            line("l2_norm", "0", other_us, importance=0.0),
        ]

    assert contrast(lines(20, 20, 0.5), lines(10, 40, 0.5)).ratio == pytest.approx(0.5)
    assert contrast(lines(20, 20, 0.0), lines(10, 40, 0.0)).ratio == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"device": "NVIDIA B200"}, "B on NVIDIA B200: not comparable"),
        ({"suite": "decode"}, "A is of the suite atrex, B of decode"),
        ({"method": "warm-v1"}, "A was timed by cold-v1, B by warm-v1"),
        ({"status": "wrong_numbers"}, "no shape passed in both"),
    ],
)
def test_what_cannot_be_compared_is_refused(other: dict[str, str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        contrast([line("rms_norm", "0", 20.0)], [line("rms_norm", "0", 20.0, **other)])


def test_results_survive_a_cut_off_line(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    append_result(file, line("rms_norm", "0", 20.0))
    with file.open("ab") as out:
        out.write(b'{"operator": "rms_')
    assert len(read_results([file])) == 1
    append_result(file, line("rms_norm", "0", 30.0))
    assert [r.median_us for r in read_results([file])] == [20.0, 30.0]


def test_a_file_that_was_cut_off_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.jsonl"
    append_result(file, line("rms_norm", "0", 20.0))
    assert run(["bench", "score", str(file)]) == 0
    assert not capsys.readouterr().err
    with file.open("ab") as out:
        out.write(b'{"operator":"rms_')
    for command in (["score"], ["leaderboard"], ["compare", str(file)]):
        assert run(["bench", *command, str(file), "--json"]) == 0
        assert f"{file}: ignored the truncated last line" in capsys.readouterr().err


def test_warnings_and_errors_about_a_precede_those_about_b(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "z.jsonl", tmp_path / "b.jsonl"]
    assert run(["bench", "compare", *map(str, files)]) == 2
    assert capsys.readouterr().err == f"solscope: {files[0]}: no such file\n"
    for file in files:
        append_result(file, line("rms_norm", "0", 20.0))
        with file.open("ab") as out:
            out.write(b'{"operator":"rms_')
    assert run(["bench", "compare", *map(str, files), "--json"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [one.split(": ")[1] for one in said] == list(map(str, files))


def test_an_error_about_a_file_that_was_cut_off_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.jsonl"
    for suite in ("atrex", "decode"):
        append_result(file, line("rms_norm", "0", 20.0, suite=suite))
    with file.open("ab") as out:
        out.write(b'{"operator":"rms_')
    for command in (["score"], ["leaderboard"], ["compare", str(file)]):
        assert run(["bench", *command, str(file)]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert said.startswith("solscope: results of several suites (atrex, decode)")


def test_only_half_a_line_of_ours_is_passed_over_or_taken_out(tmp_path: Path) -> None:
    whole = tmp_path / "r.jsonl"
    append_result(whole, line("rms_norm", "0", 20.0))
    whole.write_bytes(whole.read_bytes().rstrip(b"\n"))
    append_result(whole, line("rms_norm", "0", 30.0))
    assert len(read_results([whole])) == 2
    for foreign in (b"a note of mine", b'{"operator": "rms_norm"}'):
        other = tmp_path / "other.jsonl"
        other.write_bytes(whole.read_bytes() + foreign)
        with pytest.raises(InputError, match="line 3 is not a result"):
            read_results([other])
        append_result(other, line("rms_norm", "0", 30.0))
        assert foreign in other.read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"iqr_us": -1.0},
        {"bound_us": 1e308},
        {"calls": 1e308},
        {"weight": 1e308},
        {"samples": [-1.0]},
        {"samples_per_restart": [-1]},
        {"methods": {"warm-v1": {"median_us": -1.0}}},
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = tmp_path / "r.jsonl"
    append_result(file, line("rms_norm", "0", 20.0, **wrong))
    with pytest.raises(InputError, match="line 1 is not a result"):
        read_results([file])


def test_zeros_and_counts_that_do_not_fit_make_no_number() -> None:
    none_called = score([line("rms_norm", "0", 20.0, calls=0.0)])
    assert none_called.operators[0].s is None
    assert none_called.operators[0].median_us is None
    untimed = line("rms_norm", "0", 20.0, methods={"warm-v1": Timing(median_us=0.0)})
    assert score([untimed], method="warm-v1").operators[0].shapes_passed == 0
    good = [line("rms_norm", "0", 20.0)]
    with pytest.raises(InputError, match="no shape passed in both"):
        contrast(good, [line("rms_norm", "0", 20.0, samples=[0.0] * 12)])
    found = contrast(good, [line("rms_norm", "0", 20.0, samples_per_restart=[0])])
    assert found.shapes[0].processes == (2, 1)


def test_the_last_of_several_lines_counts() -> None:
    rows = [line("rms_norm", "0", 20.0), line("rms_norm", "0", 40.0)]
    assert [one.median_us for one in latest(rows)] == [40.0]


def test_a_later_run_on_another_card_replaces_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.jsonl"
    append_result(file, line("rms_norm", "0", 20.0))
    append_result(file, line("rms_norm", "0", 40.0, device="NVIDIA B200"))
    assert score(read_results([file]), device="NVIDIA H200").s_covered == 0.5
    assert score(read_results([file]), device="NVIDIA B200").s_covered == 0.25
    assert run(["bench", "score", str(file)]) == 2
    several = "several devices (NVIDIA B200, NVIDIA H200); choose one with --on DEVICE"
    assert several in capsys.readouterr().err
    assert run(["bench", "compare", str(file), str(file)]) == 2
    assert several in capsys.readouterr().err
    assert run(["bench", "compare", str(file), str(file), "--on", "NVIDIA B200"]) == 0
    assert "NVIDIA B200, suite atrex, cold-v1" in capsys.readouterr().out
    assert run(["report", str(file), "-o", str(tmp_path / "r.html")]) == 0


def test_one_of_several_suites_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.jsonl"
    append_result(file, line("rms_norm", "0", 20.0))
    append_result(file, line("unified_attention", "0", 40.0, suite="decode"))
    several = "results of several suites (atrex, decode); choose one with --suite NAME"
    for command in (
        ["score", str(file)],
        ["leaderboard", str(file)],
        ["compare", *[str(file)] * 2],
    ):
        assert run(["bench", *command]) == 2
        assert several in capsys.readouterr().err
        assert run(["bench", *command, "--suite", "decode", "--json"]) == 0
        found = msgspec.json.decode(capsys.readouterr().out)
        assert found["suite"] == "decode"
        assert run(["bench", *command, "--suite", "atrx"]) == 2
        assert "no results of suite 'atrx' (available: atrex, decode)" in capsys.readouterr().err


def test_what_is_asked_for_together_is_looked_for_together() -> None:
    rows = [
        line("rms_norm", "0", 20.0, solution="a"),
        line("rms_norm", "0", 40.0, solution="b", suite="decode"),
    ]
    why = "no results of solution 'a' for suite decode (available: b)"
    with pytest.raises(UsageError, match=re.escape(why)):
        select(rows, "a", suite="decode")


# --- Some operators alone

SOME = [
    line("rms_norm", "0", 20.0, weight=1.0),
    line("l2_norm", "0", 100.0, weight=0.5),
    line("fused_moe", "0", 1000.0, weight=1.0),
    line("rms_norm", "0", 40.0, weight=1.0, solution="other"),
]


def test_a_score_of_some_operators_is_of_their_time_alone() -> None:
    of_suite = {row.operator: row.importance for row in score(SOME).operators}
    rms, l2 = of_suite["rms_norm"], of_suite["l2_norm"]
    found = score(SOME, operators=["rms_norm", "l2_norm"])
    assert [row.operator for row in found.operators] == ["rms_norm", "l2_norm"]
    assert {row.importance for row in found.operators} == {rms, l2}, "still those of the suite"
    assert found.only == ["rms_norm", "l2_norm"]
    assert found.covered == pytest.approx((rms + 0.5 * l2) / (rms + l2))
    assert found.weighted_s == pytest.approx((rms * 0.5 + l2 * 0.1 * 0.5) / (rms + l2))
    assert found.recoverable == pytest.approx(rms * 0.5 + l2 * 0.5 * 0.9)
    assert score(SOME).only == []


def test_a_solution_without_one_of_the_operators_counts_0_for_it() -> None:
    board = leaderboard(SOME, operators=["rms_norm", "l2_norm"])
    importance = {row.operator: row.importance for row in board.best.operators}
    share = importance["rms_norm"] / sum(importance.values())
    (other,) = [entry for entry in board.entries if entry.solution == "other"]
    assert other.weighted_s == pytest.approx(0.25 * share)
    assert (board.only, other.wins) == (["rms_norm", "l2_norm"], 0)


def test_a_comparison_of_some_operators_says_so() -> None:
    after = [line("rms_norm", "0", 10.0), line("fused_moe", "0", 2000.0)]
    assert contrast(SOME, after).verdict == "slower"
    found = contrast(SOME, after, operators=["rms_norm"])
    assert (found.verdict, len(found.shapes), found.only) == ("faster", 1, ["rms_norm"])
    assert "shapes of rms_norm alone weighted by" in found.sentence


@pytest.mark.parametrize(
    ("suite", "share"),
    [("atrex", "GPU time of production profiles"), ("decode", "time of the suite")],
)
def test_a_comparison_says_what_shapes_are_weighted_by(suite: str, share: str) -> None:
    before, after = (line("dense_gemm", "0", time, suite=suite) for time in (20.0, 10.0))
    found = contrast([before], [after])
    assert f", shapes weighted by their share of the {share}; dense_gemm" in found.sentence


def test_one_operator_alone_is_no_choice_of_where_to_work() -> None:
    one, some = score(SOME, operators=["rms_norm"]), score(SOME, operators=["rms_norm", "l2_norm"])
    assert one.recoverable
    said = printed(score_parts, one, width=200, color=False)
    assert "(S: least possible time / measured time)." in said
    assert "Work on" not in said
    assert "takes most time above its bound" not in said
    assert "Work on rms_norm first" in printed(score_parts, some, width=200, color=False)


@pytest.mark.parametrize("given", [["--op", "rms_norm,l2_norm"], ["--op=rms_norm", "--op=l2_norm"]])
def test_operators_are_named_in_one_option_or_several(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.jsonl"
    for each in SOME:
        append_result(file, each)
    said = {
        "score": "S over all is that of rms_norm and l2_norm alone",
        "leaderboard": "S: over rms_norm and l2_norm alone",
        "compare": "shapes of rms_norm and l2_norm alone",
    }
    for command, sentence in said.items():
        files = [str(file)] * (1 + (command == "compare"))
        assert run(["bench", command, *files, *given]) == 0
        printed_text = " ".join(capsys.readouterr().out.split())
        assert sentence in printed_text
        assert "suite atrex, only rms_norm and l2_norm, cold-v1" in printed_text
        assert run(["bench", command, *files, *given, "--json"]) == 0
        assert msgspec.json.decode(capsys.readouterr().out)["only"] == ["rms_norm", "l2_norm"]
        assert run(["bench", command, *files, "--op", "rms_nrom"]) == 2
        assert capsys.readouterr().err.splitlines() == [
            "solscope: no results of operator 'rms_nrom'; did you mean 'rms_norm'?"
        ]
        assert run(["bench", command, *files, "--op", "xyz"]) == 2
        assert "(available: fused_moe, l2_norm, rms_norm)" in capsys.readouterr().err
        assert run(["bench", command, *files, "--op", ","]) == 2
        assert "expected operator names" in capsys.readouterr().err


def test_the_closest_operators_are_named() -> None:
    rows = [*SOME, line("gated_rms_norm", "0", 20.0)]
    why = "no results of operator 'rms_nrm' for suite atrex; did you mean 'rms_norm' or 'gated"
    with pytest.raises(UsageError, match=re.escape(why)):
        score(rows, suite="atrex", operators=["rms_nrm"])


def test_a_solution_is_looked_for_among_the_operators() -> None:
    why = "no results of solution 'other' for l2_norm (available: mine)"
    with pytest.raises(UsageError, match=re.escape(why)):
        select(SOME, "other", operators=["l2_norm"])


def test_usual_is_the_public_suite_and_the_device_with_most_full_sizes() -> None:
    rows = [
        line("rms_norm", "0", 20.0, suite="decode", device="B"),
        *(line("rms_norm", shape, 20.0, device="A") for shape in "012"),
        *(line("rms_norm", shape, 20.0, device="cpu", scale=0.5) for shape in "01234"),
        *(line("rms_norm", shape, 20.0, device="B") for shape in "01"),
    ]
    assert usual(rows) == ("atrex", "A")
    assert usual(rows, "decode") == ("decode", "B")
    assert usual(rows, device="B") == ("atrex", "B")
    assert usual(rows[:1]) == ("decode", "B")
    assert usual([]) == (None, None)


def test_a_method_that_was_not_run_is_named_with_those_that_were() -> None:
    with pytest.raises(UsageError, match=r"no times by 'grpah-v1' \(available: cold-v1\)"):
        score([line("rms_norm", "0", 20.0)], method="grpah-v1")


def test_commands_print_and_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    append_result(before, line("rms_norm", "0", 20.0))
    append_result(after, line("rms_norm", "0", 25.0, solution="other"))
    assert run(["bench", "score", str(before), "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["device"], found["s_covered"]) == ("NVIDIA H200", 0.5)
    assert found["operators"][0].keys() >= {
        "operator",
        "importance",
        "s",
        "shapes_passed",
        "shapes",
    }
    assert run(["bench", "compare", str(before), str(after)]) == 1
    printed = capsys.readouterr().out
    assert "1.250" in printed
    assert "A µs" in printed
    assert run(["bench", "leaderboard", str(before), str(after)]) == 0
    assert "other" in capsys.readouterr().out
    assert run(["bench", "score", str(tmp_path / "none.jsonl")]) == 2


def test_notes_say_what_a_reader_would_take_for_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    append_result(file, line("rms_norm", "0", 20.0))
    assert run(["bench", "compare", str(file), str(file)]) == 0
    assert "cannot tell: the interval reaches into 1 ± 0.01" in capsys.readouterr().out
    other = tmp_path / "b.jsonl"
    append_result(other, line("rms_norm", "0", 20.0))
    append_result(other, line("rms_norm", "0", 30.0, solution="yours"))
    assert run(["bench", "compare", str(file), str(other)]) == 0
    assert "--solution-a" in capsys.readouterr().out
    assert run(["bench", "compare", str(file), str(other), "--solution-b", "yours"]) == 1
    assert "--solution-a" not in capsys.readouterr().out
    assert run(["bench", "leaderboard", str(file)]) == 0
    assert "declined:" not in capsys.readouterr().out
    append_result(file, line("rms_norm", "1", 100.0, solution="other", declined=["tokens = 1"]))
    assert run(["bench", "leaderboard", str(file)]) == 0
    assert "declined: shapes and extra cases" in capsys.readouterr().out


def test_a_check_shows_its_reasons_in_full_and_no_empty_columns() -> None:
    off = "with extreme inputs: out: 381 of 384 values are off by more than 0 + 0.008 |wanted|"
    untimed = {"median_us": None, "bound_us": None, "s": None}
    rows = [
        msgspec.structs.replace(
            line("rms_norm", at, 20.0), status="wrong_numbers", reason=off, **untimed
        )
        for at in "01"
    ]
    said = printed(results_parts, {"results": rows}, width=80, color=False)
    assert said.splitlines()[0].split() == ["operator", "shape", "solution", "status", "why"]
    assert " ".join(said.split()).count(f"mine at rms_norm, shape 0: {off}") == 1
    assert "shape 1" not in said
    timed = printed(
        results_parts, {"results": [*rows, line("rms_norm", "2", 20.0)]}, width=140, color=False
    )
    assert "median µs" in timed.splitlines()[0]
    assert "p20" not in timed.splitlines()[0]
    assert "S = bound / median" in timed


def test_a_narrow_terminal_keeps_the_names_that_tell_rows_apart() -> None:
    why = "moves 259 MB, more than the 256 MB allowed here"
    names = "mine", "torch-eager"
    rows = [line("rms_norm", "27", 20.0, solution=name, reason=why) for name in names]
    _, first, second, *_ = printed(
        results_parts, {"results": rows}, width=80, color=False
    ).splitlines()
    assert "mine" in first
    assert "torch-eager" in second
    assert (
        "solution"
        not in printed(results_parts, {"results": rows[:1]}, width=60, color=False).splitlines()[0]
    )
    operators = [line(name, "0", 20.0, reason=why) for name in ("rms_norm", "l2_norm")]
    _, first, second, *_ = printed(
        results_parts, {"results": operators}, width=60, color=False
    ).splitlines()
    assert "rms_norm" in first
    assert "l2_norm" in second


def test_a_score_without_s_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unbound = {"device": "cpu", "bound_us": None, "s": None, "published_us": None}
    wrong = {"status": "wrong_numbers", "median_us": None}
    file = tmp_path / "r.jsonl"
    for more, why in ((wrong, "no shape passed"), ({}, "no bound is known for cpu")):
        append_result(file, msgspec.structs.replace(line("rms_norm", "0", 20.0), **unbound, **more))
        assert run(["bench", "score", str(file)]) == 0
        said = capsys.readouterr().out
        assert f"no S: {why}" in said
        assert "recoverable: -" not in said


def test_a_narrow_terminal_keeps_the_interval_and_says_what_it_leaves_out() -> None:
    found = contrast(
        [line("chunk_gated_delta_rule_state", "0", 123_456.0, solution="a-solution-of-ours")],
        [line("chunk_gated_delta_rule_state", "0", 23_456.0, solution=name) for name in "bc"],
    )
    wide, narrow = (printed(contrast_parts, found, width=width, color=False) for width in (140, 70))
    assert "A by" in wide
    assert "left out" not in wide
    assert "95 %" in narrow
    assert "columns left out at" in narrow


@pytest.mark.usefixtures("warm_workers")
def test_results_of_scaled_sizes_say_so() -> None:
    full, scaled = line("rms_norm", "0", 20.0), line("rms_norm", "1", 20.0, scale=0.5)
    told = "sizes were scaled"
    assert told in printed(results_parts, {"results": [full, scaled]}, width=100, color=False)
    assert told not in printed(results_parts, {"results": [full]}, width=100, color=False)


@pytest.mark.parametrize("width", [80, 120])
def test_a_leaderboard_names_the_first_two_also_where_their_columns_do_not_fit(width: int) -> None:
    names = [f"solution-{number}" for number in range(8)]
    rows = [
        line("rms_norm", "0", 20.0 + 10 * at, solution=name)
        for at, name in enumerate(reversed(names))
    ]
    rows += [line("l2_norm", "0", 40.0, solution="only-here")]
    board = leaderboard(rows)
    (first, s), (second, _), *_ = board.ranked("rms_norm")
    assert (first, second) == (names[7], names[6])
    assert s == pytest.approx(0.5 * 0.5)
    said = printed(leaderboard_parts, board, width=width, color=False).splitlines()
    ahead = next(text.split() for text in said if text.rstrip().endswith("rms_norm"))
    assert ahead[4:10] == [names[7], "25.0", "%", names[6], "16.7", "%"]
    alone = next(text.split() for text in said if text.rstrip().endswith("l2_norm"))
    assert alone[4:9] == ["only-here", "12.5", "%", "-", "-"]


def test_a_leaderboard_gives_the_first_its_own_s_beside_that_of_the_fastest_together() -> None:
    times = {"a": (20.0, 40.0), "b": (40.0, 25.0)}
    rows = [
        line("rms_norm", str(shape), time, solution=name)
        for name, both in times.items()
        for shape, time in enumerate(both)
    ]
    said = printed(leaderboard_parts, leaderboard(rows), width=80, color=False)
    _, by_operator, _ = said.split("\n\n")
    head, row = by_operator.splitlines()[:2]
    assert head.split()[:7] == ["importance", "best", "first", "its", "S", "next", "its"]
    # Together 20 / (20 + 25), alone 20 / 60 and 20 / 65.
    assert row.split()[2:10] == ["44.4", "%", "a", "33.3", "%", "b", "30.8", "%"]
    # A terminal that has no room for all of it keeps what belongs to a name.
    long = [replace(row, solution=f"a-rather-long-{row.solution}") for row in rows]
    said = printed(leaderboard_parts, leaderboard(long), width=76, color=False)
    assert "a-rather-long-a  33.3 %  a-rather-long-b  30.8 %  rms_norm" in said
    assert "columns left out at 76: best" in said


def test_a_leaderboard_of_one_solution_has_no_next() -> None:
    said = printed(leaderboard_parts, leaderboard([line("rms_norm", "0", 20.0)]), width=120)
    assert "next" not in said


def test_a_comparison_shows_what_changed_before_what_cannot_be_told() -> None:
    shapes = [str(number) for number in range(MOST_UNDECIDED + 3)]
    before = [line("rms_norm", shape, 20.0) for shape in shapes]
    after = [line("rms_norm", shape, 10.0 if shape == "7" else 20.0) for shape in shapes]
    found = contrast(before, after)
    said = printed(contrast_parts, found, width=100, color=False).splitlines()
    rows = [text for text in said if text.rstrip().endswith("rms_norm")]
    assert "faster" in rows[0]
    assert all("cannot tell" in text for text in rows[1:])
    assert len(rows) == 1 + MOST_UNDECIDED
    assert "and 2 shapes that cannot be told; --json has them all" in said
    # Markdown leaves nothing out.
    paper = printed(contrast_parts, found, width=100_000, color=False).splitlines()
    assert sum(text.rstrip().endswith("rms_norm") for text in paper) == len(shapes)


def test_shapes_that_are_unsupported_for_one_reason_are_one_row() -> None:
    def unsupported(shape: str, reason: str) -> ShapeResult:
        return line("rms_norm", shape, 1.0, status="unsupported", reason=reason)

    missing = "No module named 'triton'"
    rows = [unsupported(str(number), missing) for number in range(5)]
    rows += [unsupported("8", "too large"), line("rms_norm", "9", 20.0)]
    said = printed(results_parts, {"results": rows}, width=120, color=False)
    assert said.count(missing) == 1
    assert "5 shapes" in said
    assert "too large" in said
    assert "7 results: 6 unsupported, 1 passed" in said
