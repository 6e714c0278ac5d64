from __future__ import annotations

from collections.abc import Callable

import pytest

from solscope.lab.dose import WINDOWS, Range, search

LIMITS = Range(first=(0.3, 0.8, 1.6), highest=10.0, integer=False)


def found(effect: Callable[[float], float], limits: Range = LIMITS) -> list[float]:
    tried: dict[float, float] = {}
    doses: list[float] = []
    for strength in range(3):
        above = doses[-1] if doses else 0.0
        doses.append(search(limits, strength, tried, effect, above))
    return doses


@pytest.mark.parametrize("slope", [0.2, 0.5, 1.0, 4.0])
def test_a_proportional_fault_reaches_the_wanted_slowdowns(slope: float) -> None:
    for dose, (low, high) in zip(found(lambda dose: 1 + slope * dose), WINDOWS, strict=True):
        assert low * 0.97 <= 1 + slope * dose <= high * 1.03


def test_a_fault_that_saturates() -> None:
    doses = found(lambda dose: 1 / (1 - min(dose, 0.95)), Range((0.1, 0.35, 0.6), 0.95, False))
    assert [1 / (1 - dose) for dose in doses] == pytest.approx([1.12, 1.43, 2.2], rel=0.15)


def test_whole_numbers_stay_whole() -> None:
    doses = found(lambda dose: 1 + dose / 8, Range((1.0, 4.0, 12.0), 12.0, True))
    assert all(dose == int(dose) for dose in doses)
    assert doses == sorted(set(doses))


def test_a_fault_that_is_hidden_still_has_three_strengths() -> None:
    doses = found(lambda _dose: 1.0, Range((2.0, 4.0, 8.0), 8.0, False))
    assert doses == sorted(set(doses))
    assert doses[-1] == 8.0


def test_noise_cannot_make_the_dose_vanish() -> None:
    assert min(found(lambda _dose: 3.0)) >= LIMITS.first[0] / 10


def test_a_dose_that_was_too_much_is_not_taken() -> None:
    def steep(dose: float) -> float:
        return 1.0 + 0.02 * dose if dose < 5 else 40.0

    assert max(found(steep)) < 10.0
