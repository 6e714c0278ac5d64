"""References of routing, sampling and cache operators against plain Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from solscope.bench.verify import wrong_outputs
from solscope.operators.catalog.moe_align_block_size import capacity
from solscope.operators.task import Draw, Inputs, Outputs, Variant
from tests.references import task_of

VARIANTS: list[Variant] = ["typical", "extreme", "ties", "empty", "varied"]


def drawn(name: str, variant: Variant = "typical", **axes: Any) -> tuple[Inputs, Outputs]:
    task = task_of(name)
    inputs = task.inputs(axes, Draw(17, variant=variant))
    return inputs, task.reference(**inputs)


def reasons(name: str, got: Outputs, wanted: Outputs, inputs: Inputs) -> list[str]:
    return wrong_outputs(task_of(name), got, wanted, inputs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_topk_gating(variant: Variant) -> None:
    inputs, wanted = drawn("moe_topk_gating_softmax", variant, tokens=9, experts=32, top_k=4)
    for row, weights, ids in zip(
        inputs["gating_output"].double().tolist(),
        wanted["topk_weights"].tolist(),
        wanted["topk_ids"].tolist(),
        strict=True,
    ):
        order = sorted(range(32), key=lambda expert: (-row[expert], expert))[: inputs["top_k"]]
        assert ids == order
        top = torch.tensor(row, dtype=torch.float64)
        below = torch.logsumexp(top, 0)
        assert weights == pytest.approx([float((top[e] - below).exp()) for e in order], rel=1e-5)


def test_equal_experts_may_change_places_and_others_may_not() -> None:
    inputs, wanted = drawn("moe_topk_gating_softmax", "ties", tokens=6, experts=32, top_k=4)
    name = "moe_topk_gating_softmax"
    other = {**wanted, "topk_ids": wanted["topk_ids"].clone()}
    (equal,) = (inputs["gating_output"] == 1.5).all(-1).nonzero()[:, 0].tolist()
    other["topk_ids"][equal] = torch.tensor([31, 30, 29, 28])
    assert reasons(name, other, wanted, inputs) == []
    other["topk_ids"][equal] = torch.tensor([31, 31, 29, 28])
    assert "twice" in reasons(name, other, wanted, inputs)[0]
    other["topk_ids"][equal] = torch.tensor([32, 30, 29, 28])
    assert "0..31" in reasons(name, other, wanted, inputs)[0]
    swapped = {**wanted, "topk_ids": wanted["topk_ids"].flip(-1)}
    assert reasons(name, swapped, wanted, inputs)


@pytest.mark.parametrize("variant", ["typical", "empty"])
def test_align_block_size(variant: Variant) -> None:
    axes = {"tokens": 21, "top_k": 4, "block_size": 8, "experts": 12}
    inputs, wanted = drawn("moe_align_block_size", variant, **axes)
    flat = inputs["topk_ids"].reshape(-1).tolist()
    slots, blocks = [], []
    for expert in range(12):
        members = [slot for slot, chosen in enumerate(flat) if chosen == expert]
        count = -(-len(members) // 8)
        slots += members + [84] * (count * 8 - len(members))
        blocks += [expert] * count
    total = int(wanted["num_tokens_post_pad"])
    assert total == len(slots)
    assert wanted["sorted_token_ids"][:total].tolist() == slots
    assert wanted["expert_ids"][: total // 8].tolist() == blocks
    assert len(wanted["sorted_token_ids"]) == capacity(84, 12, 8) >= total
    realized = task_of("moe_align_block_size").realized
    assert realized is not None
    assert realized(axes, inputs)["padded_slots"] == total


def test_align_takes_any_order_inside_an_expert() -> None:
    name = "moe_align_block_size"
    inputs, wanted = drawn(name, tokens=40, top_k=4, block_size=16, experts=8)
    ids, total = wanted["sorted_token_ids"], int(wanted["num_tokens_post_pad"])
    shuffled = ids.clone()
    shuffled[:16] = ids[:16].flip(0)
    shuffled[total:] = -7  # free
    assert reasons(name, {**wanted, "sorted_token_ids": shuffled}, wanted, inputs) == []
    crossed = ids.clone()
    last = total - 16
    crossed[0], crossed[last] = ids[last], ids[0]
    assert reasons(name, {**wanted, "sorted_token_ids": crossed}, wanted, inputs)
    doubled = ids.clone()
    doubled[1] = ids[0]
    assert reasons(name, {**wanted, "sorted_token_ids": doubled}, wanted, inputs)


@pytest.mark.parametrize("variant", ["typical", "empty"])
def test_count_and_sort(variant: Variant) -> None:
    inputs, wanted = drawn("moe_count_and_sort", variant, tokens=30, experts=10, top_k=3)
    flat = inputs["topk_ids"].reshape(-1).tolist()
    order = sorted(range(90), key=lambda slot: (flat[slot], slot))
    counts = [flat.count(expert) for expert in range(10)]
    assert wanted["sorted_token_ids"].tolist() == order
    assert wanted["expert_token_counts"].tolist() == counts
    assert wanted["cumsum"].tolist() == [sum(counts[:end]) for end in range(11)]
    if variant == "empty":
        assert 0 in counts


def test_routes_are_distinct_and_skewed() -> None:
    inputs, wanted = drawn("moe_count_and_sort", tokens=2000, experts=64, top_k=8)
    ordered = inputs["topk_ids"].sort(-1).values
    assert not bool((ordered[:, 1:] == ordered[:, :-1]).any())
    counts = wanted["expert_token_counts"].double()
    assert float(counts.max() / counts.mean()) > 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_topk_filter(variant: Variant) -> None:
    inputs, wanted = drawn("topk_filter", variant, rows=4, vocabulary=600, top_k=7)
    for row, found in zip(inputs["logits"].tolist(), wanted["out"].tolist(), strict=True):
        threshold = sorted(row, reverse=True)[inputs["top_k"] - 1]
        assert found == [value if value >= threshold else float("-inf") for value in row]
    if variant == "ties":
        many, wide = drawn("topk_filter", "ties", rows=32, vocabulary=4000, top_k=50)
        kept = (wide["out"] > float("-inf")).sum(-1)
        assert int(kept.max()) > 50, "no tie at the threshold was drawn"
        assert many["top_k"] == 50


@pytest.mark.parametrize("variant", ["typical", "empty"])
def test_reshape_and_cache(variant: Variant) -> None:
    inputs, wanted = drawn(
        "reshape_and_cache", variant, tokens=100, kv_heads=2, head_dim=4, block_size=8
    )
    slots = inputs["slot_mapping"].tolist()
    for name in ("key", "value"):
        cache = inputs[f"{name}_cache"].clone()
        for token, slot in enumerate(slots):
            if slot >= 0:
                cache[slot // 8, slot % 8] = inputs[name][token]
        assert torch.equal(wanted[f"{name}_cache"], cache)
    used = [slot for slot in slots if slot >= 0]
    assert len(set(used)) == len(used), "a slot is given twice"
    assert -1 in slots
    assert used != sorted(used), "slots are in order"
    realized = task_of("reshape_and_cache").realized
    assert realized is not None
    assert realized({"tokens": 100}, inputs)["valid_tokens"] == len(used)


@pytest.mark.parametrize("top_k", [0, 65, 1000])
def test_a_k_that_selects_nothing_or_all_removes_nothing(top_k: int) -> None:
    logits = torch.randn(3, 64)
    out = task_of("topk_filter").reference(logits, top_k)["out"]
    assert torch.equal(out, logits)


def test_rows_of_negative_logits_and_another_k_are_drawn() -> None:
    inputs, _ = drawn("topk_filter", rows=8, vocabulary=64)
    assert (inputs["logits"].amax(-1) < 0).any()
    assert (inputs["logits"].amax(-1) > 0).any()
    assert inputs["top_k"] == 50
    assert drawn("topk_filter", "varied", rows=2, vocabulary=512)[0]["top_k"] != 50


def test_logits_of_routers_overflow_without_their_maximum() -> None:
    inputs, wanted = drawn("moe_topk_gating_softmax", tokens=64, experts=16, top_k=2)
    powers = inputs["gating_output"].exp()
    assert powers.isinf().any()
    assert (powers.sum(-1) < 1e-38).any()
    assert wanted["topk_weights"].isfinite().all()


@pytest.mark.parametrize("name", ["fused_moe", "fp8_blockscale_fused_moe"])
def test_experts_that_do_not_exist_count_for_nothing(name: str) -> None:
    axes: dict[str, Any] = {
        "tokens": 5,
        "hidden": 128,
        "intermediate": 128,
        "experts": 4,
        "top_k": 2,
    }
    inputs, wanted = drawn(name, **axes)
    ids, weights = inputs["topk_ids"].clone(), inputs["topk_weights"].clone()
    ids[1, 0], ids[2, 1] = -1, 4
    task = task_of(name)
    got = task.reference(**{**inputs, "topk_ids": ids})["out"]
    weights[1, 0] = weights[2, 1] = 0.0
    expected = task.reference(**{**inputs, "topk_weights": weights})["out"]
    assert torch.allclose(got, expected)
    assert not torch.equal(got, wanted["out"])
    assert task.realized is not None
    nobody = torch.full_like(ids, -1)
    assert task.realized(axes, {**inputs, "topk_ids": nobody})["active_experts"] == 0
