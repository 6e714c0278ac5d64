"""Inputs of the suite: dense, as the layers of a server hand them over."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.workloads import SMALL, scaled, workloads  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.base import Axes  # noqa: E402
from solscope.operators.task import Draw  # noqa: E402

HEADS = {"v_heads": 4, "q_heads": 2, "k_heads": 2, "key_dim": 16, "value_dim": 16}
CHUNKS = [
    pytest.param(name, {"sequences": 1, "tokens": tokens, "chunk_size": 64, **HEADS}, id=label)
    for name in ("chunk_delta_rule_output", "chunk_gated_delta_rule_state")
    for tokens, label in ((40, f"{name}-part"), (64, f"{name}-one"), (65, f"{name}-two"))
]


def smallest(name: str) -> Axes:
    one = operator(name)
    shapes = [scaled(one, shape.axes, SMALL) for shape in workloads("atrex")[name]]
    return min(shapes, key=lambda axes: one.cost(axes).bytes)


LISTED = [pytest.param(name, smallest(name), id=name) for name in workloads("atrex")]


@pytest.mark.parametrize(("name", "axes"), [*LISTED, *CHUNKS])
def test_inputs_are_dense(name: str, axes: Axes) -> None:
    task = operator(name).task
    assert task is not None
    found = task.inputs(axes, Draw(seed=3))
    strided = {
        key: (tuple(value.shape), value.stride())
        for key, value in found.items()
        if torch.is_tensor(value) and not value.is_contiguous()
    }
    assert not strided


@pytest.mark.parametrize(("name", "axes"), LISTED)
def test_sizes_do_not_depend_on_the_seed(name: str, axes: Axes) -> None:
    task = operator(name).task
    assert task is not None
    first, second = (
        {
            key: value.shape if torch.is_tensor(value) else None
            for key, value in task.inputs(axes, Draw(seed=seed)).items()
        }
        for seed in (3, 4)
    )
    assert first == second
