"""GEMM and MoE references against other algebra, and what must not pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from solscope.bench.verify import eager_solution
from solscope.errors import UsageError
from solscope.operators.task import Draw, Inputs, Variant
from solscope.operators.tasks.experts import draw_routing
from solscope.operators.tasks.fp8 import decode_blocks
from tests.references import distance, drawn, in_fp8, task_of, wrong
from tests.sampling import some

every_variant = pytest.mark.parametrize("variant", ["typical", "extreme", "ties", "empty"])
BLOCKED = {"m": 50, "n": 300, "k": 600, "out_bytes": 4}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


# --- GEMM


def block_by_block(inputs: Inputs, last: int | None = None) -> torch.Tensor:
    """Products of codes, block by block of k, each scaled and added in fp64."""
    a, b = inputs["a"].double(), inputs["b"].double()
    out = torch.zeros(len(a), len(b), dtype=torch.float64)
    for block in range(inputs["a_scales"].shape[1])[:last]:
        part = slice(128 * block, 128 * block + 128)
        rows = inputs["a_scales"][:, block, None].double()
        columns = inputs["b_scales"][:, block].double().repeat_interleave(128)[: len(b)]
        out += rows * columns * (a[:, part] @ b[:, part].T)
    return out


@every_variant
def test_block_scaled_product_block_by_block(variant: Variant) -> None:
    inputs, wanted = drawn("block_scaled_mm", BLOCKED, variant)
    assert distance(block_by_block(inputs), wanted["out"]) < 1e-6


def test_block_scales_matter() -> None:
    inputs, wanted = drawn("block_scaled_mm", BLOCKED)
    assert float(inputs["b_scales"].max() / inputs["b_scales"].min()) > 5
    assert float(inputs["a_scales"].max() / inputs["a_scales"].min()) > 5
    run = eager_solution("block_scaled_mm")
    assert wrong("block_scaled_mm", run, inputs, wanted) == []
    means = {name: inputs[name].mean().expand_as(inputs[name]) for name in ("a_scales", "b_scales")}
    others: list[dict[str, Any]] = [
        {"a_scales": means["a_scales"]},
        {"b_scales": means["b_scales"]},
        {"a_scales": inputs["a_scales"].roll(1, 1)},
        {"b_scales": inputs["b_scales"].roll(1, 0)},
        {"a": inputs["a"].float().to(torch.float8_e5m2)},
    ]
    for other in others:
        changed = {**inputs, **other}
        assert wrong("block_scaled_mm", lambda changed=changed, **g: run(**changed), inputs, wanted)
    short = block_by_block(inputs, last=-1).float()
    assert wrong("block_scaled_mm", lambda **given: short, inputs, wanted)


@pytest.mark.parametrize("fp8", ["e4m3fn", "e4m3fnuz"])
@pytest.mark.parametrize("name", ["block_scaled_mm", "fp8_blockscale_fused_moe", "dense_gemm"])
def test_both_encodings(name: str, fp8: Any) -> None:
    axes = {**BLOCKED, **EXPERTS, "dtype": "fp8"}
    task = task_of(name)
    inputs = task.inputs(axes, Draw(5, fp8=fp8))
    codes = inputs["hidden_states" if "hidden_states" in inputs else "a"]
    assert codes.dtype == getattr(torch, f"float8_{fp8}")
    assert not bool(codes.float().isnan().any())
    assert wrong(name, eager_solution(name), inputs, task.reference(**inputs)) == []


DENSE: dict[str, dict[str, Any]] = {
    "bf16": {},
    "bias": {"bias": 1},
    "wide result": {"out_dtype": "fp32"},
    "fp16": {"dtype": "fp16"},
    "fp8": {"dtype": "fp8"},
    "fp8 by row": {"dtype": "fp8", "scaling": "row", "bias": 1},
    "fp8, wide result": {"dtype": "fp8", "out_dtype": "fp32"},
}


@pytest.mark.parametrize("kind", DENSE)
@every_variant
def test_dense_product_column_by_column(kind: str, variant: Variant) -> None:
    """As a sum of outer products of dequantized columns."""
    inputs, wanted = drawn("dense_gemm", {"m": 20, "n": 30, "k": 48, **DENSE[kind]}, variant)
    a, b = inputs["a"].double(), inputs["b"].double()
    if inputs["a_scale"] is not None:
        a, b = a * inputs["a_scale"].double(), b * inputs["b_scale"].double().view(-1, 1)
    out = torch.zeros(20, 30, dtype=torch.float64)
    for column in range(48):
        out += torch.outer(a[:, column], b[:, column])
    if inputs["bias"] is not None:
        out += inputs["bias"].double()
    assert distance(out, wanted["out"]) < 1e-6
    assert wrong("dense_gemm", eager_solution("dense_gemm"), inputs, wanted) == []


@pytest.mark.parametrize("kind", DENSE)
def test_dense_results_have_the_asked_dtype(kind: str) -> None:
    axes = {"m": 20, "n": 32, "k": 48, **DENSE[kind]}
    inputs, _ = drawn("dense_gemm", axes)
    task = task_of("dense_gemm")
    asked = task.outputs["out"].torch_dtype(inputs)
    assert eager_solution("dense_gemm")(**inputs).dtype == asked
    assert task.realized is not None
    names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
    assert names[task.realized(axes, inputs)["out_dtype"]] == inputs["out_dtype"]


def test_wrong_dense_products_do_not_pass() -> None:
    inputs, wanted = drawn("dense_gemm", {"m": 40, "n": 128, "k": 512, "bias": 1})
    run = eager_solution("dense_gemm")
    half = inputs["a"].clone()
    half[:, -16:] = 0
    others: list[dict[str, Any]] = [
        {"bias": None},
        {"a": in_fp8(inputs["a"])},
        {"b": in_fp8(inputs["b"])},
        {"a": half},
        {"a": inputs["a"].roll(1, 0)},
    ]
    for other in others:
        changed = {**inputs, **other}
        assert wrong("dense_gemm", lambda changed=changed, **g: run(**changed), inputs, wanted)


@pytest.mark.parametrize("more", [{"dtype": "fp32"}, {"weight_bits": 4}])
def test_dense_products_that_cannot_be_drawn_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="bf16, fp16 and fp8"):
        task_of("dense_gemm").inputs({"m": 2, "n": 16, "k": 16, **more}, Draw(1))


# --- Experts

EXPERTS = {
    "tokens": 40,
    "hidden": 256,
    "intermediate": 256,
    "experts": 10,
    "top_k": 3,
    "active_experts": 8,
    "out_bytes": 4,
}


def weights_in_fp64(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, w1 and w2 as numbers."""
    if "a_scale" not in inputs:
        x, first, second = (inputs[name].double() for name in ("hidden_states", "w1", "w2"))
        return x, first, second
    pairs = (("hidden_states", "a_scale", 1), ("w1", "fc1_scale", 128), ("w2", "fc2_scale", 128))
    x, first, second = (
        decode_blocks(inputs[codes], inputs[scale], (rows, 128), torch.float64)
        for codes, scale, rows in pairs
    )
    return x, first, second


def every_expert_of_every_token(
    inputs: Inputs, between: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> torch.Tensor:
    """All experts for all tokens, then mixed with a matrix that is zero but for the routes."""
    x, first, second = weights_in_fp64(inputs)
    mix = torch.zeros(len(x), len(first), dtype=torch.float64)
    mix.scatter_(1, inputs["topk_ids"].long(), inputs["topk_weights"].double())
    both = torch.einsum("th,eih->tei", x, first)
    gate, up = both.chunk(2, -1)
    active = gate / (1 + torch.exp(-gate)) * up
    if between is not None:
        active = between(active)
    return torch.einsum("te,tei,ehi->th", mix, active, second)


MOE = ["fused_moe", "fp8_blockscale_fused_moe"]


@pytest.mark.parametrize("name", MOE)
@every_variant
def test_every_expert_of_every_token(name: str, variant: Variant) -> None:
    inputs, wanted = drawn(name, EXPERTS, variant)
    assert distance(every_expert_of_every_token(inputs), wanted["out"]) < 1e-6


@pytest.mark.parametrize("name", MOE)
def test_token_by_token(name: str) -> None:
    inputs, wanted = drawn(name, {**EXPERTS, "tokens": 7})
    x, first, second = weights_in_fp64(inputs)
    for token in range(7):
        total = torch.zeros(256, dtype=torch.float64)
        for expert, weight in zip(
            inputs["topk_ids"][token].tolist(), inputs["topk_weights"][token].tolist(), strict=True
        ):
            gate, up = (first[expert] @ x[token]).chunk(2)
            total += weight * (second[expert] @ (torch.nn.functional.silu(gate) * up))
        assert distance(total, wanted["out"][token]) < 1e-6


@pytest.mark.parametrize("part", some(range(4), 4))
@pytest.mark.parametrize("name", MOE)
def test_wrong_mixtures_do_not_pass(name: str, part: int) -> None:
    inputs, wanted = drawn(name, EXPERTS)
    run = eager_solution(name)
    fewer = inputs["topk_weights"].clone()
    fewer[:, -1] = 0
    gate, up = inputs["w1"].view(torch.uint8 if "a_scale" in inputs else torch.int16).chunk(2, 1)
    swapped = {"w1": torch.cat([up, gate], 1).view(inputs["w1"].dtype)}
    if "fc1_scale" in inputs:
        gate, up = inputs["fc1_scale"].chunk(2, 1)
        swapped["fc1_scale"] = torch.cat([up, gate], 1)
    others: list[dict[str, Any]] = [
        {"topk_weights": fewer},
        {"topk_weights": torch.full_like(fewer, 1 / 3)},
        {"topk_ids": inputs["topk_ids"].roll(1, 0)},
        {"topk_ids": inputs["topk_ids"].roll(1, 1)},
        swapped,
    ]
    if name == "fused_moe":
        others += [{key: in_fp8(inputs[key])} for key in ("hidden_states", "w1", "w2")]
    else:
        for key in ("a_scale", "fc1_scale", "fc2_scale"):
            others += [{key: inputs[key].mean().expand_as(inputs[key])}]
            others += [{key: inputs[key].roll(1, -1)}]
    for other in others[part::4]:
        changed = {**inputs, **other}
        found = wrong(name, lambda changed=changed, **given: run(**changed), inputs, wanted)
        assert found, list(other)


def requantized(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    def between(active: torch.Tensor) -> torch.Tensor:
        groups = torch.unflatten(active, -1, (-1, 128)).float()
        scale = groups.abs().amax(-1, keepdim=True) / torch.finfo(dtype).max
        return ((groups / scale).to(dtype).double() * scale).flatten(-2)

    return between


@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_the_activation_may_be_quantized_as_deployed_kernels_do(variant: Variant) -> None:
    inputs, wanted = drawn("fp8_blockscale_fused_moe", {**EXPERTS, "tokens": 80}, variant)
    deployed = every_expert_of_every_token(inputs, requantized(torch.float8_e4m3fn)).bfloat16()
    assert wrong("fp8_blockscale_fused_moe", lambda **given: deployed, inputs, wanted) == []
    coarser = every_expert_of_every_token(inputs, requantized(torch.float8_e5m2)).bfloat16()
    assert wrong("fp8_blockscale_fused_moe", lambda **given: coarser, inputs, wanted)


def test_one_token_of_large_values_may_be_quantized_as_well() -> None:
    """Its small values are off by a larger share of themselves: that is no mistake."""
    name, axes = "fp8_blockscale_fused_moe", {**EXPERTS, "tokens": 1}
    for seed in range(8):
        inputs = task_of(name).inputs(axes, Draw(seed))
        inputs["fc2_scale"] = 30 * inputs["fc2_scale"]
        wanted = task_of(name).reference(**inputs)
        deployed = every_expert_of_every_token(inputs, requantized(torch.float8_e4m3fn))
        assert wrong(name, lambda **_given: deployed.bfloat16(), inputs, wanted) == []  # noqa: B023
        zero = torch.where(torch.arange(deployed.shape[1]) % 5 > 0, deployed, 0.0).bfloat16()
        assert wrong(name, lambda **_given: zero, inputs, wanted)  # noqa: B023


def test_an_error_that_is_small_as_a_whole_may_not_be_in_too_many_values() -> None:
    """Noise of 3.4 % of the RMS, under its limit, puts a fifth of large values off by a tenth."""
    name = "fp8_blockscale_fused_moe"
    inputs = task_of(name).inputs(EXPERTS, Draw(0))
    inputs["fc2_scale"] = 100 * inputs["fc2_scale"]
    wanted = task_of(name).reference(**inputs)
    right = wanted["out"].double()
    drawn_noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(0))
    off = 0.034 * right.square().mean(1, keepdim=True).sqrt() * drawn_noise
    (why,) = wrong(name, lambda **_given: (right + off).bfloat16(), inputs, wanted)
    assert "values are off by more than" in why
    assert "RMS" not in why


@pytest.mark.parametrize(
    ("tokens", "experts", "top_k", "active"),
    [(1, 128, 8, 8), (32, 256, 8, 164), (2400, 128, 8, 128), (9, 14, 4, 13), (135, 8, 2, 8)],
)
def test_exactly_the_active_experts_get_tokens(
    tokens: int, experts: int, top_k: int, active: int
) -> None:
    axes = {"tokens": tokens, "experts": experts, "top_k": top_k, "active_experts": active}
    weights, ids = draw_routing(torch.Generator().manual_seed(2), axes, "typical")
    assert ids.dtype == torch.int32
    assert len(torch.unique(ids)) == active
    assert all(len(set(row)) == top_k for row in ids.tolist())
    assert torch.allclose(weights.sum(-1), torch.ones(tokens))
    assert bool((weights.diff(dim=-1) <= 0).all())
    task = task_of("fused_moe")
    assert task.realized is not None
    assert task.realized(axes, {"topk_ids": ids})["active_experts"] == active


def test_routing_is_skewed() -> None:
    axes = {"tokens": 4000, "experts": 128, "top_k": 8, "active_experts": 128}
    _, ids = draw_routing(torch.Generator().manual_seed(2), axes, "typical")
    load = ids.flatten().long().bincount(minlength=128).double()
    assert float(load.max() / load.mean()) > 4
    assert float(load.min() / load.mean()) < 0.5
    _, few = draw_routing(torch.Generator().manual_seed(2), axes, "empty")
    assert len(torch.unique(few)) < 100


# --- Gate and sum


@every_variant
def test_gated_linear_layer_by_tanh(variant: Variant) -> None:
    inputs, wanted = drawn("linear_sigmoid_mul", {"tokens": 9, "hidden": 64, "out": 40}, variant)
    x, weight, bias, y = (value.double() for value in inputs.values())
    gate = torch.einsum("th,oh->to", x, weight) + bias
    assert distance(0.5 * (1 + torch.tanh(gate / 2)) * y, wanted["out"]) < 1e-6


def test_wrong_gates_do_not_pass() -> None:
    inputs, wanted = drawn("linear_sigmoid_mul", {"tokens": 40, "hidden": 256, "out": 192})
    run = eager_solution("linear_sigmoid_mul")
    assert wrong("linear_sigmoid_mul", run, inputs, wanted) == []
    others: list[dict[str, Any]] = [
        {"hidden_states": inputs["hidden_states"] * 0},
        {"bias": inputs["bias"] * 0},
        {"hidden_states": in_fp8(inputs["hidden_states"])},
        {"weight": in_fp8(inputs["weight"])},
    ]
    for other in others:
        changed = {**inputs, **other}
        assert wrong(
            "linear_sigmoid_mul", lambda changed=changed, **g: run(**changed), inputs, wanted
        )
    half = inputs["post_mul_mat"] / 2
    assert wrong("linear_sigmoid_mul", lambda **given: half, inputs, wanted)


@every_variant
def test_sum_by_fsum(variant: Variant) -> None:
    inputs, wanted = drawn("moe_sum_reduce", {"tokens": 5, "top_k": 6, "hidden": 16}, variant)
    rows = inputs["expert_outputs"].double().tolist()
    factor = inputs["routed_scaling_factor"]
    sums = [[factor * math.fsum(values) for values in zip(*row, strict=True)] for row in rows]
    assert distance(torch.tensor(sums), wanted["out"]) < 1e-6


@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_wrong_sums_do_not_pass(variant: Variant) -> None:
    inputs, wanted = drawn("moe_sum_reduce", {"tokens": 64, "top_k": 8, "hidden": 256}, variant)
    run = eager_solution("moe_sum_reduce")
    assert wrong("moe_sum_reduce", run, inputs, wanted) == []

    def in_bf16(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> torch.Tensor:
        total = expert_outputs[:, 0]
        for slot in range(1, expert_outputs.shape[1]):
            total = total + expert_outputs[:, slot]
        return total * routed_scaling_factor

    def without_the_last(expert_outputs: torch.Tensor, **given: Any) -> Any:
        return run(expert_outputs[:, :-1].contiguous(), **given)

    assert wrong("moe_sum_reduce", in_bf16, inputs, wanted)
    assert wrong("moe_sum_reduce", without_the_last, inputs, wanted)
    if variant == "extreme":
        plain = {"routed_scaling_factor": 1.0}
        assert wrong("moe_sum_reduce", lambda **g: run(**{**g, **plain}), inputs, wanted)
