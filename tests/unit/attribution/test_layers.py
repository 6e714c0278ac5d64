from __future__ import annotations

import pytest

from solscope.attribution.layers import find_layers
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


def test_one_mixer_is_no_layered_model() -> None:
    assert find_layers(units(list("ENGRKAGNGSGNGT"))) == []


def test_a_model_without_mixers_has_no_layers() -> None:
    assert find_layers(units(list("GNGNGNSGNGSGNG"))) == []
    assert find_layers([]) == []


def test_a_cut_head_begins_with_the_prologue_of_what_is_left() -> None:
    # The profile begins in the feed-forward part of a layer: that part is not taken for a layer.
    assert texts("GSGNGRKAGNGSGNGRKAGNGSGNGT") == ["GSG", "NGRKAGNGSG", "NGRKAGNGSG", "NGT"]


def test_a_last_layer_without_epilogue_ends_with_the_pass() -> None:
    assert texts("ENGAGiNGSGiNGAGiNGSGi") == ["E", "NGAGiNGSGi", "NGAGiNGSGi", ""]
