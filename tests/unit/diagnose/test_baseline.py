"""One run against many: what is normal is learned."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from solscope.cli import app
from solscope.diagnose.baseline import (
    against_typical,
    diagnose_against,
    means_alike,
    means_of_all,
    step_times,
    unseen_share,
)
from solscope.diagnose.statistics.prediction import (
    Prediction,
    outside_when_left_out,
    predict,
    student_quantile,
)
from solscope.errors import InputError
from solscope.lab import edits
from solscope.readers.packed import Observations, save
from tests.sampling import some
from tests.unit.diagnose.making import EAGER, GRAPH

PLAIN = EAGER.but(steps=30)


def paced(factor: float, shift: int = 0) -> Observations:
    """A run whose host takes longer by a factor, as another start of the program may."""
    return edits.slower_host(PLAIN.run(shift), factor, "running")


CALM = [paced(1 + 0.004 * (at % 3), at) for at in range(8)]
WILD = [paced(factor, at) for at, factor in enumerate((1.0, 1.3, 0.8, 1.5, 1.1, 0.9, 1.4, 1.2))]


def test_the_band_follows_from_the_runs() -> None:
    values = np.log([10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 10.3, 9.7, 10.0, 10.0])
    found = predict(values, 0.99)
    assert student_quantile(0.99, 9) == pytest.approx(3.2498, abs=1e-4)
    assert found.half == pytest.approx(3.2498 * values.std(ddof=1) * math.sqrt(1.1), rel=1e-4)
    assert found.z(found.center + 2 * found.spread) == pytest.approx(2.0)


def test_runs_are_left_out_one_by_one() -> None:
    values = np.log([10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 20.0])
    assert outside_when_left_out(values, 0.99, 0.03) == 1
    assert outside_when_left_out(values[:-1], 0.99, 0.03) == 0


def test_a_small_change_counts_where_runs_hardly_differ() -> None:
    slower = edits.slower_kernels(paced(1.0, 3), 1.6, lambda _kernel: True)
    alone = edits.slower_host(PLAIN.run(3), 1.1, "running")
    for run in (slower, alone):
        result = diagnose_against(CALM, run)
        assert result.verdict == "regression"
        assert result.baseline is not None
        assert result.baseline.runs == 8
        assert result.baseline.noise_pct == pytest.approx(3.0)
        assert result.baseline.z is not None
        assert result.baseline.z > 5


def test_the_same_change_is_noise_where_runs_differ_by_more() -> None:
    result = diagnose_against(WILD, edits.slower_host(PLAIN.run(3), 1.3, "running"))
    assert result.verdict == "no_change"
    assert result.baseline is not None
    assert result.baseline.noise_pct > 40
    assert result.baseline.z is not None
    assert abs(result.baseline.z) < 2


def test_a_run_like_the_others_is_no_change() -> None:
    result = diagnose_against(CALM, paced(1.002, 5))
    assert result.verdict == "no_change"
    assert result.comparability.run_noise_pct == pytest.approx(3.0)


def test_few_runs_are_refused() -> None:
    with pytest.raises(InputError, match="at least 5 recordings, and there are 4"):
        diagnose_against(CALM[:4], CALM[4])


def test_phases_are_weighted_alike() -> None:
    mixed = EAGER.but(steps=34, phases=("mixed", "decode"))
    more = EAGER.but(steps=34, phases=("mixed", "decode", "decode", "decode"))
    times = step_times(means_alike([run.run() for run in (mixed, more)]))
    assert times[0] == pytest.approx(times[1], rel=0.02)
    with pytest.raises(InputError, match="no phase in common"):
        step_times([{"decode": (4, 1.0)}, {"prefill": (4, 1.0)}])


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["diagnose", *arguments], standalone_mode=False)
    if isinstance(done.exception, click.UsageError):
        return 2, done.exception.message
    assert done.exception is None, done.output
    return done.return_value, done.output


def test_the_command_takes_a_folder(tmp_path: Path) -> None:
    for at, run in enumerate(CALM):
        save(run, tmp_path / f"run{at}.json")
    slow = save(edits.slower_kernels(paced(1.0), 1.6, lambda _kernel: True), tmp_path / "slow.json")
    code, text = command("--baseline", str(tmp_path), str(slow), "--json")
    found = json.loads(text)
    assert (code, found["verdict"], found["baseline"]["runs"]) == (1, "regression", 8)
    code, text = command("--baseline", str(tmp_path), str(slow), "--markdown")
    assert "- baseline: 8 recordings take " in text
    assert command("--baseline", str(tmp_path), str(slow), str(slow))[0] == 2


def test_a_run_inside_the_band_is_no_change_however_far_from_the_typical_run() -> None:
    typical, run = paced(1.0), paced(3.0, 7)
    times = step_times(means_alike([typical, run]))
    assert times[1] > 1.5 * times[0]
    for center, verdict in ((times[1], "no_change"), (times[0], "regression")):
        band = Prediction(math.log(center), 0.02, 0.05, 6)
        result = against_typical(typical, run, band, np.empty(0), times[[0, 0, 1]])
        assert result.verdict == verdict


def test_no_distance_in_deviations_when_all_runs_are_equal() -> None:
    result = diagnose_against([PLAIN.run()] * 6, paced(1.5))
    assert result.baseline is not None
    assert result.baseline.z is None
    assert result.verdict == "regression"


def test_a_baseline_that_is_not_there_is_named(tmp_path: Path) -> None:
    run = save(PLAIN.run(), tmp_path / "run.json")
    arguments = ["diagnose", "--baseline", str(tmp_path / "none"), str(run)]
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert isinstance(done.exception, InputError)
    assert str(done.exception).endswith("none: no such folder of recordings or store")


GRAPHED = GRAPH.but(steps=42)
OFTEN, SELDOM, NEVER = range(4, 40, 4), (20,), ()
"""Steps in which the profiler is at work: too many to leave out, one, or none."""


def recorded(hits: Sequence[int], at: int = 0, more_ms: float = 0.0) -> Observations:
    """A run whose steps the profiler doubles where it is at work, and the ones after those."""
    run = GRAPHED.run(at)
    slowed = {n for hit in hits for n in (hit, hit + 1)}
    typical = sum(GRAPHED.tiles.values())
    extra = [round(1e6 * (more_ms + (typical if n in slowed else 0))) for n in range(42)]
    run = edits.slower_section(run, "schedule", np.array(extra, dtype=np.int64))
    steps = [
        msgspec.structs.replace(step, profiler_ns=500_000 if n in hits else 0)
        for n, step in enumerate(run.steps)
    ]
    return msgspec.structs.replace(run, steps=steps)


@pytest.mark.parametrize("hits", some([OFTEN, SELDOM, NEVER], 2), ids=["often", "seldom", "never"])
@pytest.mark.parametrize(
    "of_run", some([OFTEN, SELDOM, NEVER], 2), ids=["often", "seldom", "never"]
)
def test_the_profiler_neither_hides_nor_invents_a_regression_in_a_set(
    hits: Sequence[int], of_run: Sequence[int]
) -> None:
    """Its steps are left out of all recordings and the run, or of none."""
    baseline = [recorded(hits, at) for at in range(6)]
    same = diagnose_against(baseline, recorded(of_run, 7))
    alike = (hits is OFTEN) == (of_run is OFTEN)
    if alike:
        assert same.verdict == "no_change"
    slower = diagnose_against(baseline, recorded(of_run, 7, more_ms=3.0))
    assert slower.verdict == "regression"
    means = means_alike([*baseline, recorded(of_run, 7)])
    counts = [40 if OFTEN in (hits, of_run) or own is NEVER else 38 for own in (hits, of_run)]
    assert [run["decode"][0] for run in means] == [*[counts[0]] * 6, counts[1]]


def test_one_recording_that_keeps_such_steps_does_not_widen_the_band() -> None:
    """Else its mean alone would have them, and a band over unlike means hides a regression."""
    alike = [recorded(SELDOM, at) for at in range(7)]
    mixed = [*alike[:6], recorded(OFTEN, 6)]
    means = means_alike(mixed)
    assert [run["decode"][0] for run in means] == [40] * 7
    assert [run["decode"][0] for run in means_alike(alike)] == [38] * 7


def test_a_store_counts_all_steps() -> None:
    run = recorded(SELDOM)
    assert means_alike([run])[0]["decode"][0] == 38
    assert means_of_all(run)["decode"][0] == 40


def test_noise_between_steps_is_assumed_where_it_was_not_measured() -> None:
    run = PLAIN.run()
    means = means_of_all(run)
    count, mean = means["decode"]
    assert unseen_share(means, means) == 0.0
    assert unseen_share({"decode": (count, 0.6 * mean)}, means) == pytest.approx(0.4)
    band = Prediction(math.log(mean), 0.01, 0.03, 8)
    times = np.array([mean] * 8 + [mean])
    widths = []
    for unseen in (0.0, 0.4, 1.0):
        found = against_typical(run, run, band, np.empty(0), times, unseen=unseen).baseline
        assert found is not None
        widths.append(found.noise_pct)
    low = 100 * math.expm1(0.03)
    assert widths == pytest.approx([low, 0.6 * low + 0.4 * 15, 15.0])
