"""Layers that are more, or less, than one mixer and one feed-forward part."""

from __future__ import annotations

from solscope.attribution.layers import find_layers
from solscope.attribution.roles import layer_roles
from solscope.attribution.sections import Layer
from solscope.attribution.sequence import units


def found(text: str) -> list[tuple[str, str]]:
    """Text and label of each layer."""
    layers = find_layers(units(list(text)))
    return [(text[x.start : x.end], x.label) for x in layers]


def roles(text: str, layer: Layer) -> list[str]:
    return [named.role for named in layer_roles(text, layer, [None] * len(text))]


def test_two_attentions_before_each_feed_forward_part_are_one_layer() -> None:
    layer = "NGGGjjAGiNGGGAGiNGSGi"
    assert found(f"E{layer}{layer}NGT") == [(layer, "attention+attention+dense")] * 2


def test_both_attentions_of_a_layer_have_their_roles() -> None:
    text = f"E{2 * 'NGjjAGiNGAGiNGSGi'}NGT"
    first = ["input_norm", "qkv", "kv_write", "kv_write", "attention", "o_proj", "residual"]
    second = ["input_norm", "qkv", "attention", "o_proj", "residual"]
    feed = ["post_norm", "up_gate", "activation", "down", "residual"]
    for layer in find_layers(units(list(text))):
        assert roles(text, layer) == [*first, *second, *feed]


def test_the_same_mixer_with_and_without_feed_forward_part_is_a_layer_of_its_own() -> None:
    mamba, attention, feed = "NGVSuGi", "NGjjAGi", "NGepGi"
    text = f"E{mamba}{feed}{mamba}{attention}{feed}{mamba}NGT"
    assert found(text) == [
        (mamba, "linear_attention+none"),
        (feed, "none+dense"),
        (mamba, "linear_attention+none"),
        (attention, "attention+none"),
        (feed, "none+dense"),
        (mamba, "linear_attention+none"),
    ]


def test_one_layer_without_feed_forward_part_does_not_take_the_others_apart() -> None:
    whole, bare = "NGRKAGNGSG", "NGRKAG"
    labels = [label for _, label in found(f"E{whole}{whole}{bare}NGT")]
    assert labels == ["attention+dense", "attention+dense", "attention+none"]


def test_an_embedding_between_layers_begins_a_second_stack() -> None:
    layer = "NGGGAGiNGSGi"
    assert found(f"oi{layer}{layer}{layer}NGEEi{layer}{layer}{layer}NG") == [
        *[(layer, "attention+dense")] * 3,
        *[(layer, "attention+dense, stack 2")] * 3,
    ]


def test_an_encoder_and_a_decoder_are_two_stacks() -> None:
    encoder, decoder = "NGGGAGiNGSGi", "NGGGjjAGiNGGGAGiNGSGi"
    assert found(f"E{encoder}{encoder}NE{decoder}{decoder}N") == [
        *[(encoder, "attention+dense")] * 2,
        *[(decoder, "attention+attention+dense, stack 2")] * 2,
    ]


def test_the_gathers_of_experts_begin_no_stack() -> None:
    layer = "NGRKAGiNGXktEEGSGEui"
    assert [label for _, label in found(f"E{3 * layer}NGT")] == ["attention+moe"] * 3


def test_a_first_layer_that_computes_what_all_use_begins_at_its_norm() -> None:
    first, other = "NGGGnIeecEcuuGiXecGcGiNGeGi", "NGGGcuuGiXecGcGiNGeGi"
    assert [text for text, _ in found(f"E{first}{other}{other}N")] == [first, other, other]


def test_a_first_layer_without_norm_begins_behind_the_prologue() -> None:
    bare, other = "GcuejuiAGiNGSGi", "NGcuejuiAGiNGSGi"
    texts = [text for text, _ in found(f"ENnnIGjeu{bare}{other}{other}N")]
    assert texts == [bare, other, other]
