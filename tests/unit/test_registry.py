from __future__ import annotations

import pytest

from solscope.errors import UsageError
from solscope.registry import Registry


@pytest.fixture
def shapes() -> Registry[int]:
    registry: Registry[int] = Registry("shape")
    registry.register("triangle", 3)
    registry.register("square", 4)
    return registry


def test_items_by_name_in_order_of_registration(shapes: Registry[int]) -> None:
    assert shapes.get("square") == 4
    assert shapes.names() == ("triangle", "square")
    assert list(shapes) == [3, 4]


def test_register_returns_the_item(shapes: Registry[int]) -> None:
    assert shapes.register("pentagon", 5) == 5


def test_a_name_can_be_taken_only_once(shapes: Registry[int]) -> None:
    with pytest.raises(UsageError, match=r"^shape 'square' is registered twice$"):
        shapes.register("square", 5)
    assert shapes.get("square") == 4


def test_the_nearest_name_is_offered(shapes: Registry[int]) -> None:
    with pytest.raises(UsageError) as caught:
        shapes.get("sqaure")
    expected = "no shape 'sqaure'; did you mean 'square'? (available: triangle, square)"
    assert str(caught.value) == expected


def test_no_name_is_near(shapes: Registry[int]) -> None:
    with pytest.raises(UsageError) as caught:
        shapes.get("xyz")
    assert str(caught.value) == "no shape 'xyz' (available: triangle, square)"
