"""Layers that are more, or less, than one mixer and one feed-forward part.

`layers.py` gives every mixer a layer with what follows it. Three kinds of models are built in
another way, and what repeats shows it:

* Two attentions, then one feed-forward part, over and over: a decoder that also attends to an
  encoder, or attention over time and then over space. They are one layer.

      NGAGi NGAGiNGSGi NGAGi NGAGiNGSGi  ->  [NGAGiNGAGiNGSGi] [NGAGiNGAGiNGSGi]

* The same mixer with and without a feed-forward part: mixers and feed-forward parts are layers of
  their own, in any order.

      NGVGi NGVGiNGSGi NGAGiNGSGi  ->  [NGVGi] [NGVGi] [NGSGi] [NGAGi] [NGSGi]

* Layers, then another embedding, then layers again: an encoder and a decoder, or two towers. They
  are two stacks, and what stands between them belongs to neither.

      NGAGiNGSGi NGAGiNGSGi NGEN NGAGiNGSGi NGAGiNGSGi
      stack 0               ----  stack 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from solscope.attribution.mixers import without_helpers
from solscope.attribution.sections import Layer
from solscope.attribution.sequence import NORMS, PRODUCTS, Letter

MIN_WITHOUT = 2
"""Fewest mixers without a feed-forward part that are no accident."""


def regroup(text: str, layers: Sequence[Layer]) -> list[Layer]:
    """The layers with blocks joined or taken apart as the model is built."""
    joined = _with_second_attention(layers)
    if joined is None:
        joined = _single_blocks(text, layers)
    return _as_stacks(text, joined)


def _with_second_attention(layers: Sequence[Layer]) -> list[Layer] | None:
    """Two attentions before each feed-forward part as one layer; None where that is not so."""
    bare = [i for i, layer in enumerate(layers) if layer.feed_forward == "none"]
    if len(bare) < MIN_WITHOUT:
        return None
    rest = layers[bare[0] :]
    firsts, seconds = rest[0::2], rest[1::2]
    regular = (
        len(firsts) == len(seconds)
        and all(layer.kind == "attention+none" for layer in firsts)
        and all(x.mixer == "attention" and x.feed_forward != "none" for x in seconds)
    )
    if not regular:
        return None
    pairs = zip(firsts, seconds, strict=True)
    return [*layers[: bare[0]], *(_join(first, second) for first, second in pairs)]


def _join(first: Layer, second: Layer) -> Layer:
    return second._replace(
        start=first.start,
        mixers=(*first.mixers, *second.mixers),
        blocks=(first, second),
        agreed=first.agreed and second.agreed,
    )


def _single_blocks(text: str, layers: Sequence[Layer]) -> list[Layer]:
    """Mixers and feed-forward parts as layers of their own, where the same mixer has it or not."""
    without = Counter(_mixing(text, x) for x in layers if x.feed_forward == "none")
    both = {_mixing(text, x) for x in layers if x.feed_forward != "none" and x.feed_start > x.start}
    if sum(number for mixing, number in without.items() if mixing in both) < MIN_WITHOUT:
        return list(layers)
    out: list[Layer] = []
    for layer in layers:
        if layer.feed_forward == "none":
            out.append(layer)
            continue
        cut = layer.feed_start
        out.append(layer._replace(end=cut, feed_start=cut, feed_forward="none"))
        out.append(layer._replace(start=cut, mixers=()))
    return out


def _mixing(text: str, layer: Layer) -> str:
    """What a layer does before its feed-forward part."""
    return without_helpers(text[layer.start : layer.feed_start])[0]


def _as_stacks(text: str, layers: Sequence[Layer]) -> list[Layer]:
    """The layers with the number of their stack, and without what lies between two stacks."""
    tails = Counter(_tail(text, layer) for layer in layers[:-1])
    heads = Counter(_head(text, layer) for layer in layers[1:] if layer.mixers)
    out = list(layers[:1])
    for following in layers[1:]:
        layer = out[-1]
        between = _between(text, layer, following, tails, heads)
        if between is None:
            out.append(following._replace(stack=layer.stack))
        else:
            end, start = between
            out[-1] = layer.between(layer.start, end)
            out.append(following.between(start, following.end)._replace(stack=layer.stack + 1))
    return out


def _tail(text: str, layer: Layer) -> str:
    mixed = layer.mixers[-1].end if layer.mixers else layer.start
    return without_helpers(text[mixed : layer.end])[0]


def _head(text: str, layer: Layer) -> str:
    return without_helpers(text[layer.start : layer.mixers[0].start])[0]


def _between(
    text: str, layer: Layer, following: Layer, tails: Counter[str], heads: Counter[str]
) -> tuple[int, int] | None:
    """End of one stack and start of the next, where an embedding stands between two layers."""
    if not following.mixers:
        return None
    product = _usual_projection(text, following, heads)
    first = _usual_end(text, layer, tails)
    if product < 0 or Letter.GATHER not in text[first:product]:
        return None
    norms = [i for i in range(first, product) if text[i] in NORMS]
    return first, max(following.start, norms[-1] if norms else product)


def _usual_projection(text: str, layer: Layer, heads: Counter[str]) -> int:
    """The first projection of a layer, if it begins as most others do; else its first product.

    Before it may stand a pooled output of the stack before, and its projection.
    """
    mixer = layer.mixers[0].start
    short, positions = without_helpers(text[layer.start : mixer])
    usual = (head for head, number in heads.items() if number > 1)
    opened = [head.lstrip("".join(NORMS)) for head in usual]
    length = max((len(head) for head in opened if short.endswith(head)), default=0)
    if 0 < length < len(short) and short[len(short) - length] in PRODUCTS:
        return layer.start + positions[len(short) - length]
    return next((i for i in range(layer.start, mixer) if text[i] in PRODUCTS), -1)


def _usual_end(text: str, layer: Layer, tails: Counter[str]) -> int:
    """Where a layer ends if it ends as most others do."""
    mixed = layer.mixers[-1].end if layer.mixers else layer.start
    short, positions = without_helpers(text[mixed : layer.end])
    usual = [tail for tail, number in tails.items() if number > 1 and short.startswith(tail)]
    length = len(max(usual, key=len, default=short))
    return layer.end if length == len(short) else mixed + positions[length]
