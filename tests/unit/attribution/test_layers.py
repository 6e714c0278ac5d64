from __future__ import annotations

import pytest

from solscope.attribution.layers import find_layers, model_of
from solscope.attribution.sequence import units


def texts(text: str) -> list[str]:
    """The layers as pieces of `text`, before and after them what lies outside."""
    parts = units(list(text))
    layers = find_layers(parts)
    if not layers:
        return []
    inside = [text[parts[x.start].start : parts[x.end - 1].end] for x in layers]
    return [text[: parts[layers[0].start].start], *inside, text[parts[layers[-1].end - 1].end :]]


def kinds(text: str) -> list[str]:
    return [layer.kind for layer in find_layers(units(list(text)))]


def test_dense_layers_lie_between_embedding_and_final_norm() -> None:
    assert texts("ENGRKAGNGSGNGRKAGNGSGNGT") == ["E", "NGRKAGNGSG", "NGRKAGNGSG", "NGT"]
    assert kinds("ENGRKAGNGSGNGRKAGNGSGNGT") == ["attention+dense"] * 2


def test_gate_and_up_may_stand_around_the_activation() -> None:
    assert texts("ENGAGiNGSGuGiNGAGiNGSGuGiNGT") == ["E", "NGAGiNGSGuGi", "NGAGiNGSGuGi", "NGT"]


def test_split_k_helpers_stay_with_their_layer() -> None:
    assert texts("ENGgAaGgNGSGgNGgAaGgNGSGgNGgT")[1:3] == ["NGgAaGgNGSGg"] * 2


def test_norms_of_queries_and_keys_do_not_cut() -> None:
    assert texts("ENGNNRKAGNGSGNGNNRKAGNGSGNGT")[1:3] == ["NGNNRKAGNGSG"] * 2


def test_norms_written_out_in_single_kernels_cut() -> None:
    norm = "cpMiqucu"
    layer = f"{norm}GRAG{norm}GSG"
    assert texts(f"E{layer}{layer}{norm}GT") == ["E", layer, layer, f"{norm}GT"]


def test_a_moe_layer_ends_with_its_combine() -> None:
    layer = "NGRKAGNGODPSPF"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+moe"] * 2


@pytest.mark.parametrize(
    "layer",
    ["NGRKAGNGSGGODPSPF", "NGRKAGNGODPSPFGSGi"],
    ids=["before the router", "after the experts"],
)
def test_a_shared_expert_belongs_to_its_moe_layer(layer: str) -> None:
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+moe"] * 2


def test_dense_first_layers_are_another_kind_than_moe_layers() -> None:
    dense, moe = "NGRKAGNGSG", "NGRKAGNGODPSPF"
    assert kinds(f"E{dense}{moe}{moe}NGT") == ["attention+dense", "attention+moe", "attention+moe"]


def test_linear_attention_lies_between_full_attention() -> None:
    linear, full = "NGVLNGNGODPSPF", "NGNNRKAGNGODPSPF"
    text = f"E{linear * 3}{full}NGT"
    assert texts(text) == ["E", linear, linear, linear, full, "NGT"]
    assert kinds(text) == ["linear_attention+moe"] * 3 + ["attention+moe"]


def test_a_delta_rule_written_out_with_products_is_one_layer() -> None:
    linear = "NGVSsiulluGiGGiuGicNSuGiNGXtDPSuDPrGsui"
    assert kinds(f"E{linear}{linear}NGT") == ["linear_attention+moe"] * 2


def test_two_attention_kernels_without_a_projection_between_them_are_one_call() -> None:
    # A mixed step runs one kernel for prefill and one for decode tokens.
    assert texts("ENGRKAAGNGSGNGRKAAGNGSGNGT")[1:3] == ["NGRKAAGNGSG"] * 2


def test_softmax_between_two_products_is_attention() -> None:
    layer = "NGRGXGGNGSG"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+dense"] * 2


def test_the_softmax_of_a_router_is_no_attention() -> None:
    layer = "NGRKAGNGXtDPSPF"
    assert texts(f"E{layer}{layer}NGT")[1:3] == [layer, layer]


def test_an_all_reduce_fused_with_the_norm_ends_the_layer() -> None:
    assert texts("ENGRKAGYGSGYGRKAGYGSGYGT") == ["E", "NGRKAGYGSGY", "GRKAGYGSGY", "GT"]


def test_a_layer_without_any_norm_begins_at_its_projection() -> None:
    assert texts("EGAGGSGGAGGSG")[1:3] == ["GAGGSG", "GAGGSG"]


@pytest.mark.parametrize("text", ["NGRKAGNGSG", "NGRKAGNGSGNGT", "ENGRKAGNGSGNG"])
def test_one_mixer_is_no_layered_model(text: str) -> None:
    assert find_layers(units(list(text))) == []


def test_one_mixer_between_an_embedding_and_a_choice_is_a_head_that_drafts() -> None:
    (layer,) = find_layers(units(list("ENGRKAGNGSGNGT")))
    assert (layer.start, layer.end) == (1, 11)


def test_a_model_without_mixers_has_no_layers() -> None:
    assert find_layers(units(list("GNGNGNSGNGSGNG"))) == []
    assert find_layers([]) == []


def test_a_cut_head_begins_with_the_prologue_of_what_is_left() -> None:
    # The profile begins in the feed-forward part of a layer: that part is not taken for a layer.
    assert texts("GSGNGRKAGNGSGNGRKAGNGSGNGT") == ["GSG", "NGRKAGNGSG", "NGRKAGNGSG", "NGT"]


def test_a_last_layer_without_epilogue_ends_with_the_pass() -> None:
    assert texts("ENGAGiNGSGiNGAGiNGSGi") == ["E", "NGAGiNGSGi", "NGAGiNGSGi", ""]


def test_a_recording_may_end_in_the_middle_of_a_layer() -> None:
    # The activation is written out, so landmarks do not show where layers begin.
    layer = "NGAGiNGupuGi"
    assert texts(f"E{layer * 3}NGAGi") == ["E", layer, layer, layer, "NGAGi", ""]


def test_a_recording_cut_at_both_ends_is_cut_at_landmarks() -> None:
    layer = "NGRKAGCNGQDPPFC"
    found = texts(f"QDPPFC{layer * 3}NGRKAG")
    assert found[:4] == ["QDPPFC", layer, layer, layer]


# --- What repeats around the mixers, where landmarks would mislead


def test_a_norm_behind_the_feed_forward_part_stays_in_its_layer() -> None:
    layer = "GNGNGRKAGNiGSGNi"
    assert texts(f"E{layer}{layer}{layer}NGT") == ["E", layer, layer, layer, "NGT"]


def test_norms_on_both_sides_of_attention_and_feed_forward() -> None:
    layer = "NGRKAGNiNGSGNi"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]


@pytest.mark.parametrize("activation", ["e", "ep", "o"], ids=["relu", "squared relu", "unknown"])
def test_the_activation_need_not_be_known(activation: str) -> None:
    layer = f"NGRKAGiNG{activation}Gi"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+dense"] * 2


def test_attention_and_feed_forward_side_by_side() -> None:
    layer = "NGRKAGGSGuGii"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+dense"] * 2


def test_neither_norm_nor_activation_need_be_known() -> None:
    layer = "oGRKAGGeGi"
    assert texts(f"EeieE{layer}{layer}oGT") == ["EeieE", layer, layer, "oGT"]


def test_an_addition_at_the_end_of_the_prologue_is_no_part_of_the_first_layer() -> None:
    # Token and position embeddings are added, as residuals are at the end of each layer.
    layer = "NGjjAGiNGeGi"
    assert texts(f"EEi{layer}{layer}NGT") == ["EEi", layer, layer, "NGT"]


def test_two_mixers_with_no_norm_between_them_share_a_layer() -> None:
    layer = "NGVSuGuGRKAGiNGSGi"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["attention+dense"] * 2


def test_layers_with_and_without_rotary_embedding_alternate() -> None:
    rotated, plain = "NGGGuejuijjAGiNGSGNi", "NGGGjjAGiNGSGNi"
    text = f"E{rotated}{rotated}{plain}{rotated}{plain}NGT"
    assert texts(text) == ["E", rotated, rotated, plain, rotated, plain, "NGT"]


def test_a_last_layer_of_another_kind_ends_as_the_others_end() -> None:
    linear, full = "NGVSscGuNGiNGSGNi", "NGNGRKAsuGiNGSGNi"
    text = f"E{linear * 3}{full}NGT"
    assert texts(text) == ["E", linear, linear, linear, full, "NGT"]


def test_scans_inside_linear_attention_are_no_choice_of_experts() -> None:
    layer = "NGVSsttGuNGiNGSGi"
    assert kinds(f"E{layer}{layer}NGT") == ["linear_attention+dense"] * 2


def test_linear_attention_alone_has_no_feed_forward_part() -> None:
    layer = "NGVLNGi"
    assert texts(f"E{layer}{layer}NGT") == ["E", layer, layer, "NGT"]
    assert kinds(f"E{layer}{layer}NGT") == ["linear_attention+none"] * 2


def test_helpers_may_come_and_go_from_layer_to_layer() -> None:
    text = "E" + "NGRKAGNiGSGNi" + "NGgRKAGgNiGSGgNi" + "NGRKAGNimGSGNi" + "NGT"
    assert texts(text)[1:4] == ["NGRKAGNiGSGNi", "NGgRKAGgNiGSGgNi", "NGRKAGNimGSGNi"]


def test_a_mean_subtracting_norm_written_out_is_one_norm() -> None:
    norm = "cMipMiIqucuc"
    layer = f"{norm}GGGccueccuiccjjAGGSGuGii"
    assert texts(f"EnIcG{layer}{layer}{norm}GuT") == ["EnIcG", layer, layer, f"{norm}GuT"]


def test_layers_are_plausible_when_those_of_a_kind_have_the_same_parts() -> None:
    layer = "NGRKAGNGSG"
    assert [x.plausible for x in find_layers(units(list(f"E{layer}{layer}NGT")))] == [True] * 2
    odd = "NGNRKAGNGSG"
    found = find_layers(units(list(f"E{layer}{layer}{odd}NGT")))
    assert [x.plausible for x in found] == [True, True, False]


def test_a_feed_forward_part_before_the_mixer_ends_a_layer_whose_mixer_is_not_recognised() -> None:
    known, unknown = "NGGGRKAGiNGSGi", "NGSeueGucGiujNGsuGiNGSGi"
    text = f"E{unknown}{known}{unknown}{known}NGT"
    assert texts(text) == ["E", unknown, known, unknown, known, "NGT"]
    assert kinds(text) == ["linear_attention+dense", "attention+dense"] * 2


@pytest.mark.parametrize(
    ("prologue", "layer", "epilogue", "expected"),
    [
        ("E", "NGGGAGiNGSGi", "NG", "encoder"),
        ("E", "NGGGAGiNGSGi", "NGT", "decoder"),
        ("E", "NGGGjjAGiNGSGi", "NG", "decoder"),
        ("E", "NGRKAGNGSG", "NG", "decoder"),
        ("E", "NGVLNGi", "NG", "decoder"),
        ("E", "NGRAGNGSG", "N", "unknown"),
        ("E", "NGGGuejuiuejuiAGiNGSGi", "N", "unknown"),
        ("ooi", "NGGGuejuiuejuijjAGiNGSGi", "N", "unknown"),
        ("E", "NGGGAGiNGSGi", "NTEG", "encoder"),
    ],
    ids=[
        *("nothing", "samples", "grows a cache", "writes a cache", "linear attention"),
        *("rotates in one kernel", "rotates", "rotates parts of an image", "pools by the largest"),
    ],
)
def test_only_what_generates_is_a_decoder(
    prologue: str, layer: str, epilogue: str, expected: str
) -> None:
    text = f"{prologue}{layer}{layer}{epilogue}"
    assert model_of(text, find_layers(units(list(text)))) == expected
