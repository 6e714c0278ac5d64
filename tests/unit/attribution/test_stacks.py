from __future__ import annotations

import polars as pl
import pytest

from solscope.attribution.link import link
from solscope.attribution.stacks import Stacks
from tests.making import event, profile

LAUNCHES = (
    event("python", "Model", 0, 100),
    event("python", "Layer", 10, 50),
    event("python", "nameless", 15, 30),
    event("python", "Layer", 0, 100, tid=2),
    event("runtime", "cudaLaunchKernel", 20, 5, correlation=1),
    event("runtime", "cudaLaunchKernel", 70, 5, correlation=2),
    event("runtime", "cudaLaunchKernel", 20, 5, correlation=3, tid=3),
    event("kernel", "a", 200, 5, correlation=1),
    event("kernel", "b", 210, 5, correlation=2),
    event("kernel", "on a thread without frames", 220, 5, correlation=3),
    event("kernel", "without a launch", 230, 5),
    event("kernel", "of the same launch", 240, 5, correlation=1),
)


@pytest.fixture
def stacks() -> Stacks:
    events = profile(*LAUNCHES).events.with_columns(
        pl.when(pl.col("name") != "nameless").then("name").alias("name")
    )
    return Stacks(events, link(events))


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (None, [2, 0, None, None, 2]),
        ({"Layer"}, [1, None, None, None, 1]),
        ({"Model"}, [0, 0, None, None, 0]),
        ({"Model", "Layer"}, [1, 0, None, None, 1]),
        ({"neither"}, [None] * 5),
        (set(), [None] * 5),
    ],
)
def test_the_innermost_of_these_names_counts(
    stacks: Stacks, names: set[str] | None, rows: list[int | None]
) -> None:
    assert stacks.rows("python", names).to_list() == rows


def test_questions_do_not_disturb_one_another(stacks: Stacks) -> None:
    first = stacks.rows("python", {"Layer"})
    assert stacks.rows("python").to_list() == [2, 0, None, None, 2]
    assert stacks.rows("annotation").to_list() == [None] * 5
    assert stacks.rows("python", {"Layer"}).to_list() == first.to_list()


def test_names_are_those_of_the_rows(stacks: Stacks) -> None:
    found = stacks.names("python", {"Layer"}).cast(pl.String)
    assert found.to_list() == ["Layer", None, None, None, "Layer"]
    assert stacks.names("python", set()).to_list() == [None] * 5


def test_a_profile_without_launches_has_nothing_around_them() -> None:
    events = profile(event("python", "Model", 0, 100), event("kernel", "a", 10, 5)).events
    assert Stacks(events, link(events)).rows("python").to_list() == [None]
