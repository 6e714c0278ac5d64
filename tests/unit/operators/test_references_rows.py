"""References of row-wise operators against scalar loops and other algebra."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from solscope.bench.verify import wrong_outputs
from solscope.operators.catalog.fused_qkv_rope import BASES
from solscope.operators.task import Draw, Inputs, Outputs, Variant
from solscope.operators.tasks.fp8 import fp8_dtype
from solscope.operators.tasks.judge import judge
from tests.references import task_of


def drawn(name: str, variant: Variant = "typical", **axes: Any) -> tuple[Inputs, Outputs]:
    task = task_of(name)
    inputs = task.inputs(axes, Draw(11, variant=variant))
    return inputs, task.reference(**inputs)


def nested(tensor: torch.Tensor) -> Any:
    return tensor.double().tolist()


def assert_near(got: Any, wanted: torch.Tensor, relative: float = 1e-6) -> None:
    expected = torch.as_tensor(got, dtype=torch.float64)
    scale = expected.abs().amax().clamp_min(1e-30)
    assert float((wanted.double() - expected).abs().max() / scale) < relative


def by_hand_rms(row: list[float], weight: list[float], eps: float) -> list[float]:
    root = math.sqrt(math.fsum(v * v for v in row) / len(row) + eps)
    return [v / root * w for v, w in zip(row, weight, strict=True)]


@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_rms_norm(variant: Variant) -> None:
    inputs, wanted = drawn("rms_norm", variant, tokens=6, hidden=48)
    weight = nested(inputs["weight"])
    rows = [by_hand_rms(row, weight, inputs["eps"]) for row in nested(inputs["x"])]
    assert_near(rows, wanted["out"])


def test_fused_add_rms_norm_takes_statistics_of_the_rounded_sum() -> None:
    inputs, wanted = drawn("fused_add_rms_norm", tokens=6, hidden=48)
    total = inputs["x"] + inputs["residual"]
    assert torch.equal(wanted["residual"], total)
    weight = nested(inputs["weight"])
    rows = [by_hand_rms(row, weight, inputs["eps"]) for row in nested(total)]
    assert_near(rows, wanted["x"])


def test_gated_rms_norm_gates_after_the_norm() -> None:
    inputs, wanted = drawn("gated_rms_norm", rows=6, hidden=32)
    weight = nested(inputs["weight"])
    rows = []
    for row, gate in zip(nested(inputs["x"]), nested(inputs["z"]), strict=True):
        normed = by_hand_rms(row, weight, inputs["eps"])
        opened = [z / (1 + math.exp(-z)) for z in gate]
        rows.append([n * g for n, g in zip(normed, opened, strict=True)])
    assert_near(rows, wanted["out"])


def test_l2_norm_is_rms_norm_with_another_eps() -> None:
    inputs, wanted = drawn("l2_norm", tokens=9, hidden=64)
    width = 64
    ones = torch.ones(width, dtype=torch.float64)
    scaled = task_of("rms_norm").reference(inputs["x"], ones, inputs["eps"] / width)
    assert_near(scaled["out"].double() / math.sqrt(width), wanted["out"])
    lengths = wanted["out"].double().norm(dim=-1)
    assert float(lengths.min()) < 0.9, "eps is not felt"
    assert abs(float(lengths.max()) - 1) < 1e-6


def test_layer_norm_by_moments() -> None:
    inputs, wanted = drawn("layer_norm", tokens=6, hidden=96)
    x = inputs["x"].double()
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean**2
    out = (x - mean) / (variance + inputs["eps"]).sqrt()
    assert_near(out * inputs["weight"].double() + inputs["bias"].double(), wanted["out"])


def test_silu_and_mul_by_tanh() -> None:
    inputs, wanted = drawn("silu_and_mul", tokens=5, intermediate=40)
    gate, up = inputs["x"].double().split(40, -1)
    assert_near(gate * 0.5 * (1 + torch.tanh(gate / 2)) * up, wanted["out"])


def test_silu_and_mul_by_approximate_division() -> None:
    """CUDA's `__fdividef`, which -use_fast_math takes, is 0 for divisors above 2**126."""
    inputs, wanted = drawn("silu_and_mul", "extreme", tokens=64, intermediate=48)
    gate, up = inputs["x"].float().split(48, -1)
    divisor = 1 + torch.exp(-gate)
    out = torch.where(divisor > 2.0**126, 0, gate / divisor) * up
    output = task_of("silu_and_mul").outputs["out"]
    assert judge(output, out.bfloat16(), wanted["out"], inputs, {}).ok
    assert not judge(output, out.bfloat16() * 1.02, wanted["out"], inputs, {}).ok
    assert torch.isfinite(out).all()
    assert {-86.0, -32_768.0, 100.0} <= set(nested(gate[0]))


def test_qk_norm_is_rms_norm_of_each_head() -> None:
    inputs, wanted = drawn(
        "fused_qk_rmsnorm", tokens=3, q_heads=4, kv_heads=2, head_dim=16, dtype="fp16"
    )
    heads, found = inputs["qkv"].view(3, 8, 16), wanted["qkv"].view(3, 8, 16)
    for head in range(8):
        weight = inputs["q_weight"] if head < 4 else inputs["k_weight"]
        if head >= 6:
            assert torch.equal(found[:, head], heads[:, head].float())
            continue
        rows = [by_hand_rms(row, nested(weight), inputs["eps"]) for row in nested(heads[:, head])]
        assert_near(rows, found[:, head])


# --- Quantization


def nearest_code(value: float, table: list[float]) -> set[float]:
    """The representable numbers nearest to a value; two of them at a tie."""
    least = min(abs(value - entry) for entry in table)
    return {entry for entry in table if abs(value - entry) <= least * (1 + 1e-6)}


@pytest.mark.parametrize("fp8", ["e4m3fn", "e4m3fnuz"])
def test_codes_are_the_nearest_of_all_256(fp8: Any) -> None:
    task = task_of("fp8_dynamic_per_token_quant")
    inputs = task.inputs({"tokens": 5, "hidden": 40}, Draw(3, fp8=fp8))
    wanted = task.reference(**inputs)
    every = torch.arange(256, dtype=torch.uint8).view(fp8_dtype(fp8)).float()
    table = sorted({float(value) for value in every if torch.isfinite(value)})
    for row, codes, scale in zip(
        nested(inputs["x"]), wanted["q"].float().tolist(), wanted["scale"].tolist(), strict=True
    ):
        largest = max(abs(v) for v in row)
        assert scale == pytest.approx(max(largest, 1e-12) / table[-1], rel=1e-6)
        for value, code in zip(row, codes, strict=True):
            assert code in nearest_code(value / scale, table)


def test_groups_are_rows_of_their_own() -> None:
    inputs, wanted = drawn("per_token_group_quant_fp8", tokens=6, hidden=256, group_size=64)
    rows = inputs["x"].reshape(24, 64)
    alone = task_of("fp8_dynamic_per_token_quant").reference(rows, "e4m3fn")
    assert torch.equal(wanted["q"].float().view(24, 64), alone["q"].float())
    busy = (rows != 0).any(-1)
    assert torch.equal(wanted["scales"].view(24)[busy], alone["scale"][busy])
    assert int((~busy).sum()) > 0, "no group of zeros was drawn"
    spread = wanted["scales"][0].max() / wanted["scales"][0].min()
    assert float(spread) > 4, "groups have one scale"


def test_norm_and_quantization_are_those_two() -> None:
    inputs, wanted = drawn("fused_rmsnorm_quant", tokens=6, hidden=128)
    parts = [inputs[name] for name in ("x", "residual", "weight", "eps")]
    normed = task_of("fused_add_rms_norm").reference(*parts)
    alone = task_of("fp8_dynamic_per_token_quant").reference(normed["x"], "e4m3fn")
    assert torch.equal(wanted["residual_out"], normed["residual"])
    assert_near(alone["scale"], wanted["scale"].view(-1))
    differing = (alone["q"].float() != wanted["q"].float()).double().mean()
    assert float(differing) < 0.002


def vllms_norm_and_quantization(inputs: Inputs) -> Outputs:
    """Norm the sum before it is rounded, and round x·rstd before and after the weight."""
    total = inputs["x"].float() + inputs["residual"].float()
    rstd = (total.square().mean(-1, keepdim=True) + inputs["eps"]).rsqrt()
    normed = ((total * rstd).to(inputs["x"].dtype) * inputs["weight"]).float()
    return quantized(normed) | {"residual_out": total.to(inputs["x"].dtype)}


def norm_and_quantization_of_six_bits(inputs: Inputs) -> Outputs:
    """The normed row has six bits of significand."""
    total = inputs["x"] + inputs["residual"]
    wide = total.float()
    rstd = (wide.square().mean(-1, keepdim=True) + inputs["eps"]).rsqrt()
    significand, exponent = torch.frexp(wide * rstd * inputs["weight"].float())
    return quantized(torch.ldexp((significand * 64).round() / 64, exponent)) | {
        "residual_out": total
    }


def quantized(values: torch.Tensor) -> Outputs:
    scale = values.abs().amax(-1, keepdim=True).clamp_min(1 / 512) / 448
    return {"q": (values / scale).clamp(-448, 448).to(torch.float8_e4m3fn), "scale": scale}


def reasons(name: str, got: Outputs, wanted: Outputs, inputs: Inputs) -> dict[str, str]:
    """What is wrong with each output, in words."""
    found = wrong_outputs(task_of(name), got, wanted, inputs)
    return dict(one.split(": ", maxsplit=1) for one in found)


@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_roundings_of_a_deployed_norm_pass_and_fewer_bits_do_not(variant: Variant) -> None:
    name = "fused_rmsnorm_quant"
    largest = 0.0
    for tokens, seeds in ((1, 40), (2, 40), (117, 4), (2048, 2)):
        for seed in range(seeds):
            axes = {"tokens": tokens, "hidden": 1024}
            inputs = task_of(name).inputs(axes, Draw(seed, variant=variant))
            wanted = task_of(name).reference(**inputs)
            got = vllms_norm_and_quantization(inputs)
            assert not reasons(name, got, wanted, inputs)
            off = (got["scale"] / wanted["scale"] - 1).abs()
            largest = max(largest, float(off.where(wanted["scale"] > 1e-14, 0.0).max()))
            if tokens > 100:
                few = norm_and_quantization_of_six_bits(inputs)
                assert "q" in reasons(name, few, wanted, inputs)
    assert largest > 2 * 2**-8, "no scale shows the third rounding"
    scale = wanted["scale"].clone()
    scale[1] *= 1.013
    assert set(reasons(name, wanted | {"scale": scale}, wanted, inputs)) == {"scale"}
    many = reasons(name, wanted | {"scale": 1.006 * wanted["scale"]}, wanted, inputs)
    assert "RMS" in many["scale"]


@pytest.mark.parametrize(("off", "right"), [(19, True), (20, False)])
def test_few_scales_may_be_off_by_three_roundings(off: int, right: bool) -> None:
    """Two, and 17 of 2,048: a kernel that is bf16 throughout has 30."""
    name = "fused_rmsnorm_quant"
    inputs, wanted = drawn(name, tokens=2048, hidden=64)
    scale = wanted["scale"].clone()
    scale[(scale > 1e-14).view(-1).nonzero().view(-1)[:off]] *= 1.011
    found = reasons(name, wanted | {"scale": scale}, wanted, inputs)
    assert found.get("scale", "").endswith("more than 19") is not right


@pytest.mark.parametrize("variant", ["typical", "extreme", "varied"])
def test_some_sums_are_0(variant: Variant) -> None:
    """What is quantized there has no largest value to divide by."""
    for seed in range(8):
        inputs = task_of("fused_rmsnorm_quant").inputs(
            {"tokens": 64, "hidden": 32}, Draw(seed, variant=variant)
        )
        zeros = ((inputs["x"] + inputs["residual"]) == 0).all(-1)
        assert 0 < int(zeros.sum()) < 64


@pytest.mark.parametrize(
    ("rows", "moved", "right"),
    [(1, 0.15, True), (1, 0.25, False), (2, 0.12, True), (8, 0.1, False), (100, 0.065, False)],
)
def test_more_codes_may_move_in_few_rows(rows: int, moved: float, right: bool) -> None:
    name = "fused_rmsnorm_quant"
    inputs, wanted = drawn(name, tokens=rows, hidden=1024)
    raw = wanted["q"].view(torch.uint8).clone()
    some = raw[:, : round(1024 * moved)]
    some ^= torch.where(some & 0x7F == 0x7E, 3, 1).to(torch.uint8)  # above 448 there is NaN
    codes = raw.view(torch.float8_e4m3fn)
    assert (not reasons(name, wanted | {"q": codes}, wanted, inputs)) is right


QUANTIZED = [
    ("fp8_dynamic_per_token_quant", "scale", {"tokens": 8, "hidden": 64}),
    ("per_token_group_quant_fp8", "scales", {"tokens": 8, "hidden": 64, "group_size": 32}),
    ("fused_rmsnorm_quant", "scale", {"tokens": 8, "hidden": 64}),
]


@pytest.mark.parametrize(("name", "scales", "axes"), QUANTIZED)
def test_any_numbers_are_the_codes_of_zeros_whose_scale_is_0(
    name: str, scales: str, axes: dict[str, int]
) -> None:
    """Codes times scale is what was quantized."""
    inputs, _ = drawn(name, "typical", **axes)
    for part in ("x", "residual"):
        if part in inputs:
            inputs[part][3] = 0
    wanted = task_of(name).reference(**inputs)
    groups = wanted[scales].numel()
    zeros = (wanted["q"].float().reshape(groups, -1) == 0).all(-1)
    assert 0 < int(zeros.sum()) < groups

    def answer(code: float, scale: float, rows: torch.Tensor) -> dict[str, str]:
        codes = wanted["q"].float().reshape(groups, -1)
        codes[rows] = code
        factors = wanted[scales].reshape(-1).clone()
        factors[rows] = scale
        got = wanted | {
            "q": codes.reshape(wanted["q"].shape).to(wanted["q"].dtype),
            scales: factors.reshape(wanted[scales].shape),
        }
        return reasons(name, got, wanted, inputs)

    assert not answer(448.0, 0.0, zeros)
    assert not answer(0.0, 1e-9, zeros)
    assert set(answer(448.0, 1e-9, zeros)) == {"q"}
    assert set(answer(math.nan, 0.0, zeros)) == {"q"}
    assert set(answer(448.0, 0.0, ~zeros)) == {"q", scales}
    wide = wanted["q"].bfloat16()
    assert not judge(task_of(name).outputs["q"], wide, wanted["q"], inputs, {scales: zeros}).ok
    for others in ({}, {scales: torch.zeros(7)}):  # such scales are judged on their own
        assert judge(task_of(name).outputs["q"], wanted["q"], wanted["q"], inputs, others).ok


# --- Rotation


def test_rope_is_a_complex_product() -> None:
    inputs, wanted = drawn(
        "fused_qkv_rope", tokens=4, q_heads=3, kv_heads=1, head_dim=24, rotary_dim=16
    )
    heads, found = inputs["qkv"].view(4, 5, 24).double(), wanted["qkv"].view(4, 5, 24)
    # The draw decides the base: the table's angle of frequency 1 at position 1 is base^(-1/8).
    at_one = inputs["cos_sin_cache"][1].double()
    base = float(torch.atan2(at_one[9], at_one[1])) ** -8
    frequency = min(BASES, key=lambda one: abs(one / base - 1)) ** (-torch.arange(8).double() / 8)
    angle = inputs["positions"].double()[:, None, None] * frequency
    turned = torch.complex(heads[:, :4, :8], heads[:, :4, 8:16]) * torch.polar(
        torch.ones_like(angle), angle
    )
    assert_near(turned.real, found[:, :4, :8])
    assert_near(turned.imag, found[:, :4, 8:16])
    assert torch.equal(found[:, :4, 16:].double(), heads[:, :4, 16:])
    assert torch.equal(found[:, 4].double(), heads[:, 4])
    assert int(inputs["positions"].min()) > 0


def test_mrope_takes_each_frequency_from_its_axis() -> None:
    inputs, wanted = drawn("mrope", tokens=530, q_heads=2, kv_heads=1, head_dim=128, rotary_dim=128)
    assert inputs["mrope_section"] == [16, 24, 24]
    cos, sin = nested(inputs["cos"]), nested(inputs["sin"])
    for token in (0, 30, 511, 529):
        row, found = nested(inputs["k"])[token], nested(wanted["k"])[token]
        for i in (0, 15, 16, 39, 40, 63):
            axis = 0 if i < 16 else 1 if i < 40 else 2
            c, s = cos[axis][token][i], sin[axis][token][i]
            assert found[i] == pytest.approx(row[i] * c - row[i + 64] * s, rel=1e-5, abs=1e-5)
            assert found[i + 64] == pytest.approx(row[i + 64] * c + row[i] * s, rel=1e-5, abs=1e-5)
    differs = (inputs["cos"][1] != inputs["cos"][2]).any(-1)
    assert bool(differs[30]), "an image has one position per axis"
    assert not bool(differs[520]), "text has one position"


# --- What a lazy answer would look like


def test_constant_scales_do_not_pass_for_norms() -> None:
    for name in ("rms_norm", "l2_norm"):
        inputs, wanted = drawn(name, tokens=64, hidden=2048)
        x = inputs["x"].double() * inputs.get("weight", torch.ones(())).double()
        best = (x * wanted["out"].double()).sum() / (x * x).sum()
        error = (best * x - wanted["out"].double()).norm() / wanted["out"].double().norm()
        assert float(error) > 0.3


def test_inputs_have_the_edges_that_norms_need() -> None:
    inputs, _ = drawn("rms_norm", tokens=8, hidden=512)
    x = inputs["x"].float()
    assert sorted((x != 0).sum(-1).tolist())[:3] == [0, 1, 512]
    sizes = x.square().mean(-1).sqrt()
    kept = sizes[sizes > 0]
    assert float(kept.max() / kept.min()) > 5


def test_rare_values_lie_at_other_places_in_every_draw() -> None:
    """A zero row that is always the second may keep what was in its memory before."""
    places = set()
    for seed in range(12):
        inputs = task_of("rms_norm").inputs({"tokens": 8, "hidden": 64}, Draw(seed=seed))
        filled = (inputs["x"] != 0).sum(-1)
        spike = int((filled == 1).nonzero())
        column = int(inputs["x"][spike].nonzero())
        weights = inputs["weight"]
        places.add((int((filled == 0).nonzero()), spike, column, int((weights == 0).nonzero())))
    assert all(len(set(one)) > 3 for one in zip(*places, strict=True))


NORMS = ("rms_norm", "layer_norm", "fused_add_rms_norm", "fused_rmsnorm_quant", "l2_norm")


@pytest.mark.parametrize("name", NORMS)
def test_extreme_rows_reach_from_where_epsilon_shows_to_where_half_precision_overflows(
    name: str,
) -> None:
    for seed in range(5):
        draw = Draw(seed=seed, variant="extreme")
        inputs = task_of(name).inputs({"tokens": 64, "hidden": 128}, draw)
        stream = inputs["x"].double() + inputs.get("residual", torch.zeros(())).double()
        sizes = stream.square().mean(-1).sqrt()
        squares = sizes[sizes > 0].square()
        assert float(squares.min()) < 1e-6
        assert float(sizes.max()) > 1e10
        assert bool(stream.float().square().sum(-1).isfinite().all())


def test_epsilon_is_that_of_other_models_when_rows_are_small_enough_to_show_it() -> None:
    axes = {"tokens": 4, "hidden": 16}
    draws = [Draw(seed=seed, variant="extreme") for seed in range(20)]
    assert {task_of("rms_norm").inputs(axes, draw)["eps"] for draw in draws} == {1e-5, 1e-12}
    assert {task_of("layer_norm").inputs(axes, draw)["eps"] for draw in draws} == {1e-6, 1e-12}
    assert task_of("rms_norm").inputs(axes, Draw(seed=0))["eps"] == 1e-6


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("rms_norm", {"tokens": 7, "hidden": 32}),
        ("fused_add_rms_norm", {"tokens": 7, "hidden": 32}),
        ("fused_rmsnorm_quant", {"tokens": 7, "hidden": 32}),
        ("per_token_group_quant_fp8", {"tokens": 7, "hidden": 64, "group_size": 32}),
        ("moe_topk_gating_softmax", {"tokens": 7, "experts": 16, "top_k": 3}),
    ],
)
def test_slices_of_rows_give_the_same(
    name: str, axes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, whole = drawn(name, "typical", **axes)
    monkeypatch.setattr("solscope.operators.tasks.rows._SLICE", 70)
    sliced = task_of(name).reference(**inputs)
    for output, wanted in whole.items():
        assert sliced[output].dtype == wanted.dtype
        assert torch.equal(sliced[output].float(), wanted.float())
