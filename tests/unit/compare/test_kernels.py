"""Two profiles kernel by kernel, on real recordings."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import solscope
from solscope.compare.gate import MIN_STEPS
from solscope.compare.kernels import KernelComparison, compare_kernels
from solscope.errors import UsageError

NORMAL, B200 = "demo:h200-normal", "demo:vllm-b200"


@cache
def attributed(name: str) -> solscope.Attributed:
    return solscope.attribute(solscope.open(name))


def changed(name: str, kernels: dict[str, str], factor: float = 1.0) -> solscope.Attributed:
    """The same recording; some kernels have another name and take `factor` times as long."""
    profile = solscope.open(name)
    text = pl.col("name").cast(pl.String)
    chosen = (pl.col("kind").cast(pl.String) == "kernel") & text.is_in(list(kernels))
    events = profile.events.with_columns(
        pl.when(chosen).then(text.replace(kernels)).otherwise(text).cast(pl.Categorical),
        pl.when(chosen)
        .then((pl.col("dur_ns") * factor).cast(pl.Int64))
        .otherwise(pl.col("dur_ns"))
        .alias("dur_ns"),
    )
    return solscope.attribute(replace(profile, events=events))


def names_of(name: str) -> list[str]:
    activities = attributed(name).activities
    kernels = activities.filter(pl.col("kind").cast(pl.String) == "kernel")
    return kernels["name"].cast(pl.String).unique().sort().to_list()


def check_sums(result: KernelComparison) -> None:
    """Each activity of the complete steps is in one row."""
    for phase in result.phases:
        assert sum(row.diff_ms for row in phase.rows) == pytest.approx(phase.diff_ms, abs=1e-9)
        assert sum(row.before_ms for row in phase.rows) == pytest.approx(phase.before_ms)
        assert sum(row.after_ms for row in phase.rows) == pytest.approx(phase.after_ms)


@pytest.mark.parametrize("name", [NORMAL, B200])
def test_a_profile_and_itself(name: str) -> None:
    result = compare_kernels(attributed(name), attributed(name))
    check_sums(result)
    for phase in result.phases:
        assert phase.matched_pct == [100.0, 100.0]
        assert {row.relation for row in phase.rows} == {"same"}
        assert {row.diff_ms for row in phase.rows} == {0.0}
        assert not any(row.differs for row in phase.rows)


@pytest.mark.parametrize("name", [NORMAL, B200])
def test_kernels_of_a_new_build(name: str) -> None:
    others = {n: re.sub(r"\d+", lambda m: str(int(m[0]) + 1), n) for n in names_of(name)}
    result = compare_kernels(attributed(name), changed(name, others))
    check_sums(result)
    for phase in result.phases:
        for row in phase.rows:
            after = {others.get(use.name, use.name) for use in row.before}
            assert {use.name for use in row.after} == after
            assert row.relation in ("same", "replaced")


def test_a_renamed_kernel_that_got_slower_comes_first() -> None:
    name = max(
        (row for row in compare_kernels(attributed(NORMAL), attributed(NORMAL)).phases[0].rows),
        key=lambda row: row.before_ms,
    )
    kernel = name.before[0].name
    slower = changed(NORMAL, {kernel: "a_kernel_nobody_knows"}, 1.5)
    result = compare_kernels(attributed(NORMAL), slower, phase="decode")
    check_sums(result)
    (phase,) = result.phases
    first = phase.rows[0]
    assert first.relation == "replaced"
    assert first.matched_by == "order"
    assert {use.name for use in first.before} == {kernel}
    assert {use.name for use in first.after} == {"a_kernel_nobody_knows"}
    assert first.after_ms / first.before_ms == pytest.approx(1.5, rel=1e-4)
    assert first.differs
    assert first.low_ms is not None
    assert 0 < first.low_ms < first.diff_ms < (first.high_ms or 0.0)
    # The steps got slower by this kernel alone.
    others = [row for row in phase.rows[1:] if row.diff_ms]
    assert others == []


def test_few_steps_are_not_tested() -> None:
    result = compare_kernels(attributed(B200), attributed(B200))
    assert all((count or 0) < MIN_STEPS for phase in result.phases for count in phase.steps)
    assert "single_step" in {warning.code for warning in result.warnings}
    rows = [row for phase in result.phases for row in phase.rows]
    assert {row.differs for row in rows} == {None}
    assert {row.low_ms for row in rows} == {None}


def test_profiles_without_a_common_phase_are_compared_with_a_warning() -> None:
    before = attributed(NORMAL)
    steps = before.steps.with_columns(
        pl.lit("prefill").cast(before.steps["phase"].dtype).alias("phase")
    )
    result = compare_kernels(before, replace(before, steps=steps))
    assert [phase.phase for phase in result.phases] == [None]
    assert result.phases[0].matched_pct == [100.0, 100.0]
    assert result.phases[0].per == "profile"
    assert "unlike_units" in {warning.code for warning in result.warnings}


def test_a_profile_without_steps_is_compared_as_a_whole() -> None:
    before = attributed(NORMAL)
    result = compare_kernels(before, replace(before, steps=before.steps.clear()))
    (phase,) = result.phases
    assert (phase.per, phase.steps, phase.devices) == ("profile", [None, None], [None, None])
    assert phase.before_ms == phase.after_ms
    assert phase.matched_pct == [100.0, 100.0]


def test_a_phase_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="phase verify"):
        compare_kernels(attributed(NORMAL), attributed(NORMAL), phase="verify")


def test_an_eager_step_and_its_replays_under_other_names() -> None:
    """The twin is one step without a mark, so totals are compared; order still tells the work."""
    folder = Path(__file__).parents[3] / "results" / "architectures"
    twin, graph = (str(folder / f"qwen3-6l.{form}.json.zst") for form in ("twin", "graph"))
    others = {name: f"k_{number}" for number, name in enumerate(names_of(graph))}
    (phase,) = compare_kernels(attributed(twin), changed(graph, others)).phases
    assert phase.per == "profile"
    right = sum(
        row.before_ms
        for row in phase.rows
        if {others.get(use.name, use.name) for use in row.before} == {u.name for u in row.after}
    )
    assert right >= 0.99 * phase.before_ms
