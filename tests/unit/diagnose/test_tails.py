"""Rare slow steps: seen, counted, explained, and not invented."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.readers.packed import Observations
from tests.unit.diagnose.making import GRAPH


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
    assert result.sentence.startswith(f"Regression in the tail: {result.outliers.steps} of ")
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
