"""Which shapes are run."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.run.correctness import extra_cases  # noqa: E402
from solscope.bench.run.reference import CPU_EFFORT, Effort  # noqa: E402
from solscope.bench.workloads import (  # noqa: E402
    Case,
    Workload,
    beside,
    choose,
    larger,
    scaled,
    workloads,
)
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


def test_values_of_all_kinds_get_rows_enough_to_show_them() -> None:
    op = operator("rms_norm")
    cases = list(beside(op, {"tokens": 2, "hidden": 1024}, 1e6))
    extreme = next(case for case in cases if case.variant == "extreme")
    assert (extreme.axes["tokens"], extreme.always) == (64, True)
    few = next(case for case in beside(op, {"tokens": 2, "hidden": 1024}, 2e4) if case.always)
    assert few.axes["tokens"] == 2
    (affordable,) = {
        case.axes["tokens"]
        for case in beside(op, {"tokens": 2, "hidden": 1024}, 2e4)
        if case.variant == "extreme"
    }
    assert affordable == 16


def drawn(name: str, listed: list[dict[str, Any]], seed: int, most_bytes: float) -> list[Case]:
    return list(larger(operator(name), listed, most_bytes, 1e9, random.Random(seed)))


def test_sizes_beside_larger_shapes_are_those_that_no_list_has() -> None:
    listed = [{"tokens": tokens, "hidden": 64} for tokens in (8, 512, 4096)]
    found = [case for seed in range(40) for case in drawn("rms_norm", listed, seed, 1e9)]
    tokens = {case.axes["tokens"] for case in found}
    assert not any(one % 8 == 0 for one in tokens)
    assert {7, 9, 511, 513, 4095, 4097} <= tokens
    assert len(tokens) > 10
    for seed in range(10):
        first = drawn("rms_norm", listed, seed, 1e9)[0]
        assert first.axes["tokens"] >= 3072, "one of them lies beside the most rows"
        assert first.always


def test_larger_shapes_are_made_smaller_until_they_are_affordable() -> None:
    listed = [{"tokens": 4096, "hidden": 64}]
    most = operator("rms_norm").cost({"tokens": 1024, "hidden": 64}).bytes
    for seed in range(20):
        for case in drawn("rms_norm", listed, seed, most):
            assert 768 <= case.axes["tokens"] <= 1025


def test_of_many_sequences_there_are_fewer_before_they_get_shorter() -> None:
    heads = {"q_heads": 2, "kv_heads": 1, "head_dim": 64, "block_size": 16}
    op, listed = "unified_attention", [{"sequences": [[64, 64, 32]], **heads}]
    quarter = operator(op).cost({"sequences": [[64, 64, 8]], **heads}).bytes
    for seed in range(20):
        for case in drawn(op, listed, seed, quarter):
            ((queries, keys, count),) = case.axes["sequences"]
            assert (queries, queries) in ((63, keys), (65, keys))
            assert 6 <= count <= 9
            assert count % 8


@pytest.mark.parametrize("effort", [CPU_EFFORT, Effort()])
@pytest.mark.parametrize("name", sorted(workloads()))
def test_every_operator_is_checked_at_a_size_beside_its_larger_shapes(
    name: str, effort: Effort
) -> None:
    op, limit = operator(name), 256e6 if effort is CPU_EFFORT else 20e9
    shapes = [one for one in workloads()[name] if op.cost(one.axes).bytes <= limit]
    rows = {axis: one.axes[axis] for one in shapes for axis in op.required_task.vary}
    found = [case for case in extra_cases(op, shapes, effort) if _is_size(case)]
    assert found or all(one == 1 for one in rows.values())
    for case in found:
        cost = op.cost(case.axes)
        assert cost.bytes <= max(1.3 * effort.large_bytes, limit)
        assert cost.flop <= 1.3 * effort.large_flop


def _is_size(case: Case) -> bool:
    return case.always and case.variant == "typical"


def test_a_run_of_one_shape_has_sizes_beside_that_shape() -> None:
    shape = Workload("rms_norm", "0", {"tokens": 20000, "hidden": 64}, 1.0, None, 1.0, "x")
    cases = extra_cases(operator("rms_norm"), [shape], CPU_EFFORT)
    assert all(case.axes["tokens"] >= 15000 for case in cases if _is_size(case))
    assert any(map(_is_size, cases))


def test_sequences_are_scaled_by_their_lengths() -> None:
    op = operator("unified_attention")
    axes = {**workloads()["unified_attention"][0].axes, "sequences": [[256, 256, 130]]}
    assert scaled(op, axes, 0.25)["sequences"] == [[64, 64, 4]]
