"""Rules that decide a verdict, each at its edge."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import match
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.readers.packed import Observations
from tests.unit.diagnose.making import EAGER, GRAPH, Made


def found(normal: Observations, abnormal: Observations) -> Findings:
    result = find(match(normal, abnormal, THRESHOLDS), THRESHOLDS)
    assert result is not None
    return result


def stretched(run: Observations, factors: Sequence[float]) -> Observations:
    """The run with its steps longer by these factors, all of it in products."""
    size = len(run.steps)
    cycle = [factors[at % len(factors)] for at in range(size)]
    walls = [step.wall_ns for step in run.steps]
    added = [round(wall * (factor - 1)) for wall, factor in zip(walls, cycle, strict=True)]
    tiles = [
        msgspec.structs.replace(tile, ns=[a + b for a, b in zip(tile.ns, added, strict=True)])
        if tile.kind == "compute" and tile.name == "gemm"
        else tile
        for tile in run.tiles
    ]
    start, steps = 0, []
    for step, more in zip(run.steps, added, strict=True):
        steps.append(msgspec.structs.replace(step, start_ns=start, wall_ns=step.wall_ns + more))
        start += step.wall_ns + more
    return msgspec.structs.replace(run, steps=steps, tiles=tiles)


def test_a_mean_that_one_step_moves_is_no_regression() -> None:
    """The mean step takes 15 % longer, but its interval holds no change: one step of 19 did it."""
    normal = GRAPH.run()
    one_long = [1.0] * len(normal.steps)
    one_long[7] = 4.0
    result = diagnose_runs(normal, stretched(GRAPH.run(shift=3), one_long))
    assert result.ratio is not None
    assert result.ratio > 1.1
    assert result.ratio_ci95 is not None
    assert result.ratio_ci95[0] < 1.03
    assert result.verdict == "no_change"


def test_steps_that_chance_could_have_shifted_are_no_regression() -> None:
    """Six of eight steps are longer, two are shorter: p is about 0.1."""
    made = GRAPH.but(steps=9)
    mixed = stretched(made.run(shift=3), [1.2, 1.2, 0.8, 1.2, 1.2, 1.2, 0.8, 1.2, 1.2])
    result = diagnose_runs(made.run(), mixed)
    assert result.typical_ratio is not None
    assert result.typical_ratio > 1.03
    assert result.ratio_ci95 is not None
    assert result.ratio_ci95[0] < 1.03 < result.ratio_ci95[1]
    assert result.verdict == "no_change"


def test_no_change_below_three_percent_counts_however_quiet_a_run_is() -> None:
    outcome = found(GRAPH.run(), GRAPH.run(shift=3)).outcome
    assert outcome.floor == 0.03


@pytest.mark.parametrize(("shared", "known"), [(2, False), (3, True)])
def test_the_pace_of_the_host_takes_three_operators(shared: int, *, known: bool) -> None:
    names = ["aten::mm", "aten::mul", "aten::rms_norm"][:shared]
    run = msgspec.structs.replace(
        EAGER.run(), host_ops=[op for op in EAGER.run().host_ops if op.name in names]
    )
    result = found(run, run)
    assert (result.host.op_ratio is not None) == known
    assert result.host.pace == 1.0


def slow_sample(factors: Sequence[float]) -> Observations:
    """The section `sample` takes 6 ms longer on average, by these factors from step to step."""
    own, ops = EAGER.sections["sample"]
    slow: Made = EAGER.but(
        tiles={"idle.host:sample": EAGER.tiles["idle.host:sample"] + 6.0},
        sections={"sample": (own + 6.0, ops * own / (own + 6.0))},
    )
    run = slow.run()
    sections = [
        msgspec.structs.replace(
            section,
            own_ns=[round(ns * factors[at % len(factors)]) for at, ns in enumerate(section.own_ns)],
        )
        if section.name == "sample"
        else section
        for section in run.sections
    ]
    return msgspec.structs.replace(run, sections=sections)


@pytest.mark.parametrize(
    ("factors", "regular"), [([0.92, 1.08], True), ([0.75, 1.25], False)], ids=["8 %", "25 %"]
)
def test_a_section_is_regular_while_its_steps_differ_little(
    factors: list[float], *, regular: bool
) -> None:
    result = diagnose_runs(EAGER.run(), slow_sample(factors))
    (cause,) = [cause for cause in result.causes if cause.id == "slow_section"]
    said = [text for text in cause.evidence if "varies by" in text]
    against = [text for text in cause.against if "varies by" in text]
    assert (len(said), len(against)) == ((1, 0) if regular else (0, 1))
