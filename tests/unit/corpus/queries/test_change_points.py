from __future__ import annotations

import numpy as np
import pytest

import solscope.corpus.queries.change_points as method
from solscope.corpus.queries.change_points import (
    LEVEL,
    ORDERS,
    SEED,
    SHORTEST,
    Change,
    Floats,
    change_points,
)


def plain(values: Floats) -> list[Change]:
    """The method one order after another, as its text says it."""
    draw = np.random.default_rng(SEED)
    found, stretches = [], [(0, values.size)]
    while stretches:
        start, end = stretches.pop()
        part = values[start:end]
        if part.size < 2 * SHORTEST:
            continue
        score, at = method._best(part)
        if not score > 0:
            continue
        as_good = 1
        for _ in range(ORDERS):
            as_good += method._best(part[draw.permutation(part.size)])[0] >= score
            if as_good > LEVEL * (ORDERS + 1):
                break
        else:
            found.append(Change(start + at, as_good / (ORDERS + 1)))
            stretches += [(start, start + at), (start + at, end)]
    return sorted(found)


def series(kind: str, count: int) -> Floats:
    noise = np.random.default_rng(count).normal(size=count)
    late = np.arange(count) >= count // 2
    return {
        "noise": noise,
        "one step": noise + 4 * late,
        "equal values": np.full(count, 3.0),
        "two values": 1.0 + late,
        "few values": np.round(noise),
        "large, in blocks": 1e9 + 1e6 * np.repeat(noise, 7)[:count],
    }[kind]


@pytest.mark.parametrize("count", [0, 5, 6, 9, 14, 33])
@pytest.mark.parametrize(
    "kind", ["noise", "one step", "equal values", "two values", "few values", "large, in blocks"]
)
def test_all_orders_at_once_find_what_one_after_another_finds(kind: str, count: int) -> None:
    values = series(kind, count)
    assert change_points(values) == plain(values)


@pytest.mark.parametrize("count", [6, 7, 20])
def test_the_best_energy_of_many_orders(count: int) -> None:
    orders = np.random.default_rng(1).normal(size=(count, 11))
    alone = [method._best(orders[:, column])[0] for column in range(11)]
    np.testing.assert_allclose(method._energies(orders), alone, rtol=1e-9, atol=1e-12)


def test_orders_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = series("one step", 33)
    whole = change_points(values)
    monkeypatch.setattr(method, "AT_ONCE", 64)
    assert change_points(values) == whole != []


def test_noise_seldom_has_changes() -> None:
    draw = np.random.default_rng(5)
    alarms = sum(bool(change_points(draw.normal(size=24))) for _ in range(50))
    assert alarms <= 4


def test_a_change_that_is_sure_has_its_place_and_a_small_p_value() -> None:
    (change,) = change_points(series("one step", 33))
    assert change.at == 16
    assert change.p_value <= 0.02
