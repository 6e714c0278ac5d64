from __future__ import annotations

import msgspec
import pytest

from solscope.diagnose.changes.decompose import decompose
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.matching.units import match
from solscope.readers.packed import Observations
from tests.unit.diagnose.making import EAGER, Made

MIXED = EAGER.but(phases=("decode",) * 7 + ("mixed",), steps=25)


def test_edges_are_dropped_and_counted() -> None:
    units = match(EAGER.run(), EAGER.run(1))
    assert units.comparable == "good"
    assert units.normal.dropped == {
        "first step of the recording": 1,
        "cut by the recording's edge": 1,
    }
    assert [s.normal.size for s in units.strata] == [18]


def test_a_step_with_fewer_activities_is_left_out() -> None:
    run = EAGER.run()
    steps = list(run.steps)
    steps[5] = msgspec.structs.replace(steps[5], activities=97)
    units = match(msgspec.structs.replace(run, steps=steps), EAGER.run(1))
    assert units.normal.dropped["fewer activities than usual"] == 1
    assert 5 not in units.normal.fit


def test_phases_with_too_few_steps_are_not_compared() -> None:
    units = match(MIXED.run(), MIXED.run(1))
    assert [(s.phase, s.tested) for s in units.strata] == [("decode", True)]
    assert units.matched[0] < 1


def test_all_phases_are_compared_when_their_mix_changed() -> None:
    units = match(MIXED.run(), MIXED.but(phases=("decode", "mixed")).run())
    assert {s.phase for s in units.strata} == {"decode", "mixed"}


def layers_as_steps(made: Made, factor: int) -> Observations:
    """The same run cut into smaller units."""
    return made.but(
        tiles={name: ms / factor for name, ms in made.tiles.items()},
        kernels={
            key: (calls / factor, us, grid) for key, (calls, us, grid) in made.kernels.items()
        },
        copies={},
    ).run()


def test_unlike_units_are_converted_with_the_factor_shown() -> None:
    base = EAGER.but(
        kernels={key: (calls * 2, us, g) for key, (calls, us, g) in EAGER.kernels.items()}
    )
    layers = layers_as_steps(base, 2)
    by_kernels = msgspec.structs.replace(layers.run, found_by="kernel_period")
    result = diagnose_runs(base.run(), msgspec.structs.replace(layers, run=by_kernels))
    assert result.comparability.factor == pytest.approx(2.0, rel=0.05)
    assert result.ratio == pytest.approx(1.0, rel=0.05)
    assert "unlike units" in result.comparability.reasons[0]
    assert result.verdict == "no_change"


def with_gpu(run: Observations, name: str) -> Observations:
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, gpus=[name]))


def test_other_gpus_other_programs_and_other_models_are_refused() -> None:
    other_program = EAGER.but(kernels=dict.fromkeys(EAGER.kernels, (0, 0.0, "1")) | {
        ("conv", f"conv{i}", None): (40, 5.0, "1,1,1") for i in range(5)})  # fmt: skip
    other_model = EAGER.but(ops={"aten::mm": (960, 40.0, "[[32,2048],[2048,2048]]")})
    for run, reason in (
        (with_gpu(EAGER.run(), "H100"), "different GPUs"),
        (other_program.run(), "not the same program"),
        (other_model.run(), "not the same model"),
    ):
        result = diagnose_runs(EAGER.run(), run)
        assert result.verdict == "cannot_compare"
        assert reason in result.sentence
        assert result.ratio is None
        assert result.components == []


def test_too_few_steps_are_said_and_not_tested() -> None:
    few = EAGER.but(steps=5)
    result = diagnose_runs(few.run(), few.but(tiles={"idle.host:decode": 30.0}).run())
    assert result.verdict == "cannot_compare"
    assert "n = 3/3" in result.sentence
    assert result.ratio_ci95 is None
    assert {component.q for component in result.components} == {None}


def test_components_sum_to_the_difference_and_effects_to_each_component() -> None:
    abnormal = MIXED.but(
        phases=("decode", "mixed"),
        kernels={("gemm", "nvjet_128", "bf16"): (60, 40.0, "132,1,1")},
        tiles={"compute.gemm": 2.4, "idle.sync": 3.0},
        calls={"sync": 9},
    )
    units = match(MIXED.run(), abnormal.run())
    parts = decompose(units)
    assert sum(c.delta_ms for c in parts.components) == pytest.approx(parts.delta_ms, rel=1e-12)
    assert sum(c.normal_ms for c in parts.components) == pytest.approx(parts.normal_ms, rel=1e-12)
    for c in parts.components:
        assert c.count_effect_ms + c.duration_effect_ms == pytest.approx(c.delta_ms, abs=1e-12)
        assert c.abnormal_ms - c.normal_ms == pytest.approx(c.delta_ms, abs=1e-12)


def test_more_calls_and_longer_calls_are_told_apart() -> None:
    more = EAGER.but(
        kernels={("gemm", "nvjet_128", "bf16"): (96, 27.0, "132,1,1")}, tiles={"compute.gemm": 2.6}
    )
    longer = EAGER.but(
        kernels={("gemm", "nvjet_128", "bf16"): (48, 54.0, "132,1,1")}, tiles={"compute.gemm": 2.6}
    )
    for made, calls, times in ((more, 1.3, 0.0), (longer, 0.0, 1.3)):
        parts = decompose(match(EAGER.run(), made.run()))
        gemm = next(c for c in parts.components if c.component == "compute.gemm")
        assert gemm.count_effect_ms == pytest.approx(calls, abs=0.02)
        assert gemm.duration_effect_ms == pytest.approx(times, abs=0.02)
