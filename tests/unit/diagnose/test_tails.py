"""Rare slow steps: seen, counted, explained, and not invented."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.verdict.judging import scope_of
from solscope.diagnose.verdict.naming import ranking_of_tail
from solscope.diagnose.verdict.ranking import Excluded, NamedCause, Ranking, unknown
from solscope.readers.packed import Observations
from tests.sampling import some
from tests.unit.diagnose.making import EAGER, GRAPH


def longer(run: Observations, tile: str, added_ms: Callable[[int], float]) -> Observations:
    """Some steps of a run made longer in one tile, by a number of ms that depends on the step."""
    kind, _, name = tile.partition(".")
    extra = [round(1e6 * added_ms(at)) for at in range(len(run.steps))]
    tiles = [
        msgspec.structs.replace(t, ns=[ns + more for ns, more in zip(t.ns, extra, strict=True)])
        if (t.kind, t.name) == (kind, name)
        else t
        for t in run.tiles
    ]
    steps = [
        msgspec.structs.replace(step, wall_ns=step.wall_ns + more)
        for step, more in zip(run.steps, extra, strict=True)
    ]
    return msgspec.structs.replace(run, tiles=tiles, steps=steps)


def diagnosed(
    steps: int, added_ms: Callable[[int], float], tile: str = "idle.host:schedule"
) -> Diagnosis:
    base = GRAPH.but(steps=steps)
    return diagnose_runs(base.run(), longer(base.run(3), tile, added_ms))


@pytest.mark.parametrize(
    ("steps", "added_ms"),
    [
        (42, lambda at: 20.0 if at in (10, 30) else 0.0),
        (102, lambda at: 60.0 if at in (20, 70) else 0.0),
        (42, lambda at: 12.0 if at % 8 == 4 else 0.0),
        (62, lambda at: 15.0 if at in (20, 50) else 0.0),
    ],
    ids=["2 of 40", "2 of 100", "every 8th", "2 of 60"],
)
def test_a_few_slow_steps_are_a_regression_of_the_tail(
    steps: int, added_ms: Callable[[int], float]
) -> None:
    result = diagnosed(steps, added_ms)
    assert (result.verdict, result.scope) == ("regression", "tail")
    assert result.outliers is not None
    assert result.outliers.steps == sum(added_ms(at) > 0 for at in range(1, steps - 1))
    assert result.outliers.normal_steps == 0
    assert result.outliers.where == "host"
    assert result.sentence.startswith("Regression in the tail: ")
    assert f" {result.outliers.steps} of " in result.sentence
    assert "the typical one ×1.00" in result.sentence


def test_swapped_it_is_an_improvement_of_the_tail() -> None:
    base = GRAPH.but(steps=42)
    slow = longer(base.run(3), "idle.host:schedule", lambda at: 20.0 if at in (10, 30) else 0.0)
    result = diagnose_runs(slow, base.run())
    assert (result.verdict, result.scope) == ("improvement", "tail")


def test_slow_steps_in_a_run_that_got_slower_are_both() -> None:
    result = diagnosed(42, lambda at: 21.0 if at % 8 == 4 else 1.5)
    assert (result.verdict, result.scope) == ("regression", "both")


def test_every_step_slower_is_the_mean() -> None:
    result = diagnosed(42, lambda _at: 1.5)
    assert (result.verdict, result.scope) == ("regression", "mean")
    assert result.outliers is None


def test_one_slow_step_is_an_accident() -> None:
    result = diagnosed(42, lambda at: 20.0 if at == 20 else 0.0)
    assert (result.verdict, result.scope) == ("no_change", None)
    assert "cannot be told (1 of 40 against 0 of 40)" in result.sentence
    assert result.causes[0].confidence <= 0.75


def test_with_few_steps_nothing_is_said() -> None:
    result = diagnosed(10, lambda at: 20.0 if at in (4, 6) else 0.0)
    assert result.verdict != "regression"
    assert [tail.state for tail in result.tails] == ["not_tested", "not_tested"]


def test_slow_steps_on_both_sides_are_no_change() -> None:
    base = GRAPH.but(steps=42)
    sides = [
        longer(base.run(shift), "idle.host:schedule", lambda at: 20.0 if at % 9 == 5 else 0.0)
        for shift in (0, 3)
    ]
    result = diagnose_runs(sides[0], sides[1])
    assert (result.verdict, result.scope) == ("no_change", None)


def test_quantiles_are_tested() -> None:
    result = diagnosed(122, lambda at: 12.0 if at % 8 == 4 else 0.0)
    p90, p99 = result.tails
    assert (p90.quantile, p99.quantile) == (0.9, 0.99)
    assert p90.state == p99.state == "changed"
    assert p99.abnormal_ms > 3 * p99.normal_ms
    same = diagnosed(122, lambda _at: 0.0)
    assert [tail.state for tail in same.tails] == ["unclear", "unclear"]


def test_collections_of_slow_steps_are_named() -> None:
    base = GRAPH.but(steps=42, tiles={"idle.gc": 0.01}, sections={"gc": (0.01, 0.0)})
    slow = longer(base.run(3), "idle.gc", lambda at: 20.0 if at in (10, 30) else 0.0)
    result = diagnose_runs(base.run(), slow)
    assert result.outliers is not None
    assert result.outliers.cause == "gc"
    assert result.causes[0].id == "gc"


EVERY_15TH = 8
"""Slow steps of 120 where every 15th of 122 is slow, from the fifth on."""


def every_15th(at: int) -> float:
    return 8.0 if at % 15 == 4 else 0.0


def two_of_40(at: int) -> float:
    return 20.0 if at in (10, 30) else 0.0


def test_a_tail_that_moved_against_the_mean_is_named() -> None:
    base = GRAPH.but(steps=122)
    faster = longer(base.run(), "idle.host:schedule", every_15th)
    result = diagnose_runs(longer(base.run(3), "idle.host:schedule", lambda _at: 1.5), faster)
    assert (result.verdict, result.scope) == ("improvement", "mean")
    assert result.sentence.endswith(
        f"; but {EVERY_15TH} of 120 decode steps are slow (normal: 0 of 120)."
    )
    slower = longer(base.run(), "idle.host:schedule", lambda _at: 2.5)
    result = diagnose_runs(longer(base.run(3), "idle.host:schedule", every_15th), slower)
    assert (result.verdict, result.scope) == ("regression", "mean")
    assert result.sentence.endswith(
        f"; but 0 of 120 decode steps are slow (normal: {EVERY_15TH} of 120)."
    )


@pytest.mark.parametrize("requests", [32, 64])
def test_another_workload_is_no_regression_of_the_tail(requests: int) -> None:
    base = GRAPH.but(steps=42, requests=32)
    slow = longer(base.but(requests=requests).run(3), "idle.host:schedule", two_of_40)
    result = diagnose_runs(base.run(), slow)
    other = requests != base.requests
    assert result.verdict == ("workload_changed" if other else "regression")
    assert result.sentence.startswith("The workload changed: ") is other
    assert (result.scope == "tail") is not other
    assert "2 of 40 decode steps are slow (normal: 0 of 40)" in result.sentence


@pytest.mark.parametrize(
    "tile", some((f"{tile.kind}.{tile.name}" for tile in EAGER.run().tiles), 3)
)
def test_a_cause_of_slow_steps_is_not_ruled_out_by_the_mean(tile: str) -> None:
    base = EAGER.but(steps=42)
    result = diagnose_runs(base.run(), longer(base.run(3), tile, lambda at: 3 * two_of_40(at)))
    assert (result.verdict, result.scope) == ("regression", "tail")
    named = {cause.id for cause in result.causes}
    assert not named & {item.id for item in result.excluded}
    assert not named & {cause.id for cause in result.hidden_causes}
    # Sensors were recorded; they are only too slow for single steps.
    assert all("single steps" in text for text in result.missing_evidence if "not sampled" in text)
    first = next((c.id for c in result.causes if c.id != "unknown"), None)
    assert result.outliers is not None
    assert result.outliers.cause in (first, None)


def test_slow_steps_too_few_for_a_test_make_no_cause_sure() -> None:
    base = GRAPH.but(steps=42, tiles={"idle.gc": 0.01}, sections={"gc": (0.01, 0.0)})
    result = diagnose_runs(base.run(), longer(base.run(3), "idle.gc", two_of_40))
    assert result.outliers is not None
    assert result.outliers.p == pytest.approx(0.494, abs=0.001)
    assert result.causes[0].confidence <= 0.75
    assert sum(cause.confidence for cause in result.causes) == pytest.approx(1.0)
    text = "too few for a test of their number (p = 0.49); both far beyond the normal run"
    assert text in result.sentence
    unknown = next(cause for cause in result.causes if cause.id == "unknown")
    assert "p = 0.49" in unknown.evidence[0]


def test_slow_steps_enough_for_a_test_leave_the_cause_as_sure_as_it_is() -> None:
    base = GRAPH.but(steps=122, tiles={"idle.gc": 0.01}, sections={"gc": (0.01, 0.0)})
    result = diagnose_runs(base.run(), longer(base.run(3), "idle.gc", every_15th))
    assert (result.verdict, result.scope) == ("regression", "tail")
    assert result.causes[0].confidence > 0.75
    assert "too few" not in result.sentence


@pytest.mark.parametrize(("steps", "state"), [(11, "not_tested"), (12, "unclear")])
def test_ten_steps_have_a_p90(steps: int, state: str) -> None:
    result = diagnosed(steps, lambda _at: 0.0)
    assert result.abnormal.steps == steps - 2
    assert result.tails[0].state == state


def ranking(cause: str, confidence: float) -> Ranking:
    named = NamedCause(cause, "host", cause, confidence, [], [], 100.0, "")
    causes = [unknown(1.0)] if cause == "unknown" else [named, unknown(1 - confidence)]
    return Ranking(causes, [], [Excluded(f"not {cause}", "")], [f"missing for {cause}"], [])


@pytest.mark.parametrize(
    ("of_mean", "of_slow_steps", "used"),
    [
        (("cpu_quota", 0.9), ("unknown", 1.0), "cpu_quota"),
        (("graphs_off", 0.9), ("slow_section", 0.7), "graphs_off"),
        (("cpu_slow", 0.5), ("gc", 0.9), "gc"),
        (("unknown", 1.0), ("gc", 0.4), "gc"),
        (("unknown", 1.0), ("unknown", 1.0), "unknown"),
    ],
)
def test_slow_steps_are_explained_by_one_ranking_as_a_whole(
    of_mean: tuple[str, float], of_slow_steps: tuple[str, float], used: str
) -> None:
    result = ranking_of_tail(ranking(*of_mean), ranking(*of_slow_steps))
    assert result.first.id == used
    assert [item.id for item in result.excluded] == [f"not {used}"]
    assert result.missing == [f"missing for {used}"]


def test_an_improvement_mentions_a_single_slow_step() -> None:
    base = GRAPH.but(steps=42)
    before = longer(base.run(), "idle.host:schedule", lambda _at: 6.0)
    after = longer(base.run(3), "idle.host:schedule", lambda at: 20.0 if at == 20 else 0.0)
    result = diagnose_runs(before, after)
    assert result.verdict == "improvement"
    assert "cannot be told (1 of 40 against 0 of 40)" in result.sentence


@pytest.mark.parametrize(
    ("typical", "scope"), [(0.7, "tail"), (1.0, "tail"), (1.3, "both"), (None, "both")]
)
def test_a_typical_step_that_got_faster_is_no_part_of_a_regression(
    typical: float | None, scope: str
) -> None:
    findings: Any = SimpleNamespace(
        tails=SimpleNamespace(worse=True, better=False, usual_ratio=typical),
        outcome=SimpleNamespace(floor=0.03),
    )
    assert scope_of(findings, "regression") == scope


def only(step: int) -> Callable[[int], float]:
    return lambda at: 2.8 if at == step else 0.0


def three_of_60(at: int) -> float:
    return 2.8 if at in (12, 29, 51) else 0.0


def test_a_few_slow_steps_with_one_known_cause_are_a_regression_of_the_tail() -> None:
    """Their number is not significant, and none of them is far beyond the normal run."""
    result = diagnosed(62, three_of_60)
    assert (result.verdict, result.scope) == ("regression", "tail")
    assert result.causes[0].id == "slow_section"
    assert result.causes[0].confidence <= 0.75
    assert "(p = 0.24), but all are longer in the same state of the GPU" in result.sentence
    base = GRAPH.but(steps=62)
    slow = longer(base.run(3), "idle.host:schedule", three_of_60)
    back = diagnose_runs(slow, base.run())
    assert (back.verdict, back.scope) == ("improvement", "tail")


def test_a_few_slow_steps_are_undecided_where_anything_speaks_against_it() -> None:
    base = GRAPH.but(steps=62)
    states = ("idle.host:schedule", "compute.gemm", "idle.launch_wait")
    unlike = base.run(3)
    for at, tile in zip((12, 29, 51), states, strict=True):
        unlike = longer(unlike, tile, only(at))
    unknown = longer(base.run(3), "compute.gemm", three_of_60)
    slow = longer(base.run(3), "idle.host:schedule", three_of_60)
    before = longer(base.run(), "idle.host:schedule", only(20))
    for normal, abnormal in ((base.run(), unlike), (base.run(), unknown), (before, slow)):
        result = diagnose_runs(normal, abnormal)
        assert result.verdict == "no_change"
