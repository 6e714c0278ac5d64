"""Patterns: what the parts of a layer are made of, in order, as they were interpreted.

A mistake repeats from layer to layer as what is right does, so that layers look alike says little.
But most models are built from few parts: a norm, projections, attention, an output projection; a
norm, two projections around an activation. An interpretation that names an unusual order of parts
was either made for an unusual model, or it is wrong. So the parts of every layer are compared with
those that were right in recordings:

    norm qkv mix o_proj      the mixing part of nearly all models
    norm up_gate down        the usual feed-forward part

What kernels fuse or split is left out: the number of projections to queries, keys and values or of
up and gate, the activation between these and down, residual additions, rotation, cache writes,
quantization and communication.

Two more things speak against an interpretation. Where shapes are recorded, projections that read
and write the residual stream must have one width. And layers of two kinds in strict alternation can
be halves of layers that hold two of each: the order of kernels is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from solscope.attribution.confidence import Doubt, known_patterns
from solscope.attribution.sequence import MIXERS, NORMS, PRODUCTS, Letter
from solscope.patterns import lazy_pattern

if TYPE_CHECKING:
    from solscope.attribution.products import Product
    from solscope.attribution.roles import Named
    from solscope.attribution.sections import Layer

_FUSED = {"qkv": 3, "up_gate": 2}
"""Roles whose products are one or several, and the most of them that are usual."""
_EXPERTS = frozenset(("topk", "dispatch", "combine"))
_MIXING = frozenset(("attention", "attention_combine", "delta_rule", "conv", "gating"))
_MIXED = MIXERS | PRODUCTS | {Letter.SOFTMAX}
_ACTS = frozenset((Letter.ACTIVATION, Letter.GATE))
_LANDMARKS = NORMS | PRODUCTS | MIXERS | _ACTS | {Letter.SOFTMAX, Letter.UNKNOWN}
_LOOP = lazy_pattern(r"((?:\S+ ){2,8}?)\1+")
_OF_QUERIES = lazy_pattern(r"qkv norm (?:qkv norm )*(?:qkv )?")
"""Norms of queries and keys, each behind its projection or all behind the last."""


def doubts_about(
    text: str,
    layers: Sequence[Layer],
    roles: Sequence[Sequence[Named]],
    products: Sequence[Product | None],
) -> list[Doubt | None]:
    """What speaks against the interpretation of each layer; `roles` of the units of each.

    One layer that is not understood makes the number of all others doubtful; except the first,
    which may compute what all use.
    """
    pairs = list(zip(layers, roles, strict=True))
    if not all(_closes(x, named, products[x.start : x.end]) for x, named in pairs):
        return ["widths"] * len(layers)
    if _alternates(text, layers, products):
        return ["alternating"] * len(layers)
    familiar = known_patterns()
    new = [not familiar.issuperset(parts_of(text, x, named)) for x, named in pairs]
    if any(new[1:]):
        return ["new"] * len(layers)
    return ["new" if new[0] else None, *[None] * (len(layers) - 1)]


def _alternates(text: str, layers: Sequence[Layer], products: Sequence[Product | None]) -> bool:
    """Two kinds or forms of layers in strict alternation, twice at least, with equal mixers.

    Attention and linear attention do not alternate within a layer as far as is known, and masks of
    sliding windows differ in small kernels only. Of experts the kind alone counts: which of them
    run, and on how many tokens, differs from layer to layer.
    """
    forms = [_form(text[x.start : x.end], x, products[x.start : x.end]) for x in layers]
    alternates = _take_turns(forms) or _take_turns([x.label for x in layers])
    return alternates and layers[0].mixer == layers[1].mixer


def _take_turns(forms: Sequence[Hashable]) -> bool:
    first, second = forms[0::2], forms[1::2]
    return len(second) >= 2 and len(set(first)) == len(set(second)) == 1 and first[0] != second[0]


def _form(
    text: str, layer: Layer, products: Sequence[Product | None]
) -> tuple[str, str, tuple[Product | None, ...]]:
    """Kind, landmarks and shapes of a layer."""
    shapes = tuple(
        product for letter, product in zip(text, products, strict=True) if letter in PRODUCTS
    )
    return layer.label, "".join(letter for letter in text if letter in _LANDMARKS), shapes


_READ = frozenset(("qkv", "up_gate", "router", "q_a_kv_a"))
_WRITTEN = frozenset(("o_proj", "down"))


def _closes(layer: Layer, named: Sequence[Named], products: Sequence[Product | None]) -> bool:
    """True unless recorded shapes contradict: what reads and writes the stream has its width.

    Linear attention also projects what it made of its input.
    """
    inner = _READ if layer.mixer == "attention" else _READ - {"qkv"}
    single = [
        (role.role, product)
        for role, product in zip(named, products, strict=True)
        if product is not None and product.batch == 1
    ]
    read = {product.inner for role, product in single if role in inner}
    written = {product.outer for role, product in single if role in _WRITTEN}
    return not read or not written or len(read | written) == 1


def parts_of(text: str, layer: Layer, named: Sequence[Named]) -> Iterator[str]:
    """The patterns of the parts of a layer: mixing, then feed-forward."""
    if layer.blocks:
        position = 0
        for block in layer.blocks:
            length = block.end - block.start
            yield from parts_of(text, block, named[position : position + length])
            position += length
        return
    middle = layer.feed_start - layer.start
    for name, start, end in (("mix", 0, middle), ("feed", middle, layer.end - layer.start)):
        if start < end:
            letters = text[layer.start + start : layer.start + end]
            yield f"{name}: {_pattern(letters, [x.role for x in named[start:end]])}"


def _pattern(text: str, roles: Sequence[str]) -> str:
    tokens: list[str] = []
    products: dict[str, int] = {}
    for letter, role in zip(text, roles, strict=True):
        token = _token(letter, role)
        if token is None:
            continue
        if letter in PRODUCTS:
            products[role] = products.get(role, 0) + 1
            if tokens[-1:] == ["activation"] and "up_gate" in tokens[-2:]:
                # Between up and down, or gate and up. It may also be fused into a product.
                tokens.pop()
        if not tokens or tokens[-1] != token:
            tokens.append(token)
    if "router" not in products:
        several = {role: n for role, n in products.items() if n > _FUSED.get(role, n)}
        tokens = [f"{t}({several.pop(t)})" if t in several else t for t in tokens]
    joined = _OF_QUERIES.sub("qkv norm ", " ".join(tokens) + " ")
    return _LOOP.sub(r"\1... ", joined).strip()


def _token(letter: str, role: str) -> str | None:
    """What a unit shows in a pattern; None where it shows nothing."""
    if letter in NORMS:
        return "norm"
    if role in _EXPERTS:
        return "experts"
    if role in _MIXING:
        return "mix" if letter in _MIXED else None
    if letter in _ACTS or letter in PRODUCTS:
        return role
    return role if letter in _LANDMARKS and role == "other" else None
