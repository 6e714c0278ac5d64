"""A model's config beside what a profile shows."""

from __future__ import annotations

from typing import Any

import pytest

from solscope.attribution import Attributed
from solscope.operators.from_config import Model
from solscope.operators.from_config.config import Config
from solscope.views.layers import layers
from solscope.views.model_check import check_model, expected_layers
from tests.making import attributed, event
from tests.models import LAYER, kernels

PLAIN: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 256,
}
MOE = "NGRKAGNGOPSPF"
LATENT = "NGNGGRKAGGNGSG"
LATENT_ROLES = ("q_a_kv_a", "q_b", "kv_b")


def model(**changes: Any) -> Model:
    return Model(Config(**{**PLAIN, **changes}), "config.json")


def recorded(text: str = LAYER * 3) -> Attributed:
    return attributed(*kernels(f"E{text}NGT"))


def said(made: Attributed, config: Model) -> list[str]:
    return [warning.message for warning in check_model(made, config)[1]]


def test_a_config_that_agrees_says_nothing_and_is_evidence() -> None:
    made = recorded()
    checked, warnings = check_model(made, model())
    assert warnings == []
    inside = checked.activities.filter(checked.activities["layer"] == 1)
    assert set(inside["layer_evidence"].cast(str)) == {
        "edge both, config agrees",
        "inside both, config agrees",
    }
    before = made.activities.filter(made.activities["layer"] == 1)
    assert (inside["confidence"] >= before["confidence"]).all()


def test_another_number_of_layers_is_said_and_leaves_nothing_sure() -> None:
    checked, (warning,) = check_model(recorded(), model(num_hidden_layers=4))
    assert warning.code == "model_differs"
    assert warning.message.startswith("config.json states 4 layers; 1 of 1 passes have 3")
    for column in ("confidence", "layer_confidence", "role_confidence"):
        assert checked.activities[column].max() == 0.5


def test_layers_of_another_kind_are_said() -> None:
    experts = model(num_experts=16)
    (message, *_) = said(recorded(), experts)
    assert "states attention+moe for layer 0; the kernels look like attention+dense" in message
    assert said(recorded(MOE * 3), experts) == []
    assert "states no experts" in said(recorded(MOE * 3), model())[-1]


def test_latent_attention_is_checked() -> None:
    latent = model(kv_lora_rank=16)
    assert "projections look like plain ones" in said(recorded(), latent)[0]
    assert "roles of MLA were found" in said(recorded(LATENT * 3), model())[0]


def doubtful(made: Attributed, config: Model) -> set[str]:
    """Roles that were sure before the config was looked at, and are not any more."""
    before, after = (table.activities for table in (made, check_model(made, config)[0]))
    lost = (before["role_confidence"] > 0.5) & (after["role_confidence"] <= 0.5)
    assert (after["confidence"] <= after["role_confidence"]).all()
    return set(after.filter(lost)["role"].cast(str))


def test_roles_that_a_config_rules_out_are_not_sure() -> None:
    assert doubtful(recorded(), model()) == set()
    assert doubtful(recorded(), model(kv_lora_rank=16)) == {"qkv"}
    assert {"q_a_kv_a", "q_b"} <= doubtful(recorded(LATENT * 3), model()) <= {*LATENT_ROLES}


def test_experts_that_a_config_rules_out_are_not_sure() -> None:
    made = shaped("nvjet_tst_128x8", "aten::mm", "[[4, 64], [64, 16]]")
    assert doubtful(made, model(num_experts=16)) == set()
    lost = doubtful(made, model(num_experts=32))
    assert {"router", "up_gate", "down", "combine"} <= lost
    assert not lost & {"qkv", "attention", "o_proj", "lm_head"}


def shaped(kernel: str, op: str, dims: str) -> Attributed:
    """Three layers in which every kernel of this name was launched by an operator."""
    made: list[dict[str, Any]] = []
    for number, run in enumerate(kernels(f"E{MOE * 3}NGT", 10_000)):
        at = 10 * number
        made.append(event("runtime", "cudaLaunchKernel", at + 2, 1, correlation=number + 1))
        made.append({**run, "correlation": number + 1})
        if run["name"] == kernel:
            made.append(event("cpu_op", op, at, 8, input_dims=dims))
    return attributed(*made)


def test_the_router_has_an_output_per_expert() -> None:
    made = shaped("nvjet_tst_128x8", "aten::mm", "[[4, 64], [64, 16]]")
    assert said(made, model(num_experts=16)) == []
    assert said(made, model(num_experts=32)) == [
        "config.json states 32 experts; the router has 16 outputs"
    ]


def test_heads_of_recorded_calls_are_checked() -> None:
    op = "aten::scaled_dot_product_attention"
    made = shaped("flash_fwd_kernel", op, "[[4, 16, 1, 64], [4, 16, 9, 64], [4, 16, 9, 64]]")
    assert said(made, model(num_experts=16, num_attention_heads=16)) == []
    assert said(made, model(num_experts=16)) == [
        "config.json states 8 attention heads; calls were recorded with 16"
    ]


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, ["attention+dense"] * 3),
        ({"num_experts": 8}, ["attention+moe"] * 3),
        (
            {"n_routed_experts": 8, "first_k_dense_replace": 1},
            ["attention+dense", "attention+moe", "attention+moe"],
        ),
        (
            {"num_experts": 8, "decoder_sparse_step": 2},
            ["attention+dense", "attention+moe", "attention+dense"],
        ),
        (
            {"layer_types": ["linear_attention", "conv", "sliding_attention"]},
            ["linear_attention+dense", "linear_attention+dense", "attention+dense"],
        ),
        (
            {"num_experts": 8, "mlp_layer_types": ["dense", "sparse", "sparse"]},
            ["attention+dense", "attention+moe", "attention+moe"],
        ),
        ({"num_experts": 8, "expert_layer_period": 2}, [None] * 3),
        ({"layer_types": ["full_attention"]}, [None] * 3),
        ({"attn_layer_period": 8}, [None] * 3),
    ],
)
def test_kinds_that_a_config_states(changes: dict[str, Any], kinds: list[str | None]) -> None:
    expected = expected_layers(model(**changes).config)
    assert expected is not None
    assert list(expected.kinds) == kinds


@pytest.mark.parametrize("count", [None, 0, -3, 1 << 40])
def test_a_config_without_a_number_of_layers_states_nothing(count: int | None) -> None:
    assert expected_layers(model(num_hidden_layers=count).config) is None


def test_layers_show_what_differs() -> None:
    table = layers([recorded()], ["a"], model=model(num_hidden_layers=2))
    assert [warning.code for warning in table.warnings[0]][-1] == "model_differs"
    assert table.coverage.sure_pct == [0.0]
