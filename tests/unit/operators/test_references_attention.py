"""Attention references against token-by-token and blocked forms; what must not pass does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from solscope.bench.verify import eager_solution
from solscope.operators.task import Draw, Inputs, Outputs, Variant
from solscope.operators.tasks.draws import query_scale
from solscope.operators.tasks.paging import STALE, STALE_KEY, pages, shuffled_lengths, similar
from tests.references import distance, drawn, in_fp8, task_of, wrong
from tests.sampling import some

MIXED = {
    "sequences": [[1, 75, 2], [37, 37, 1], [20, 90, 1], [1, 1, 1], [16, 16, 1]],
    "q_heads": 6,
    "kv_heads": 2,
    "head_dim": 32,
    "block_size": 16,
}
"""Decode, prefill and prefill behind a cached prefix in one batch."""
PACKED = {"sequences": [[33, 33, 2], [20, 45, 1], [1, 1, 1]], "heads": 3, "head_dim": 24}
DECODE = {
    "contexts": [[75, 2], [1, 1], [16, 1], [17, 1], [200, 1]],
    "q_heads": 6,
    "kv_heads": 2,
    "head_dim": 32,
    "block_size": 16,
}
LATENT = {
    "contexts": [[75, 2], [1, 1], [64, 1], [130, 1]],
    "q_heads": 4,
    "latent_dim": 48,
    "rope_dim": 16,
    "block_size": 32,
}
AXES: dict[str, dict[str, Any]] = {
    "unified_attention": MIXED,
    "attention_forward": PACKED,
    "paged_attention_decode": DECODE,
    "mla_decode_attention": LATENT,
}
every_operator = pytest.mark.parametrize("name", AXES)
VARIANTS = ["typical", "extreme", "ties", "empty", "varied"]
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def softmax_by_hand(scores: list[float]) -> list[float]:
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def one_row(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    """One query [D] over keys [s, D] and values [s, Dv]."""
    scores = [scale * float(query.double() @ key.double()) for key in keys]
    weights = torch.tensor(softmax_by_hand(scores), dtype=torch.float64)
    return weights @ values.double()


def online(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, block: int = 13
) -> torch.Tensor:
    """The same, block by block with a running maximum, as flash attention does."""
    largest, total = -math.inf, 0.0
    sums = torch.zeros(values.shape[-1], dtype=torch.float64)
    for start in range(0, len(keys), block):
        scores = scale * (keys[start : start + block].double() @ query.double())
        higher = max(largest, float(scores.max()))
        weights = (scores - higher).exp()
        shrink = math.exp(largest - higher)
        total = total * shrink + float(weights.sum())
        sums = sums * shrink + weights @ values[start : start + block].double()
        largest = higher
    return sums / total


Row = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


def unified_by_rows(inputs: Inputs, row: Row, more: int = 0) -> torch.Tensor:
    """Query by query; `more` shows so many keys more than the mask allows, but always one."""
    q, size = inputs["q"], inputs["k_cache"].shape[1]
    share = q.shape[1] // inputs["k_cache"].shape[2]
    out = torch.zeros(q.shape, dtype=torch.float64)
    starts, lengths = inputs["cu_seqlens_q"].tolist(), inputs["seqused_k"].tolist()
    for index, length in enumerate(lengths):
        first, end = starts[index], starts[index + 1]
        places = [(int(inputs["block_table"][index, j // size]), j % size) for j in range(length)]
        for token in range(first, end):
            seen = places[: max(1, length - (end - token) + 1 + more)]
            for head in range(q.shape[1]):
                keys, values = (
                    torch.stack([inputs[cache][b, slot, head // share] for b, slot in seen])
                    for cache in ("k_cache", "v_cache")
                )
                out[token, head] = row(q[token, head], keys, values, inputs["softmax_scale"])
    return out


def packed_by_rows(inputs: Inputs, row: Row, more: int = 0) -> torch.Tensor:
    """Query by query; `more` moves the end of each sequence's keys."""
    out = torch.zeros(inputs["q"].shape, dtype=torch.float64)
    starts_q, starts_k = inputs["cu_seqlens_q"].tolist(), inputs["cu_seqlens_k"].tolist()
    for index in range(len(starts_q) - 1):
        keys = slice(starts_k[index], starts_k[index + 1] + more)
        for token in range(starts_q[index], starts_q[index + 1]):
            for head in range(out.shape[1]):
                query, scale = inputs["q"][token, head], inputs["softmax_scale"]
                k, v = inputs["k"][keys, head], inputs["v"][keys, head]
                out[token, head] = row(query, k, v, scale)
    return out


def decode_by_rows(inputs: Inputs, row: Row) -> torch.Tensor:
    """Sequence by sequence, element (token j, head h, dim d) of K at [b, h, d//8, j, d%8]."""
    query, k_cache, v_cache = (inputs[name] for name in ("query", "k_cache", "v_cache"))
    heads, dim, size = v_cache.shape[1:]
    share = query.shape[1] // heads
    out = torch.zeros(query.shape, dtype=torch.float64)
    for index, length in enumerate(inputs["seq_lens"].tolist()):
        keys = torch.zeros(length, heads, dim, dtype=query.dtype)
        values = torch.zeros_like(keys)
        for j in range(length):
            block, slot = int(inputs["block_tables"][index, j // size]), j % size
            for d in range(dim):
                keys[j, :, d] = k_cache[block, :, d // 8, slot, d % 8]
            values[j] = v_cache[block, :, :, slot]
        for head in range(query.shape[1] if length else 0):
            picked = keys[:, head // share], values[:, head // share]
            out[index, head] = row(query[index, head], *picked, inputs["softmax_scale"])
    return out


def latent_by_rows(inputs: Inputs, row: Row) -> torch.Tensor:
    q, cache, latent = inputs["q"], inputs["kv_cache"], inputs["latent_dim"]
    size = cache.shape[1]
    out = torch.zeros(*q.shape[:2], latent, dtype=torch.float64)
    for index, length in enumerate(inputs["seq_lens"].tolist()):
        table = inputs["block_table"][index]
        if not length:
            continue
        rows = torch.stack([cache[int(table[j // size]), j % size, 0] for j in range(length)])
        for head in range(q.shape[1]):
            scale = inputs["softmax_scale"]
            out[index, head] = row(q[index, head], rows, rows[:, :latent], scale)
    return out


BY_ROWS: dict[str, Callable[[Inputs, Row], torch.Tensor]] = {
    "unified_attention": unified_by_rows,
    "attention_forward": packed_by_rows,
    "paged_attention_decode": decode_by_rows,
    "mla_decode_attention": latent_by_rows,
}


@every_operator
def test_token_by_token(name: str) -> None:
    inputs, wanted = drawn(name, AXES[name])
    assert distance(BY_ROWS[name](inputs, one_row), wanted["out"]) < 1e-6


@every_operator
@pytest.mark.parametrize("variant", some(reversed(VARIANTS), 4))
def test_block_by_block_with_a_running_maximum(name: str, variant: Variant) -> None:
    inputs, wanted = drawn(name, AXES[name], variant, seed=12)
    assert distance(BY_ROWS[name](inputs, online), wanted["out"]) < 1e-6


@every_operator
@every_variant
def test_mixed_lengths_pass_in_eager_torch(name: str, variant: Variant) -> None:
    inputs, wanted = drawn(name, AXES[name], variant, seed=13)
    assert wrong(name, eager_solution(name), inputs, wanted) == []


@every_operator
def test_rows_alone_are_rows_of_the_whole(name: str) -> None:
    inputs, wanted = drawn(name, AXES[name], "empty", seed=14)
    sampled = task_of(name).sampled
    assert sampled is not None
    rows = torch.randperm(len(wanted["out"]), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(sampled(inputs, rows)["out"], wanted["out"][rows], atol=1e-6)


def flash(inputs: Inputs, weights_in: torch.dtype) -> Outputs:
    """Weights of attention_forward rounded before they meet the values, sums in fp32."""
    q, k, v = (inputs[name].float() for name in ("q", "k", "v"))
    scores = torch.einsum("rhd,shd->hrs", q, k) * inputs["softmax_scale"]
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    sums = torch.einsum("hrs,shd->rhd", weights.to(weights_in).float(), v)
    return {"out": (sums / weights.sum(-1).T[..., None]).bfloat16()}


@pytest.mark.parametrize("length", [64, 700])
def test_tolerance_has_room_for_weights_in_bf16_and_none_for_fp8(length: int) -> None:
    axes = {"sequences": [[length, length, 1]], "heads": 4, "head_dim": 72}
    inputs, wanted = drawn("attention_forward", axes)

    def run(weights_in: torch.dtype) -> Callable[..., Any]:
        return lambda **given: flash(given, weights_in)

    assert wrong("attention_forward", run(torch.bfloat16), inputs, wanted) == []
    assert wrong("attention_forward", run(torch.float8_e4m3fn), inputs, wanted)


LONG: dict[str, dict[str, Any]] = {
    "unified_attention": {**MIXED, "sequences": [[120, 120, 1], [1, 2000, 1]]},
    "attention_forward": {**PACKED, "sequences": [[400, 400, 2]]},
    "paged_attention_decode": {**DECODE, "contexts": [[2000, 8]], "dtype": "fp16"},
    "mla_decode_attention": {**LATENT, "contexts": [[1000, 8]]},
}


@every_operator
def test_lower_precision_does_not_pass(name: str) -> None:
    inputs, wanted = drawn(name, LONG[name])
    run = eager_solution(name)
    caches = {"q", "query", "k", "v", "k_cache", "v_cache", "kv_cache"}

    def coarse(**given: Any) -> Any:
        tensors = {}
        for key, value in given.items():
            if key in caches:
                stale = (value == STALE) | (value == STALE_KEY)
                used = torch.where(stale, 0.0, value)
                value = torch.where(stale, value, in_fp8(used))
            tensors[key] = value
        return run(**tensors)

    assert wrong(name, run, inputs, wanted) == []
    assert wrong(name, coarse, inputs, wanted)


@every_operator
def test_the_mean_of_all_values_does_not_pass(name: str) -> None:
    inputs, wanted = drawn(name, LONG[name])
    run = eager_solution(name)
    query = "query" if "query" in inputs else "q"
    reasons = wrong(name, lambda **g: run(**{**g, query: g[query] * 0}), inputs, wanted)
    assert reasons
    flat = run(**{**inputs, query: inputs[query] * 0}).float()
    near = (flat - wanted["out"]).abs() < 0.05 * wanted["out"].abs() + 0.01
    assert float(near.float().mean()) < 0.1, "most of the weight is on few keys"


@pytest.mark.parametrize("name", ["paged_attention_decode", "mla_decode_attention"])
def test_a_context_cut_by_one_key_does_not_pass(name: str) -> None:
    inputs, wanted = drawn(name, LONG[name])
    run = eager_solution(name)
    cut = inputs["seq_lens"] - 1
    assert wrong(name, lambda **given: run(**{**given, "seq_lens": cut}), inputs, wanted)


@pytest.mark.parametrize("more", some([1, -1], 2))
def test_a_mask_off_by_one_does_not_pass(more: int) -> None:
    inputs, wanted = drawn("unified_attention", {**MIXED, "sequences": [[90, 90, 1]]})
    shifted = unified_by_rows(inputs, online, more).bfloat16()
    assert wrong("unified_attention", lambda **given: shifted, inputs, wanted)


@pytest.mark.parametrize("more", some([-1, 1], 2))
def test_a_border_off_by_one_does_not_pass(more: int) -> None:
    inputs, wanted = drawn("attention_forward", {**PACKED, "sequences": [[64, 64, 3]]})
    shifted = packed_by_rows(inputs, online, more).bfloat16()
    assert wrong("attention_forward", lambda **given: shifted, inputs, wanted)


def test_the_published_scale_of_latent_attention_does_not_pass() -> None:
    inputs, wanted = drawn("mla_decode_attention", LATENT)
    assert inputs["softmax_scale"] == pytest.approx(192**-0.5)
    run = eager_solution("mla_decode_attention")
    other = (LATENT["latent_dim"] + LATENT["rope_dim"]) ** -0.5  # type: ignore[operator]
    changed = {**inputs, "softmax_scale": other}
    assert wrong("mla_decode_attention", lambda **g: run(**changed), inputs, wanted)


@pytest.mark.parametrize("name", ["unified_attention", "paged_attention_decode"])
def test_a_table_read_in_order_does_not_pass(name: str) -> None:
    inputs, wanted = drawn(name, AXES[name])
    run, key = eager_solution(name), next(key for key in inputs if key.startswith("block_table"))
    straight = torch.arange(inputs[key].numel(), dtype=torch.int32).view(inputs[key].shape)
    straight %= len(inputs["k_cache"])
    assert wrong(name, lambda **g: run(**{**g, key: straight}), inputs, wanted)


# --- Pages


def test_pages_are_scattered_and_own_their_blocks() -> None:
    generator = torch.Generator().manual_seed(3)
    groups = [(70, 3), (1, 1), (16, 2), (0, 1)]
    (lengths,) = shuffled_lengths(generator, groups)
    assert sorted(lengths.tolist()) == [0, 1, 16, 16, 70, 70, 70]
    paged = pages(generator, lengths, groups, 16)
    assert paged.table.dtype == torch.int32
    taken = []
    for index, length in enumerate(lengths.tolist()):
        mine = paged.table[index, : -(-length // 16)].tolist()
        taken += mine
        assert sum(int(paged.used[block]) for block in mine) == length
    assert len(set(taken)) == len(taken) == int((paged.used > 0).sum())
    assert taken != sorted(taken)
    assert len(paged.used) > len(taken), "no spare block"
    assert int((~paged.unused()).sum()) == int(lengths.sum())


def test_slots_without_a_token_hold_stale_data() -> None:
    inputs, _ = drawn("unified_attention", MIXED)
    stale = (inputs["k_cache"] == STALE_KEY).all(-1).all(-1)
    tokens = sum(keys * count for _, keys, count in MIXED["sequences"])  # type: ignore[attr-defined]
    assert int((~stale).sum()) == tokens
    assert torch.equal((inputs["v_cache"] == STALE).all(-1).all(-1), stale)


PAGED = ["unified_attention", "paged_attention_decode", "mla_decode_attention"]


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("variant", ["typical", "varied", "extreme"])
def test_stale_keys_outweigh_true_ones_but_not_a_finite_mask(name: str, variant: Variant) -> None:
    """At the widest heads of the suites: torch masks with -65,504 for cuDNN."""
    many = {"q_heads": 64, "kv_heads": 1, "head_dim": 256, "block_size": 16}
    axes: dict[str, dict[str, Any]] = {
        "unified_attention": {**many, "sequences": [[1, 20, 40]]},
        "paged_attention_decode": {**many, "contexts": [[20, 40]]},
        "mla_decode_attention": {
            "contexts": [[20, 40]],
            "q_heads": 64,
            "latent_dim": 512,
            "rope_dim": 64,
        },
    }
    inputs = task_of(name).inputs(axes[name], Draw(3, variant=variant))
    query = inputs["query" if "query" in inputs else "q"]
    raw = STALE_KEY * query.double().sum(-1)
    assert float(raw.abs().max()) < 50_000 / 2
    # The logit with which one key weighs as much as a thousand others of these draws.
    outweighs = raw * inputs["softmax_scale"] > math.log(1000) + 2
    assert 0.2 < float(outweighs.double().mean()) < 0.6


@pytest.mark.parametrize("name", PAGED)
def test_reading_behind_the_last_key_shows(name: str) -> None:
    decoded: dict[str, dict[str, Any]] = {
        "unified_attention": {**MIXED, "sequences": [[1, 75, 2], [1, 201, 1]]},
        "paged_attention_decode": {**DECODE, "contexts": [[75, 2], [201, 1]]},
        "mla_decode_attention": {**LATENT, "contexts": [[75, 2], [201, 1]]},
    }
    inputs, wanted = drawn(name, decoded[name])
    run = eager_solution(name)
    lengths = "seqused_k" if "seqused_k" in inputs else "seq_lens"
    longest = "max_seqlen_k" if "max_seqlen_k" in inputs else "max_seq_len"

    def one_more(**given: Any) -> Any:
        return run(**{**given, lengths: given[lengths] + 1, longest: given[longest] + 1})

    assert wrong(name, run, inputs, wanted) == []
    assert wrong(name, one_more, inputs, wanted)


def test_similar_sequences_are_padded_together() -> None:
    lengths = torch.tensor([5, 300_000, 7, 0, 200_000], dtype=torch.int32)
    found = [(members.tolist(), longest) for members, longest in similar(lengths)]
    assert found == [([3, 0, 2], 7), ([4], 200_000), ([1], 300_000)]


def test_a_varied_scale_is_never_near_the_usual_one() -> None:
    factors = [
        query_scale(torch.Generator().manual_seed(seed), "varied", 1.0) for seed in range(200)
    ]
    assert all(1.3 <= max(factor, 1 / factor) <= 2.0 for factor in factors)
    assert {factor > 1 for factor in factors} == {True, False}
    assert query_scale(torch.Generator(), "typical", 0.125) == 0.125
