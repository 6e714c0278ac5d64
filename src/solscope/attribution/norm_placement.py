"""Norms behind the residual addition: the layers of BERT and of the first GPT.

Nearly all models norm the input of each part. In some a norm follows each residual addition, so
the norm that stands before the projections of a layer ends the layer before it:

    norm before    E i [N GGG A G i N G S G i] [N GGG ...        N  final norm
    norm behind    E i N [GGG A G i N G S G i N] [GGG ... G i N]

From the second layer on the order of kernels is the same. What tells them apart is the first layer,
which is built as all others are: where it has no norm right before its projections, none of them
has. A norm of summed embeddings that something else follows (a projection to another width, a mask,
angles of a rotation) is not that of the layer either. The norm of a lone token embedding can be: a
first layer that would norm the same again does without. Where the norm of the embeddings stands
right before the first projection, nothing tells; but token, position *and* segment embeddings are
those of BERT and its descendants, which norm behind the addition.
"""

from __future__ import annotations

from collections.abc import Sequence

from solscope.attribution.mixers import without_helpers
from solscope.attribution.sections import Layer
from solscope.attribution.sequence import HELPERS, PRODUCTS, Letter
from solscope.patterns import lazy_pattern

_SEGMENTED = lazy_pattern(r"EiEic*Nc*$")
"""The norm of a sum of three embeddings: one says from which of two texts a token is."""
_EMBEDDED = lazy_pattern(r"Eic*N|^[^N]*E[^N]*$")
"""The norm of a sum of embeddings, which is not that of the first layer; or no norm at all."""


def with_norms_behind(text: str, layers: Sequence[Layer]) -> list[Layer]:
    """The layers, with the norm before each given to the layer before it where it ends that."""
    out: list[Layer] = []
    begin = 0
    for stack in range(layers[-1].stack + 1):
        own = [layer for layer in layers if layer.stack == stack]
        start = _first_projection(text, begin, own)
        out += own if start is None else _shifted(text, own, start)
        begin = own[-1].end
    return out


def _first_projection(text: str, begin: int, layers: Sequence[Layer]) -> int | None:
    """Where the first layer of a stack begins; None where norms stand before their parts.

    Only where additions are kernels of their own: one that is fused into a norm, or into the
    embedding, does not show on which side of it the norm stands.
    """
    rest = layers[1:]
    ends_with_norm = text[layers[-1].end : layers[-1].end + 1] == Letter.NORM
    if not rest or not ends_with_norm or not all(_opens_with_norm(text, x) for x in rest):
        return None
    heads = {_head(text, layer) for layer in rest}
    before, positions = without_helpers(text[begin : layers[0].mixers[0].start])
    head = max((h for h in heads if h and before.endswith(h)), key=len, default="")
    if not head:
        return None
    start = len(before) - len(head)
    opening = before[:start]
    normed = opening.rstrip(Letter.COPY).endswith(Letter.NORM)
    behind = _SEGMENTED if normed else _EMBEDDED
    return begin + positions[start] if behind.search(opening) else None


def _opens_with_norm(text: str, layer: Layer) -> bool:
    """An addition ends the layer before; this one begins with a norm and a projection."""
    if not layer.mixers or text[layer.start] != Letter.NORM:
        return False
    before, after = layer.start - 1, layer.start + 1
    while before > 0 and text[before] in HELPERS:
        before -= 1
    while after < layer.end and (text[after] in HELPERS or text[after] == Letter.COPY):
        after += 1
    return text[before] == Letter.ADD and text[after : after + 1] in PRODUCTS


def _head(text: str, layer: Layer) -> str:
    """What stands between the norm of a layer and its mixer."""
    return without_helpers(text[layer.start + 1 : layer.mixers[0].start])[0]


def _shifted(text: str, layers: Sequence[Layer], start: int) -> list[Layer]:
    """The layers of a stack, each with the norm behind it instead of the one before it."""
    starts = [start, *(layer.start + 1 for layer in layers[1:]), layers[-1].end + 1]
    return [
        _inner_shifted(text, layer).between(*starts[index : index + 2])._replace(norm_behind=True)
        for index, layer in enumerate(layers)
    ]


def _inner_shifted(text: str, layer: Layer) -> Layer:
    """The same between the two attentions of a layer."""
    if not layer.blocks or text[layer.blocks[1].start] != Letter.NORM:
        return layer
    first, second = layer.blocks
    cut = second.start + 1
    return layer._replace(blocks=(first.between(first.start, cut), second.between(cut, second.end)))
