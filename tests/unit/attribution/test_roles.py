from __future__ import annotations

from collections.abc import Sequence

import pytest

from solscope.attribution.layers import find_layers
from solscope.attribution.products import Product
from solscope.attribution.role_names import GROUPS, OTHER, ROLES
from solscope.attribution.roles import (
    Named,
    epilogue_roles,
    layer_roles,
    prologue_roles,
)
from solscope.attribution.sequence import units

DENSE = "NGRKAGNGSG"


def named(layer: str, shapes: Sequence[Product | None] | None = None) -> list[Named]:
    """Roles of the first of two such layers."""
    parts = units(list(f"E{layer}{layer}NGT"))
    text = "".join(unit.letter for unit in parts)
    known: list[Product | None] = [None] * len(text)
    if shapes is not None:
        known[1 : 1 + len(shapes)] = shapes
    return layer_roles(text, find_layers(parts)[0], known)


def roles(layer: str, shapes: Sequence[Product | None] | None = None) -> list[str]:
    return [name.role for name in named(layer, shapes)]


def groups(layer: str) -> list[str]:
    return [name.group for name in named(layer)]


def words(text: str) -> list[str]:
    return text.split()


def test_dense() -> None:
    assert roles(DENSE) == words(
        "input_norm qkv rope kv_write attention o_proj post_norm up_gate activation down"
    )
    assert groups(DENSE) == ["attention"] * 6 + ["mlp"] * 4


def test_single_projections_and_residuals() -> None:
    assert roles("NGGGRKAGiNGSGuGi") == words(
        "input_norm qkv qkv qkv rope kv_write attention o_proj residual "
        "post_norm up_gate activation up_gate activation down residual"
    )


def test_a_split_k_reduction_takes_the_role_of_the_product_before_it() -> None:
    assert roles("NGgRKAGgNGgSGg") == words(
        "input_norm qkv qkv rope kv_write attention o_proj o_proj "
        "post_norm up_gate up_gate activation down down"
    )


def test_fills_and_quantization_take_the_role_of_the_product_after_them() -> None:
    assert roles("NmGRKAQGNQGSmGi") == words(
        "input_norm qkv qkv rope kv_write attention o_proj o_proj "
        "post_norm up_gate up_gate activation down down residual"
    )


def test_preparation_and_reduction_of_attention() -> None:
    assert roles("NGRKaAaGNGSG")[4:7] == words("attention attention attention_combine")


def test_quantization_of_queries_belongs_to_attention() -> None:
    assert roles("NGRKQAGNGSG")[3:6] == words("kv_write attention attention")


def test_appending_to_the_cache_by_concatenation_is_its_write() -> None:
    assert roles("NGujuijjAGNGSG")[2:9] == words("rope rope rope rope kv_write kv_write attention")


def test_latents_are_cached_before_they_are_expanded() -> None:
    """MLA writes both latents to the cache, joins the query, and projects the latents up."""
    found = roles("NGNGGNcucujjjGccAGNGSG")
    assert found[9:15] == words("rope kv_write kv_write attention kv_b attention")


def test_a_model_without_a_cache_has_no_mla() -> None:
    parts = units(list("ENGNGGAGNGSGNGNGGAGNGSG"))
    text = "".join(unit.letter for unit in parts)
    layer = find_layers(parts)[0]
    with_cache = layer_roles(text, layer, [None] * len(text))
    without = layer_roles(text, layer, [None] * len(text), cached=False)
    assert "q_b" in [name.role for name in with_cache]
    assert [name.role for name in without][:5] == words("input_norm qkv qk_norm qkv qkv")


def test_norms_of_queries_and_keys() -> None:
    assert roles("NGNNRKAGNGSG")[:6] == words("input_norm qkv qk_norm qk_norm rope kv_write")


def shaped(layer: str, *sizes: tuple[int, int]) -> list[Product | None]:
    """Shapes for the products of a layer, in order; none for the rest."""
    rest = iter(sizes)
    known: list[Product | None] = []
    for letter in layer:
        size = next(rest, None) if letter == "G" else None
        known.append(None if size is None else Product(1, *size))
    return known


def test_mla_with_shapes() -> None:
    # q_a and kv_a read the hidden size, q_b and kv_b the ranks of the latents.
    layer = "NGNGGNGRKAGNGSG"
    sizes = shaped(layer, (7168, 1536), (1536, 24576), (7168, 576), (512, 32768))
    assert roles(layer, sizes)[:10] == words(
        "input_norm q_a_kv_a qk_norm q_b q_a_kv_a qk_norm kv_b rope kv_write attention"
    )


def test_mla_without_inner_dimensions_is_seen_by_the_norm_between_products() -> None:
    assert roles("NGNGGRKAGGNGSG") == words(
        "input_norm q_a_kv_a qk_norm q_b kv_b rope kv_write attention kv_b o_proj "
        "post_norm up_gate activation down"
    )


def test_equal_inner_dimensions_are_no_mla_despite_norms_between_products() -> None:
    layer = "NGNGNGRKAGNGSG"
    sizes = shaped(layer, (2048, 2048), (2048, 512), (2048, 512))
    assert roles(layer, sizes)[:6] == words("input_norm qkv qk_norm qkv qk_norm qkv")


def test_a_norm_behind_query_and_behind_key_is_no_mla_without_shapes_either() -> None:
    assert roles("NGNGNGRKAGNGSG")[:6] == words("input_norm qkv qk_norm qkv qk_norm qkv")


def test_mla_needs_a_projection_to_a_latent_that_is_narrower_than_the_hidden_size() -> None:
    # The feed-forward part of a layer before, taken for projections: up, then down.
    layer = "NGeGGRKAGNGSG"
    sizes = shaped(layer, (2048, 8192), (8192, 2048), (2048, 6144))
    assert set(roles(layer, sizes)[:5]) & {"q_a_kv_a", "q_b", "kv_b"} == set()


# --- Between the projections and attention


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("uejuiuejuijj", "rope " * 10 + "kv_write kv_write"),
        # Partial rotary embedding: its halves are joined again before the cache grows.
        ("uejuiuejuijjjj", "rope " * 12 + "kv_write kv_write"),
        # No cache: the join belongs to the rotation.
        ("uejuiuejuicc", "rope " * 10 + "attention attention"),
        # Positions of a static cache, then repeated keys and values and the mask.
        ("uejuinIiKKccmme", "rope " * 5 + "kv_write " * 5 + "attention " * 5),
        ("uejuijjccmme", "rope " * 5 + "kv_write kv_write " + "attention " * 5),
    ],
)
def test_rope_cache_and_preparation_of_attention(letters: str, expected: str) -> None:
    layer = f"NG{letters}AGNGSG"
    assert roles(layer)[2 : 2 + len(letters)] == words(expected)


# --- Layers that are built otherwise


def test_attention_and_feed_forward_side_by_side() -> None:
    assert roles("NGRKAGGSGuGii") == words(
        "input_norm qkv rope kv_write attention o_proj up_gate activation up_gate activation "
        "down residual residual"
    )


def test_norms_behind_attention_and_feed_forward() -> None:
    assert roles("GNGNGRKAGNiGSGuGNi") == words(
        "qkv qk_norm qkv qk_norm qkv rope kv_write attention o_proj post_norm residual "
        "up_gate activation up_gate activation down post_norm residual"
    )


def test_a_condition_scales_and_shifts_norms() -> None:
    """A block of a diffusion transformer: products of the condition come before the first norm."""
    assert roles("SGNIuiGAGuiNIuiGSGui") == words(
        "modulation modulation input_norm modulation modulation modulation qkv attention o_proj "
        "residual residual post_norm modulation modulation modulation up_gate activation down "
        "residual residual"
    )


def test_text_and_image_have_a_feed_forward_part_each() -> None:
    """They share one attention, with projections of their own before and behind it."""
    letters = "SGSGNIuiNIuiGGjAGGuiNIuiGSGuiuiNIuiGSGui"
    parts = units(list(f"E{letters}{letters}NG"))
    text = "".join(unit.letter for unit in parts)
    layer = find_layers(parts)[0]
    made = layer_roles(text, layer, [None] * len(text), cached=False)
    products = [n.role for n, letter in zip(made, letters, strict=True) if letter == "G"]
    assert products == words(
        "modulation modulation qkv qkv o_proj o_proj up_gate down up_gate down"
    )


def test_norms_on_both_sides() -> None:
    assert roles("NGRKAGNiNGSGNi")[5:] == words(
        "o_proj post_norm residual post_norm up_gate activation down post_norm residual"
    )


def test_an_activation_that_is_not_known() -> None:
    assert roles("NGRKAGiNGepGi")[5:] == words(
        "o_proj residual post_norm up_gate activation activation down residual"
    )


def test_attention_beside_linear_attention() -> None:
    assert roles("NGcVSicGuSuGGGGuejuijjAGiNGSGi") == words(
        "input_norm qkv conv conv conv delta_rule delta_rule delta_rule delta_rule gating gating "
        "o_proj qkv qkv qkv rope rope rope rope rope kv_write kv_write attention o_proj residual "
        "post_norm up_gate activation down residual"
    )


def test_a_gated_norm_is_no_post_norm() -> None:
    # Linear attention without feed-forward part: its norm stands before the output projection.
    assert roles("NGVLSuNGi") == words(
        "input_norm qkv conv delta_rule gating gating gating o_proj residual"
    )


MOE = "NGRKAGNGODPSPFi"


def test_moe() -> None:
    assert roles(MOE)[6:] == words(
        "post_norm router topk dispatch up_gate activation down combine residual"
    )
    assert groups(MOE)[6:] == words("gate gate gate moe moe moe moe moe moe")


def test_group_limited_routing_has_several_choices() -> None:
    assert roles("NGAGNGsiktrkmecktEriuucteEDPSDPurGSGi")[4:] == words(
        "post_norm router " + "topk " * 17 + "dispatch " * 4 + "up_gate activation down down "
        "combine combine shared_expert shared_expert shared_expert residual"
    )


def test_experts_as_batched_products_with_a_shared_expert() -> None:
    assert roles("NGAGNGkmEcsccuGSuGGSGuGrii")[4:] == words(
        "post_norm router topk topk topk topk topk topk dispatch dispatch up_gate activation "
        "activation down shared_expert shared_expert shared_expert shared_expert shared_expert "
        "combine combine residual"
    )


def test_a_choice_without_top_k_ends_with_its_last_softmax() -> None:
    assert roles("NGAGNGreuXEcreuXEjjcncteEDPSPF")[4:] == words(
        "post_norm router " + "topk " * 14 + "dispatch " * 6 + "up_gate activation down combine"
    )


def test_a_router_behind_a_shared_expert_may_be_two_products() -> None:
    assert roles("NGAGNGSGuGccGGXktDPSPF")[4:] == words(
        "post_norm shared_expert shared_expert shared_expert shared_expert shared_expert router "
        "router router router topk topk topk dispatch up_gate activation down combine"
    )


def test_a_scaled_residual_behind_the_experts() -> None:
    assert roles("NGAGuiNGXktDPSPFrui")[-4:] == words("combine combine residual residual")


def test_a_norm_between_attention_and_its_output_projection_belongs_to_attention() -> None:
    assert roles("NGRKAcNuGiNGSGi")[4:9] == words("attention attention qk_norm attention o_proj")


def test_step_sizes_of_mamba_are_projected_from_the_convolved_input() -> None:
    found = roles("NGVScGNNGisuGiNGSGi")
    assert (found[5], found[12]) == ("qkv", "o_proj")


def test_norms_of_step_sizes_begin_no_feed_forward_part() -> None:
    """Mamba without a feed-forward part: norms stand before the residual addition."""
    found = named("NGVScGNNNGisuSuGi")
    assert [name.role for name in found][-2:] == ["o_proj", "residual"]
    assert {name.group for name in found} == {"attention"}


def test_experts_in_a_loop() -> None:
    expert = "EGSGuGuK"
    assert roles(f"NGAGNGXk{expert}{expert}i")[7:] == words(
        "topk " + "dispatch up_gate activation up_gate activation down activation activation "
        "activation up_gate activation up_gate activation down combine combine residual"
    )


def test_softmax_and_sort_choose_the_experts() -> None:
    assert roles("NGAGNGXtDPSPF")[4:] == words(
        "post_norm router topk topk dispatch up_gate activation down combine"
    )


def test_a_shared_expert_before_the_router() -> None:
    layer = "NGRKAGNGSGGODPSPF"
    assert roles(layer)[6:] == words(
        "post_norm shared_expert shared_expert shared_expert router "
        "topk dispatch up_gate activation down combine"
    )
    assert groups(layer)[7:10] == ["shared"] * 3


def test_a_shared_expert_after_the_experts() -> None:
    layer = "NGRKAGNGODPSPFGSGii"
    assert roles(layer)[13:] == words(
        "combine shared_expert shared_expert shared_expert combine residual"
    )


def test_a_router_in_two_kernels_is_no_shared_expert() -> None:
    # DeepSeek-V3 in HF: the router's product in float32 is two kernels.
    assert roles("NGAGNccGGsitDPSuDPrGSGuGii")[4:9] == words(
        "post_norm router router router router"
    )


def test_experts_on_other_gpus() -> None:
    assert roles("NGRKAGNGOdPSPb")[6:] == words(
        "post_norm router topk dispatch up_gate activation down combine"
    )


def test_linear_attention() -> None:
    layer = "NGVsLNGNGODPSPF"
    assert roles(layer)[:8] == words(
        "input_norm qkv conv gating delta_rule gating o_proj post_norm"
    )
    assert groups(layer)[:7] == ["attention"] * 7


def test_an_output_gate_after_full_attention() -> None:
    assert roles("NGRKAsuGNGSG")[4:8] == words("attention gating gating o_proj")


def test_communication_follows_o_proj_and_down() -> None:
    layer = "NGRKAGCNGSGC"
    assert roles(layer)[6] == roles(layer)[-1] == "all_reduce"
    assert (groups(layer)[6], groups(layer)[-1]) == ("attention", "mlp")


def test_what_is_sent_to_experts_comes_back_as_the_combine() -> None:
    # Send and receive, or all-gather and reduce-scatter: the kernels do not say which way they go.
    layer = "NGRKAGNGOtCCEPSPcCEuri"
    assert roles(layer)[10:] == words(
        "dispatch dispatch dispatch up_gate activation down combine combine combine combine "
        "combine residual"
    )
    # Experts that are shared by ranks need no dispatch: there it is a sum over ranks.
    assert roles("NGRKAGNGODPSPFC")[-1] == "all_reduce"
    # A kernel that says that it is the combine leaves the sum over ranks to the other one.
    assert roles("NGRKAGNGOCPSPbC")[-1] == "all_reduce"


def test_an_all_reduce_fused_with_the_norm_is_the_norm_it_stands_for() -> None:
    assert roles("NGRKAGYGSGN"[:-1] + "Y") == words(
        "input_norm qkv rope kv_write attention o_proj post_norm up_gate activation down all_reduce"
    )


def test_attention_written_out_is_attention() -> None:
    assert roles("NGRGXGGNGSG") == words(
        "input_norm qkv rope attention attention attention o_proj post_norm up_gate activation down"
    )


def test_a_norm_written_out_is_one_role() -> None:
    assert roles("cpMiqucuGAGcpMiqucuGSG") == words(
        "input_norm qkv attention o_proj post_norm up_gate activation down"
    )


@pytest.mark.parametrize("layer", [DENSE, MOE, "NGVsLNGNGODPSPF", "NGNGGRKAGGNGSG"])
def test_roles_and_groups_are_those_of_the_closed_lists(layer: str) -> None:
    assert {name.role for name in named(layer)} <= {*ROLES, OTHER}
    assert {name.group for name in named(layer)} <= set(GROUPS)


def test_a_model_begins_with_its_embedding() -> None:
    assert prologue_roles("EeE") == ["embedding", "other", "other"]


def test_behind_prepared_inputs_the_last_gather_of_the_prologue_is_the_embedding() -> None:
    assert prologue_roles("cEeE") == ["other", "other", "other", "embedding"]


def test_communication_after_the_embedding_is_part_of_it() -> None:
    assert prologue_roles("cEC") == ["other", "embedding", "embedding"]


def test_a_compiled_embedding_is_an_elementwise_kernel() -> None:
    assert prologue_roles("cce") == ["other", "other", "embedding"]


def test_an_empty_prologue() -> None:
    assert prologue_roles("") == []


def test_the_epilogue_is_final_norm_lm_head_and_sampler() -> None:
    assert epilogue_roles("NcGgCXT") == words(
        "final_norm lm_head lm_head lm_head lm_head sampler sampler"
    )


@pytest.mark.parametrize(
    ("between", "rope", "prepared"), [(2 * "cucejui" + "ccm", 16, 1), ("uejuiuejuiccm", 10, 3)]
)
def test_what_is_rotated_in_higher_precision_is_cast_back(
    between: str, rope: int, prepared: int
) -> None:
    """ESM, ModernBERT: copies behind the rotation belong to it, where others prepare attention."""
    parts = units(list(f"E{2 * f'NGGG{between}AGiNGSGi'}N"))
    text = "".join(unit.letter for unit in parts)
    found = layer_roles(text, find_layers(parts)[0], [None] * len(text), cached=False)
    names = [name.role for name in found]
    attending = names.index("rope") + rope
    assert names[4:attending] == ["rope"] * rope
    assert names[attending : attending + prepared + 2] == ["attention"] * (prepared + 1) + [
        "o_proj"
    ]


def test_a_head_that_transforms_its_input_is_lm_head() -> None:
    """The prediction head of BERT and its kin: dense, activation, norm, decoder."""
    assert epilogue_roles("NGSNGT") == words(
        "final_norm lm_head lm_head final_norm lm_head sampler"
    )


def test_an_epilogue_without_lm_head() -> None:
    assert epilogue_roles("N") == ["final_norm"]


LATENT = "NGNGGNRKGAGiNGSGi"


def test_products_before_a_norm_make_latents_in_replays_too() -> None:
    found = roles(LATENT)
    products = [role for letter, role in zip(LATENT, found, strict=True) if letter == "G"]
    assert products[:4] == ["q_a_kv_a", "q_b", "q_a_kv_a", "kv_b"]


def test_queries_without_a_latent_leave_one_up_projection_to_keys_and_values() -> None:
    layer = "NGGNRKGAGiNGSGi"
    assert [roles(layer)[at] for at in (1, 2, 6)] == ["q_a_kv_a", "q_a_kv_a", "kv_b"]


def test_norms_behind_the_first_two_products_are_those_of_queries_and_keys() -> None:
    layer = "NGNGNGGAGiNGSGi"
    assert [roles(layer)[at] for at in (1, 3, 5, 6)] == ["qkv"] * 4


def test_a_narrow_projection_of_values_is_no_latent_attention() -> None:
    # Grouped values, and a small product that makes a mask from them.
    layer = "NGGGRKGsAGiNGSGi"
    wide, narrow = Product(1, 1024, 1024), Product(1, 1024, 256)
    shapes = [None, wide, narrow, narrow, None, None, Product(1, 256, 4)]
    assert [roles(layer, shapes)[at] for at in (1, 2, 3, 6)] == ["qkv"] * 4


def test_products_that_mix_streams_before_attention_are_not_its_projections() -> None:
    layer = "NGsGiNGGiNGGGRKAGiNGSGi"
    stream = Product(1, 1024, 1024)
    mixing = [Product(1, 1024, 4), Product(1, 4, 16), Product(1, 1024, 64), Product(1, 64, 1024)]
    shapes: list[Product | None] = [None] * len(layer)
    for at, shape in zip((1, 3, 6, 7, 10, 11, 12), [*mixing, *[stream] * 3], strict=True):
        shapes[at] = shape
    found = roles(layer, shapes)
    assert found[0] == "input_norm"
    assert found[1:10] == [OTHER] * 9
    assert found[10:13] == ["qkv"] * 3


def test_keys_end_their_rotation_as_queries_do() -> None:
    # The first concatenation behind the keys ends their rotation, as one ends that of the queries.
    layer = "NGNGGNuuijuuijjjjGccAGiNGSGi"
    found = roles(layer)
    assert found[13:18] == ["rope", "kv_write", "kv_write", "attention", "kv_b"]


def test_an_encoder_can_rotate_without_concatenating() -> None:
    layer = "NGGGcccceccuuieccuuiccAGiNGSGi"
    parts = units(list(f"E{layer * 2}N"))
    text = "".join(unit.letter for unit in parts)
    found = layer_roles(text, find_layers(parts)[0], [None] * len(text), cached=False)
    assert [x.role for x in found[4:22]] == ["rope"] * 16 + ["attention"] * 2


def test_a_lone_scale_turns_nothing() -> None:
    parts = units(list(f"E{2 * 'NGGGucAGiNGSGi'}N"))
    text = "".join(unit.letter for unit in parts)
    found = layer_roles(text, find_layers(parts)[0], [None] * len(text), cached=False)
    assert [x.role for x in found[4:7]] == ["attention"] * 3


def test_projections_to_gates_are_no_part_of_the_delta_rule() -> None:
    layer = "NGGGjVSGsuGcisccurIuuriGNsuGiNGSGi"
    found = roles(layer)
    products = [role for letter, role in zip(layer, found, strict=True) if letter == "G"]
    assert products == [*["qkv"] * 6, "o_proj", "up_gate", "down"]


def test_batched_products_update_the_state_of_linear_attention() -> None:
    layer = "NGGGjVSGcuGcuGNsuGiNGSGi"
    shapes: list[Product | None] = [None] * len(layer)
    places = [at for at, letter in enumerate(layer) if letter == "G"][3:6]
    for at, batch in zip(places, (1, 16, 1), strict=True):
        shapes[at] = Product(batch, 1024, 64)
    assert [roles(layer, shapes)[at] for at in places] == ["qkv", "delta_rule", "qkv"]


def test_a_condition_can_scale_without_a_shift() -> None:
    layer = "SGNIuGNnejuiNnejuiAGsNuiNIuGSGuGsNui"
    found = roles(layer)
    assert found[:6] == [*["modulation"] * 2, "input_norm", *["modulation"] * 2, "qkv"]
    feed = layer.index("NIuGS")
    assert found[feed : feed + 4] == ["post_norm", "modulation", "modulation", "up_gate"]


def test_a_norm_can_be_modulated_by_what_was_made_before_the_layers() -> None:
    layer = "NIuiGAGuiNIuiGSGui"
    assert roles(layer)[:5] == ["input_norm", *["modulation"] * 3, "qkv"]
