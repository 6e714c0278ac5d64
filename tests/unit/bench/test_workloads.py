"""Which shapes are run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.workloads import beside, choose, scaled, workloads  # noqa: E402
from solscope.errors import UsageError  # noqa: E402
from solscope.operators import operator  # noqa: E402


def test_weights_of_an_operator_and_importance_of_all_add_up_to_one() -> None:
    found = workloads()
    assert len(found) == 30
    assert sum(shapes[0].importance for shapes in found.values()) == pytest.approx(1)
    for shapes in found.values():
        assert sum(one.weight for one in shapes) == pytest.approx(1)


def test_shapes_are_chosen_by_id_or_by_weight() -> None:
    listed = workloads()["rms_norm"]
    assert [one.shape for one in choose(listed, "3,1")] == ["3", "1"]
    top = choose(listed, "top2")
    assert min(one.weight for one in top) >= sorted(one.weight for one in listed)[-2]
    with pytest.raises(UsageError, match="no shape"):
        choose(listed, "1,400")


def test_cases_beside_a_shape_are_small_and_vary_what_may_vary() -> None:
    op = operator("rms_norm")
    cases = list(beside(op, {"tokens": 4096, "hidden": 1024}, 1e6))
    assert {case.axes["hidden"] for case in cases} == {1024}
    assert {"extreme inputs", "inputs with equal values", "empty inputs"} <= {
        case.label for case in cases
    }
    tokens = {case.axes["tokens"] for case in cases if case.variant == "typical"}
    assert tokens == {1, 65, 127, 129}
    assert all(op.cost(case.axes).bytes <= 1.1e6 for case in cases)


def test_sequences_are_scaled_by_their_lengths() -> None:
    op = operator("unified_attention")
    axes = {**workloads()["unified_attention"][0].axes, "sequences": [[256, 256, 130]]}
    assert scaled(op, axes, 0.25)["sequences"] == [[64, 64, 4]]
