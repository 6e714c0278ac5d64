"""Norms behind the residual addition end a layer; those before its projections begin one."""

from __future__ import annotations

import pytest

from solscope.attribution.layers import find_layers
from solscope.attribution.roles import layer_roles
from solscope.attribution.sequence import units

BEHIND = "GGGAGiNGSGiN"
BEFORE = "NGGGAGiNGSGi"


def found(text: str) -> list[str]:
    """The text of each layer."""
    parts = units(list(text))
    return [text[parts[x.start].start : parts[x.end - 1].end] for x in find_layers(parts)]


@pytest.mark.parametrize(
    "prologue",
    ["EEi", "E", "EEiEiN", "EEiNG", "EiNccGjeueu", "EEiNcrnE"],
    ids=[
        *("no norm at all", "no sum either", "segments", "projection to another width"),
        *("angles of a rotation", "a mask"),
    ],
)
def test_a_first_layer_without_a_norm_shows_that_norms_stand_behind(prologue: str) -> None:
    layers = find_layers(units(list(f"{prologue}{BEHIND * 3}Gs")))
    assert found(f"{prologue}{BEHIND * 3}Gs") == [BEHIND] * 3
    assert all(layer.norm_behind for layer in layers)


@pytest.mark.parametrize(
    ("prologue", "epilogue"),
    [("E", "NGT"), ("EEi", "N"), ("EerEnIEi", "NGT"), ("ooij", "NGs"), ("EnIccGjeueucc", "NGT")],
    ids=["lone embedding", "positions", "mask and positions", "patches", "angles before the norm"],
)
def test_a_norm_right_before_the_first_projections_begins_the_layers(
    prologue: str, epilogue: str
) -> None:
    assert found(f"{prologue}{BEFORE * 3}{epilogue}") == [BEFORE] * 3


def test_the_norm_of_a_lone_embedding_stands_in_for_that_of_the_first_layer() -> None:
    text = f"ENnnIGjeu{BEFORE[1:]}{BEFORE * 2}N"
    assert found(text) == [BEFORE[1:], BEFORE, BEFORE]


def test_additions_inside_norms_do_not_show_where_these_stand() -> None:
    # As engines fuse them, and the first norm into the embedding.
    first, other = "GRKAGNGSG", "NGRKAGNGSG"
    assert found(f"E{first}{other * 2}NGT")[1:] == [other] * 2


def test_the_last_norm_of_a_layer_has_the_role_of_one_inside_it() -> None:
    text = f"EEi{BEHIND * 2}GT"
    for layer in find_layers(units(list(text))):
        roles = [named.role for named in layer_roles(text, layer, [None] * len(text))]
        assert roles[0] == "qkv"
        assert roles[-2:] == ["residual", "post_norm"]


def test_both_attentions_of_a_decoder_have_their_norms_behind() -> None:
    layer = "GGGjjAGiNGGGAGiNGSGiN"
    layers = find_layers(units(list(f"EEiNcr{layer * 3}GT")))
    assert found(f"EEiNcr{layer * 3}GT") == [layer] * 3
    assert [x.blocks[0].end == x.blocks[1].start for x in layers] == [True] * 3
    assert found(f"EEiNcr{layer * 3}GT")[0][layers[0].blocks[1].start - layers[0].start] == "G"


def test_a_second_stack_can_norm_behind_where_the_first_norms_before() -> None:
    text = f"oojEiN{BEFORE * 3}cNGcEcEiEiNcr{BEHIND * 3}Gpr"
    assert found(text) == [BEFORE] * 3 + [BEHIND] * 3
