from __future__ import annotations

from collections.abc import Sequence

import pytest

from solscope.attribution.confidence import known_patterns
from solscope.attribution.layers import find_layers, model_of
from solscope.attribution.patterns import doubts_about, parts_of
from solscope.attribution.products import Product
from solscope.attribution.roles import layer_roles
from solscope.attribution.sequence import units

DENSE = "NGGGRKAGiNGSGuGi"


def interpreted(
    text: str, products: dict[int, Product] | None = None
) -> tuple[Sequence[str | None], list[list[str]]]:
    """The doubts about the layers of a pass, and their patterns."""
    parts = units(list(text))
    short = "".join(unit.letter for unit in parts)
    layers = find_layers(parts)
    shapes = [(products or {}).get(unit.start) for unit in parts]
    cached = model_of(short, layers) == "decoder"
    roles = [layer_roles(short, layer, shapes, cached=cached) for layer in layers]
    patterns = [list(parts_of(short, x, r)) for x, r in zip(layers, roles, strict=True)]
    return doubts_about(short, layers, roles, shapes), patterns


USUAL = ["mix: norm qkv mix o_proj", "feed: norm up_gate down"]


@pytest.mark.parametrize(
    "layer",
    [DENSE, "NGRKAGNGSG", "NGgQGRKAaGgiNGGSuGgi", "NGKAGCiNGSGCi"],
    ids=["written out", "fused", "with helpers", "tensor parallel"],
)
def test_what_kernels_fuse_or_split_does_not_change_a_pattern(layer: str) -> None:
    assert interpreted(f"E{layer * 3}NGT") == ([None] * 3, [USUAL] * 3)


def test_norms_of_queries_and_keys_are_one_part_wherever_they_stand() -> None:
    apart = interpreted(f"E{'NGNGNGRKAGiNGSGi' * 3}NGT")[1][0][0]
    together = interpreted(f"E{'NGGGNNRKAGiNGSGi' * 3}NGT")[1][0][0]
    assert apart == together == "mix: norm qkv norm mix o_proj"


def test_a_part_that_no_recording_has_is_doubted() -> None:
    # Two projections more than a feed-forward part has.
    doubt, patterns = interpreted(f"E{'NGRKAGiNGSGGSGGSGi' * 3}NGT")
    assert doubt == ["new"] * 3
    assert not set(patterns[0]) <= known_patterns()


def test_a_first_layer_may_compute_what_all_use() -> None:
    assert interpreted(f"E{'NGGGGGRKAGiNGSGuGi'}{DENSE * 3}NGT")[0] == ["new", None, None, None]


def test_layers_of_two_kinds_in_strict_alternation_may_be_halves() -> None:
    moe = "NGRKAGiNGXkDPSPFi"
    assert interpreted(f"E{(moe + DENSE) * 3}NGT")[0] == ["alternating"] * 6
    assert interpreted(f"E{DENSE}{moe * 5}NGT")[0] == [None] * 6


def test_experts_that_run_in_other_numbers_alternate_all_the_same() -> None:
    """LongCat-Flash in eager mode: a loop over the experts that tokens chose."""
    looped = ["NGRKAGiNGXk" + "EGSuGE" * experts + "i" for experts in (3, 2, 4)]
    text = "".join(moe + DENSE for moe in looped)
    assert interpreted(f"E{text}NGT")[0] == ["alternating"] * 6


def test_projections_of_other_widths_than_the_stream_are_doubted() -> None:
    text = f"E{'NGRKAGiNGSGi' * 3}NGT"
    qkv, output, up, down = 2, 6, 9, 11
    stream = {qkv: (64, 96), output: (32, 64), up: (64, 256), down: (256, 64)}
    right = {at + 12 * n: Product(1, *x) for n in range(3) for at, x in stream.items()}
    assert interpreted(text, right)[0] == [None] * 3
    assert interpreted(text, {**right, output: Product(1, 32, 128)})[0] == ["widths"] * 3
