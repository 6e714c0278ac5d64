"""Every evil sample is caught as what it is, on the CPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.evil import chosen, expected, run_samples

ON_CPU = {name: one for name, one in expected().items() if one.get("device", "cpu") == "cpu"}
SLEEPY = ["never_returns"]
QUICK = ["cached_by_value", "remembers_in_its_plan"]
"""Samples for timing that every test run has; `make test-long` has the others."""


def names(stage: str, *, of_operators: bool) -> list[str]:
    found = chosen(stage, "cpu", of_operators=of_operators)
    return [name for name in found if name not in SLEEPY]


def caught(found: dict[str, list[str]]) -> None:
    wrong = {
        name: (seen, ON_CPU[name]["status"])
        for name, seen in found.items()
        if not seen or not set(seen) <= set(ON_CPU[name]["status"])
    }
    assert not wrong


@pytest.mark.long
def test_every_sample_that_a_check_can_catch_and_an_honest_one_beside_them() -> None:
    samples = ["honest", *names("check", of_operators=False)]
    found = run_samples(samples, "cpu", check_only=True, scale=0.02)
    assert found.pop("honest") == ["passed"]
    caught(found)


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers")
def test_samples_that_only_timing_can_catch() -> None:
    caught(run_samples(QUICK, "cpu", check_only=False, scale=0.02))


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers")
def test_all_samples_that_only_timing_can_catch_and_honest_ones_beside_them() -> None:
    samples = [name for name in names("time", of_operators=False) if name not in QUICK]
    found = run_samples(["honest", *samples], "cpu", check_only=False, scale=0.02)
    assert found.pop("honest") == ["passed"]
    caught(found)
    caught(run_samples(names("time", of_operators=True), "cpu", check_only=False, scale=0.02))


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers")
def test_kernels_that_are_not_general_and_honest_ones_that_are_unusual() -> None:
    caught(run_samples(names("check", of_operators=True), "cpu", check_only=True, scale=0.02))


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers")
def test_a_solution_that_never_returns() -> None:
    caught(run_samples(SLEEPY, "cpu", check_only=True, scale=0.02, patience_s=1.5))
