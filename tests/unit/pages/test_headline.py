from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

import solscope
from solscope import attribute
from solscope.bench.results.files import read_results
from solscope.bench.results.leaderboard import leaderboard
from solscope.compare.profiles import compare_profiles
from solscope.compare.verdict import verdict_of
from solscope.compare.why import Explanation, Outcome
from solscope.pages.comparison import comparison_page
from solscope.pages.headline import of_bench, of_comparison
from solscope.pages.ranks import ranks_pages
from solscope.suite.atrex import load_suite
from tests.making import attributed, event


def run_of(period: int, softmax: int) -> solscope.Attributed:
    """Four steps of that many microseconds, with one kernel that takes so long."""
    events = []
    for at in range(5):
        start, number = 1_000 * period * at, 10 * at
        events.append(event("annotation", f"ProfilerStep#{at}", start, 1_000 * period - 10))
        for index, (name, time) in enumerate((("gemm_kernel", 100), ("softmax_kernel", softmax))):
            own = number + index + 1
            launch = start + 1_000 * (10 + index)
            events.append(event("runtime", "cudaLaunchKernel", launch, 900, correlation=own))
            begin = start + 1_000 * (50 + 200 * index)
            events.append(event("kernel", name, begin, 1_000 * time, correlation=own))
    return attributed(*events)


def test_a_comparison_begins_with_the_difference_of_step_times() -> None:
    comparison = compare_profiles([run_of(1_000, 50), run_of(1_400, 450)], ["normal", "slow"])
    (phase,) = comparison.phases
    before, after = (one.time_ms for one in phase.steps if one is not None)
    assert after > before
    found = of_comparison(comparison)
    assert found.sentence == (
        "Steps of slow take 1.40 times as long as those of normal: 1.400 ms instead of 1.000 ms "
        "(all of it softmax)."
    )
    main = max(phase.differences, key=lambda one: one.diff_ms)
    assert main.diff_ms == pytest.approx(0.4)
    assert [figure.value for figure in found.figures] == pytest.approx(
        [before, after, after / before]
    )
    scope = "mean of 4 of 5 steps"
    assert [figure.scope for figure in found.figures] == [scope, scope, "of the step"]
    # Five steps are too few for a diagnosis.
    assert found.advice == (
        "See which kernels differ: `solscope compare made.json made.json --kernels`"
    )
    assert found.legend is not None
    assert found.legend.startswith("No cause can be named: too few steps to test (n = 3/3).")
    assert found.severity == "attention"


def explained(outcome: Outcome, cause: str | None, ratio: float) -> Explanation:
    """What a diagnosis might say."""
    seen = [] if cause is None else ["one thing (normal: another)"]
    advice = None if cause is None else "look at it"
    return Explanation(outcome, "", cause, seen, advice, ratio, (1.2, 1.6), "9 and 8 steps")


@pytest.mark.parametrize(
    ("order", "said", "begin", "severity"),
    [
        ("ab", explained("regression", "it rains (90 % confident)", 1.4),
         "Why b is slower: it rains (90 % confident). Its steps take 1.40 times as long as those "
         "of a: ", "bad"),
        ("ba", explained("improvement", "it rains (90 % confident)", 1.4),
         "Why b is slower: it rains (90 % confident). Steps of a take 0.71 times as long as those "
         "of b: ", "good"),
        ("ab", explained("regression", None, 1.4), "Steps of b take 1.40 times as long ", "bad"),
        ("ab", explained("no_change", "it varies", 1.4),
         "Steps of b take 1.40 times as long ", "neutral"),
        ("ab", explained("workload_changed", "more tokens (9 against 8)", 1.4),
         "Steps of b take 1.40 times as long ", "attention"),
    ],
    ids=["slower", "faster", "unsettled", "noise", "other work"],
)  # fmt: skip
def test_a_cause_that_is_settled_comes_first(
    order: str, said: Explanation, begin: str, severity: str
) -> None:
    runs = {"a": run_of(1_000, 50), "b": run_of(1_400, 450)}
    comparison = compare_profiles([runs[name] for name in order], list(order))
    verdict = verdict_of(comparison.profiles, comparison.phases, said)
    found = of_comparison(replace(comparison, verdict=verdict))
    assert found.sentence.startswith(begin)
    not_counted = found.sentence.endswith(" A diagnosis calls it no change: it varies.")
    assert not_counted == (said.outcome == "no_change")
    other = " They do not do the same work: more tokens (9 against 8), from a to b."
    assert found.sentence.endswith(other) == (said.outcome == "workload_changed")
    assert found.severity == severity
    # The same ratio needs no word about other steps.
    assert found.legend == (None if said.cause is None else '"Normal" is the faster one, a.')
    named = "Look at it. The whole diagnosis: " if said.cause else "See why they differ: "
    assert found.advice == f"{named}`solscope diagnose made.json made.json`"


def test_a_cause_of_less_than_half_is_a_part_of_why() -> None:
    comparison = compare_profiles([run_of(1_000, 50), run_of(1_400, 450)], ["a", "b"])
    said = dataclasses.replace(explained("regression", "it rains", 1.4), partly=True)
    verdict = verdict_of(comparison.profiles, comparison.phases, said)
    assert verdict.sentence.startswith("Part of why b is slower: it rains. Its steps take 1.40 ")


@pytest.mark.parametrize(
    ("order", "ratio", "interval", "legend"),
    [
        ("ab", 1.37, (1.2, 1.6), "The diagnosis compares 9 and 8 steps: its 95 % interval of the "
         "ratio is [1.20, 1.60]."),
        ("ba", 1.37, (1.2, 1.6), "The diagnosis compares 9 and 8 steps: its 95 % interval of the "
         "ratio is [0.62, 0.83]."),
        ("ab", 2.0, (1.9, 2.2), "The diagnosis compares 9 and 8 steps, which take ×2.00 "
         "[1.90, 2.20]."),
        ("ba", 2.0, (1.9, 2.2), "The diagnosis compares 9 and 8 steps, which take ×0.50 "
         "[0.45, 0.53]."),
        ("ab", 2.0, None, "The diagnosis compares 9 and 8 steps, which take ×2.00."),
        ("ab", 1.4, (1.2, 1.6), None),
    ],
    ids=["within", "within, faster", "beyond", "beyond, faster", "no interval", "the same"],
)  # fmt: skip
def test_a_second_ratio_is_stated_only_where_it_says_something_else(
    order: str, ratio: float, interval: tuple[float, float] | None, legend: str | None
) -> None:
    runs = {"a": run_of(1_000, 50), "b": run_of(1_400, 450)}
    comparison = compare_profiles([runs[name] for name in order], list(order))
    said = dataclasses.replace(explained("regression", None, ratio), interval=interval)
    assert verdict_of(comparison.profiles, comparison.phases, said).legend == legend


def test_a_cause_of_one_phase_says_so() -> None:
    comparison = compare_profiles([run_of(1_000, 50), run_of(1_400, 450)], ["a", "b"])
    said = dataclasses.replace(explained("regression", None, 1.4), note="Of decode steps alone.")
    legend = verdict_of(comparison.profiles, comparison.phases, said).legend
    assert legend == "Of decode steps alone."


def test_a_faster_profile_takes_less() -> None:
    comparison = compare_profiles([run_of(1_400, 450), run_of(1_000, 50)], ["slow", "normal"])
    assert " 0.71 times as long as those of slow" in of_comparison(comparison).sentence


def test_steps_that_take_as_long_are_called_alike() -> None:
    found = of_comparison(compare_profiles([run_of(1_000, 50), run_of(1_001, 51)], ["a", "b"]))
    assert found.sentence == (
        "Steps of b take as long as those of a, within 1 %: 1.001 ms and 1.000 ms."
    )
    assert [figure.name for figure in found.figures] == ["a", "b", "times as long"]
    assert (found.advice, found.severity) == (None, "neutral")


def test_profiles_without_steps_are_not_called_faster() -> None:
    summary = attribute(solscope.open("tests/data/nsys_decode_kern_sum.csv"))
    found = of_comparison(compare_profiles([summary, summary], ["a", "b"]))
    assert "not speed" in found.sentence
    assert (found.figures, found.advice) == ([], None)


def test_results_begin_with_how_close_the_best_come_to_the_limit() -> None:
    board = leaderboard(read_results(["tests/data/bench_results.jsonl"]))
    found = of_bench(board.best)
    assert board.best.weighted_s is not None
    assert f"{100 * board.best.weighted_s:.1f} %" in found.sentence
    most = max(board.best.operators, key=lambda one: one.recoverable or 0.0)
    assert most.operator in found.sentence
    assert most.recoverable is not None
    assert board.best.recoverable is not None
    assert [figure.value for figure in found.figures] == pytest.approx(
        [100 * s for s in (board.best.weighted_s, board.best.recoverable, most.recoverable)]
    )
    assert (
        f"{100 * most.recoverable:.1f} % of the GPU time of production profiles" in found.sentence
    )
    missing = f"with 0 for the {100 * (1 - board.best.covered):.1f} % of the time that did not pass"
    assert missing in found.sentence
    assert board.best.s_covered is not None
    assert f"(S of the rest: {100 * board.best.s_covered:.1f} %)" in found.sentence
    # A bound is not a promise: nothing says that the time above it can be saved.
    assert "can be saved" not in f"{found.sentence} {[one.name for one in found.figures]}"
    assert missing not in of_bench(replace(board.best, covered=1.0)).sentence
    assert found.legend is not None
    assert "S: bound / measured time" in found.legend
    assert "GPU time of production profiles: the calls of the suite" in found.legend


def test_results_say_what_s_is_where_it_stands_first() -> None:
    found = of_bench(leaderboard(read_results(["tests/data/bench_results.jsonl"])).best)
    first = found.sentence.index("S:")
    assert found.sentence[first:].startswith("S: least possible time / measured time")
    assert " S " not in found.sentence[:first]
    assert found.figures[0].name == "of the possible speed (S)"
    names = [figure.name for figure in found.figures]
    assert "recover" not in f"{found.sentence} {names} {found.legend}".lower()


def test_other_suites_and_single_solutions_are_called_what_they_are() -> None:
    best = leaderboard(read_results(["tests/data/bench_results.jsonl"])).best
    found = of_bench(replace(best, suite="decode", solutions=["mine"]))
    assert found.sentence.startswith("mine reaches ")
    assert "production" not in f"{found.sentence} {found.legend} {found.figures}"


def test_shapes_without_recorded_calls_are_counted() -> None:
    best = leaderboard(read_results(["tests/data/bench_results.jsonl"])).best
    listed = load_suite().operators
    shapes = [shape for operator in listed for shape in operator.shapes]
    without = sum(not shape.call_count for shape in shapes)
    assert 0 < without < len(shapes)
    said = f"{without} of its {len(shapes)} shapes have no recorded calls and count as often as the"
    assert said in (of_bench(best).legend or "")
    assert "recorded" not in (of_bench(replace(best, suite="decode")).legend or "")


def test_one_operator_alone_has_its_time_above_the_bound_once_and_no_advice() -> None:
    lines = read_results(["tests/data/bench_results.jsonl"])
    found = of_bench(leaderboard(lines, operators=["rms_norm"]).best)
    assert found.advice is None
    assert [one.name for one in found.figures] == ["of the possible speed (S)", "above the bound"]


def test_the_benchmark_says_where_to_work_first() -> None:
    board = leaderboard(read_results(["tests/data/bench_results.jsonl"]))
    advice = of_bench(board.best).advice
    most = max(board.best.operators, key=lambda scored: scored.recoverable or 0.0)
    assert most.s is not None
    assert advice == (
        f"Work on {most.operator} first: it has {100 * most.importance:.1f} % of the GPU time of "
        f"production profiles, and S is {100 * most.s:.1f} % there. `solscope bench new "
        f"{most.operator}` begins a kernel of your own, and `solscope bench tune {most.operator}` "
        "times it."
    )


def test_a_run_says_what_to_check_on_the_late_rank() -> None:
    ranks = [attribute(solscope.open(path)) for path in solscope.find_profiles(["demo:ranks"])]
    (page,) = ranks_pages(ranks)
    straggler = page.table.straggler
    assert straggler.rank is not None
    assert page.headline.advice is not None
    assert f"rank {straggler.rank}" in page.headline.advice
    assert "that rank" not in page.headline.advice


def phased(decode: int, mixed: int) -> solscope.Attributed:
    """Eight decode steps and two that prefill as well, of so many microseconds each."""
    events, start = [], 0
    for at in range(10):
        name, time = ("mixed", mixed) if at % 5 == 2 else ("decode", decode)
        parts = f"execute_context_{int(name == 'mixed')}(64)_generation_8(8)"
        events.append(event("annotation", parts, start, 1_000 * time - 10))
        events.append(event("runtime", "cudaLaunchKernel", start + 1_000, 900, correlation=at + 1))
        events.append(
            event("kernel", "gemm", start + 3_000, 1_000 * (time - 10), correlation=at + 1)
        )
        start += 1_000 * time
    return attributed(*events)


def test_a_comparison_is_about_the_steps_that_cost_most_in_all() -> None:
    """Not about the few that differ most: 300 µs each, and 100 µs of the many."""
    comparison = compare_profiles([phased(100, 1_000), phased(200, 1_300)], ["a", "b"])
    assert {phase.phase for phase in comparison.phases} == {"decode", "mixed"}
    found = of_comparison(comparison)
    assert found.sentence.startswith("Decode steps of b take 2.00 times as long as those of a: ")
    assert found.sentence.endswith(" Mixed steps take 1.30 times as long.")
    assert [figure.name for figure in found.figures] == ["a", "b", "times as long"]
    assert [figure.scope for figure in found.figures] == [
        "mean of 7 of 8 decode steps",
        "mean of 7 of 8 decode steps",
        "of the decode step",
    ]
    assert comparison.phases[0].phase == "decode"


def test_parts_of_a_difference_are_all_of_it() -> None:
    """More idle time than the step takes longer: the rest is shorter, and is said beside it."""
    comparison = compare_profiles([run_of(1_000, 500), run_of(1_400, 450)], ["a", "b"])
    assert comparison.verdict.sentence.endswith(
        "(GPU idle between steps +0.450 ms, all else -0.050 ms)."
    )


def test_many_steps_that_are_alike_do_not_hide_rare_ones_that_differ() -> None:
    """Eight steps each take 900 µs more, which is 0.9 % of them; two take 600 µs more."""
    comparison = compare_profiles([phased(100_000, 300), phased(100_900, 900)], ["a", "b"])
    found = of_comparison(comparison)
    assert found.sentence.startswith(
        "Mixed steps of b take 3.00 times as long as those of a: 900.0 µs instead of 300.0 µs"
    )
    assert found.sentence.endswith(" Decode steps take as long, within 1 %.")
    assert found.severity == "attention"


def test_all_steps_are_called_alike_only_if_they_are() -> None:
    run = phased(100, 1_000)
    found = of_comparison(compare_profiles([run, run], ["a", "b"]))
    assert found.sentence == (
        "Decode steps of b take as long as those of a, within 1 %: 100.0 µs and 100.0 µs. "
        "So do all other steps that can be compared."
    )
    assert (found.figures[2].name, found.figures[2].value) == ("times as long", 1)
    assert found.severity == "neutral"


def test_steps_that_took_no_time_before_take_longer() -> None:
    comparison = compare_profiles([phased(100, 1_000), phased(100, 2_000)], ["a", "b"])
    phases = []
    for phase in comparison.phases:
        first, second = phase.steps
        assert first is not None
        phases.append(replace(phase, steps=[replace(first, time_ms=0.0), second]))
    found = verdict_of(comparison.profiles, phases)
    assert found.sentence.startswith("Mixed steps of b take longer than those of a: 2.000 ms ")
    assert found.sentence.endswith(" Decode steps take longer.")
    assert [figure.name for figure in found.figures] == ["a", "b"]


def test_the_page_shows_first_what_its_headline_is_about() -> None:
    for first, (decode, mixed) in {"decode": (200, 1_000), "mixed": (100, 4_000)}.items():
        page = comparison_page([phased(100, 1_000), phased(decode, mixed)], ["a", "b"])
        assert page.headline.sentence.startswith(f"{first.capitalize()} steps of b take ")
        assert page.comparison.phases[0].phase == first
        assert page.kernels is not None
        assert page.kernels.phases[0].phase == first
