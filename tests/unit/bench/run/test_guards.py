"""Every evil sample is caught as what it is, on the CPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.evil import expected, run_samples

ON_CPU = {name: one for name, one in expected().items() if one.get("device", "cpu") == "cpu"}
SLEEPY = ["never_returns"]


def names(stage: str) -> list[str]:
    found = [name for name, one in ON_CPU.items() if one.get("stage", "check") == stage]
    return [name for name in found if name not in SLEEPY]


def caught(found: dict[str, list[str]]) -> None:
    wrong = {
        name: (seen, ON_CPU[name]["status"])
        for name, seen in found.items()
        if not seen or not set(seen) <= set(ON_CPU[name]["status"])
    }
    assert not wrong


def test_every_sample_that_a_check_can_catch_and_an_honest_one_beside_them() -> None:
    found = run_samples([*names("check"), "honest"], "cpu", check_only=True, scale=0.02)
    assert found.pop("honest") == ["passed"]
    caught(found)


@pytest.mark.usefixtures("warm_workers")
def test_samples_that_only_timing_can_catch() -> None:
    caught(run_samples(names("time"), "cpu", check_only=False, scale=0.02))


@pytest.mark.usefixtures("warm_workers")
def test_a_solution_that_never_returns() -> None:
    caught(run_samples(SLEEPY, "cpu", check_only=True, scale=0.02, patience_s=1.5))
