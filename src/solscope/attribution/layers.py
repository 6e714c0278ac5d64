"""Layers: which layer of the model each kernel of a pass belongs to, from their order alone.

A layer mixes tokens once, or twice on the same input. These *mixers* (`mixers.py`) are the anchors.
Two methods say where one layer ends and the next begins: what repeats around the mixers
(`alignment.py`) and landmarks such as norms and activations (`landmarks.py`). The first decides
where it can; whether the second agrees, and whether the layers look like layers, is kept with each
layer as evidence. What comes before the first layer is the prologue (embedding, positions), what
follows the last is the epilogue (final norm, lm_head, sampler).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from solscope.attribution.alignment import align
from solscope.attribution.blocks import regroup
from solscope.attribution.confidence import Model
from solscope.attribution.landmarks import cut_at_landmarks
from solscope.attribution.mixers import Mixer, by_layer, find_mixers
from solscope.attribution.norm_placement import with_norms_behind
from solscope.attribution.sections import Layer, feed_forward_kind, feed_forward_start
from solscope.attribution.sequence import FEED_FORWARD, NORMS, PRODUCTS, Letter, Unit

MIN_LAYERS, MAX_LAYERS = 2, 200
"""Fewer mixers are no evidence of a layered model; more are several runs through it, or none."""

Place = Literal["layer", "prologue", "epilogue"]


def find_layers(sequence: list[Unit]) -> list[Layer]:
    """The layers of one pass; empty when no layered structure is seen."""
    text = "".join(unit.letter for unit in sequence)
    groups = by_layer(text, find_mixers(text))
    least = 1 if _is_head(text, groups) else MIN_LAYERS
    if not least <= len(groups) <= MAX_LAYERS:
        return []
    whole = [Mixer(g[0].start, g[-1].end, g[0].kind) for g in groups]
    marks = cut_at_landmarks(text, whole)
    repeated = align(text, whole)
    bounds = marks if repeated is None else repeated
    layers = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        made = _layer(text, start, end, groups[number])
        agreed = marks[number : number + 2] == [start, end]
        layers.append(made._replace(aligned=repeated is not None, agreed=agreed))
    grouped = regroup(text, _with_unrecognized(text, layers))
    return _judged(text, with_norms_behind(text, grouped))


def _is_head(text: str, groups: Sequence[tuple[Mixer, ...]]) -> bool:
    """Whether a single layer is all of a model: a head that drafts tokens.

    It lies between the embedding of a token and the choice of the next.
    """
    if sum(len(group) for group in groups) != 1:
        # Where norms are not recognized, the mixers of all layers are one group.
        return False
    before, after = text[: groups[0][0].start], text[groups[0][0].end :]
    scored = after[max((after.rfind(norm) for norm in NORMS), default=-1) :]
    chosen = scored.partition(Letter.GEMM)[2]
    return Letter.GATHER in before and bool({Letter.SAMPLING, Letter.TOPK} & set(chosen))


_TURNED = frozenset((Letter.CONCATENATION, Letter.ROPE))
"""Kernels between the projections and attention that rotate queries and keys."""


def model_of(text: str, layers: Sequence[Layer]) -> Model:
    """Whether layers are those of a model that generates tokens, as far as that is seen.

    It writes keys and values to a cache, samples from the scores of a projection, or mixes by
    linear attention. A cache that grows is concatenated, keys and values one after the other; so
    are parts of an image, but these begin without an embedding of tokens. Rotary embeddings alone
    say nothing: encoders have them as well. Nor does a largest element alone: towers pool by it.
    """
    if any(mixer.kind == "linear_attention" for layer in layers for mixer in layer.mixers):
        return "decoder"
    heads = [text[x.start : x.mixers[0].start] for x in layers if x.mixers]
    embedded = Letter.GATHER in text[: layers[0].start]
    cached = sum(
        Letter.KV_WRITE in head or (embedded and 2 * Letter.CONCATENATION in head) for head in heads
    )
    scored = text[layers[-1].end :].partition(Letter.GEMM)[2]
    if 2 * cached > len(heads) or Letter.SAMPLING in scored:
        return "decoder"
    turned = sum(bool(_TURNED & set(head)) for head in heads)
    return "unknown" if 2 * turned > len(heads) else "encoder"


def stack_models(text: str, layers: Sequence[Layer]) -> dict[int, Model]:
    """The same for each stack: of an encoder and a decoder, the second has a cache."""
    out: dict[int, Model] = {}
    end = len(text)
    for stack in range(layers[-1].stack, -1, -1):
        own = [layer for layer in layers if layer.stack == stack]
        out[stack] = model_of(text[:end], own)
        end = own[0].start
    return out


def _layer(text: str, start: int, end: int, mixers: tuple[Mixer, ...]) -> Layer:
    feed = feed_forward_start(text, mixers[-1], end)
    return Layer(start, end, mixers, feed, feed_forward_kind(text[feed:end]))


def _with_unrecognized(text: str, layers: list[Layer]) -> list[Layer]:
    """The layers and those before them whose mixer is not recognized.

    A feed-forward part that stands before the mixer of a layer ends another layer.
    """
    feed_forwards = {text[layer.feed_start : layer.end] for layer in layers}
    patterns = sorted((p for p in feed_forwards if _count(p, PRODUCTS) >= 2), key=len, reverse=True)
    out: list[Layer] = []
    for layer in layers:
        rest = layer
        while (split := _split(text, rest, patterns)) is not None:
            out.append(split)
            rest = rest._replace(start=split.end)
        out.append(rest)
    return out


def _split(text: str, layer: Layer, patterns: list[str]) -> Layer | None:
    """The first layer inside the head of another, where its feed-forward part is a known one."""
    for pattern in patterns:
        feed_start = text.find(pattern, layer.start, layer.mixers[0].start)
        products = [i for i in range(layer.start, max(feed_start, 0)) if text[i] in PRODUCTS]
        if len(products) >= 2:
            mixer = Mixer(products[0] + 1, products[-1], "linear_attention")
            return Layer(
                layer.start,
                feed_start + len(pattern),
                (mixer,),
                feed_start,
                feed_forward_kind(pattern),
            )
    return None


def _count(text: str, letters: frozenset[str]) -> int:
    return sum(letter in letters for letter in text)


def _judged(text: str, layers: list[Layer]) -> list[Layer]:
    """The layers with the check whether each has the parts that the others of its kind have."""
    counted = [_parts(text, layer) for layer in layers]
    usual = {
        kind: Counter(p for p, x in zip(counted, layers, strict=True) if x.kind == kind)
        for kind in {layer.kind for layer in layers}
    }
    return [
        layer._replace(
            plausible=counts == usual[layer.kind].most_common(1)[0][0]
            and counts.norms > 0
            and counts.feed_forward_before == 0
            and layer.feed_forward != "none"
        )
        for layer, counts in zip(layers, counted, strict=True)
    ]


class _Parts(NamedTuple):
    norms: int
    projections: int
    feed_forward_before: int
    """Kernels of a feed-forward part before the mixer, where none belongs."""


def _parts(text: str, layer: Layer) -> _Parts:
    head = text[layer.start : layer.mixers[0].start if layer.mixers else layer.start]
    return _Parts(
        _count(text[layer.start : layer.end], NORMS),
        _count(head, PRODUCTS),
        _count(head, FEED_FORWARD),
    )
