"""Inputs of the suite: dense, as the layers of a server hand them over; arguments that vary."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.workloads import SMALL, beside, scaled, workloads  # noqa: E402
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


OF_SHAPES = {"q_heads", "kv_heads", "head_dim", "latent_dim", "chunk_size"}
"""Sizes of a model; another head_dim is to be seen beside a table of another width."""
OF_LENGTHS = {"max_seqlen_q", "max_seqlen_k", "max_seq_len"}
OF_THE_DEVICE = {"fp8"}


@pytest.mark.parametrize(("name", "axes"), LISTED)
def test_cases_of_every_run_vary_plain_arguments(name: str, axes: Axes) -> None:
    one = operator(name)
    cases = [(axes, Draw(seed=3))]
    for place, case in enumerate(beside(one, axes, 2e6)):
        if case.always:
            cases.append((case.axes, Draw(seed=place, variant=case.variant)))
    seen: dict[str, set[str]] = {}
    for sizes, draw in cases:
        for key, value in one.required_task.inputs(sizes, draw).items():
            if not torch.is_tensor(value):
                seen.setdefault(key, set()).add(str(value))
    constant = {key for key, values in seen.items() if len(values) == 1}
    assert constant <= OF_SHAPES | OF_LENGTHS | OF_THE_DEVICE


def test_a_table_of_angles_may_be_narrower_than_a_head() -> None:
    axes = {"tokens": 3, "q_heads": 2, "kv_heads": 1, "head_dim": 16, "rotary_dim": 16}
    task = operator("fused_qkv_rope").required_task
    found = task.inputs(axes, Draw(seed=1, variant="varied"))
    assert found["cos_sin_cache"].shape[1] == 8
    assert task.realized is not None
    assert task.realized(axes, found)["rotary_dim"] == 8
    assert task.inputs({**axes, "rotary_dim": 8}, Draw(1, variant="varied"))[
        "cos_sin_cache"
    ].shape == (32768, 16)


def test_varied_sections_turn_the_first_token_by_three_angles() -> None:
    axes = {"tokens": 1, "q_heads": 1, "kv_heads": 1, "head_dim": 128, "rotary_dim": 128}
    task = operator("mrope").required_task
    for seed in range(20):
        found = task.inputs(axes, Draw(seed, variant="varied"))
        first, second, third = found["mrope_section"]
        assert 1 <= first <= 8
        assert 1 <= second <= 8
        assert first + second + third == 64
        # The fastest frequency turns by one radian per position.
        assert len({float(angle) for angle in found["cos"][:, 0, 0]}) == 3
    assert task.inputs(axes, Draw(1))["mrope_section"] == [16, 24, 24]


def test_the_last_experts_of_another_model_get_no_token() -> None:
    task = operator("moe_count_and_sort").required_task
    axes = {"tokens": 500, "experts": 128, "top_k": 8}
    numbers = set()
    for seed in range(20):
        found = task.inputs(axes, Draw(seed, variant="varied"))
        numbers.add(found["num_experts"])
        assert int(found["topk_ids"].max()) < found["num_experts"] - 4
    assert numbers == {60, 64, 160, 256}
