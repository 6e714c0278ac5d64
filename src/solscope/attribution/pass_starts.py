"""Where one pass of a model ends and the next begins, from the order of kernels.

A step can hold several passes: tokens that one loop generates, those of a small model that drafts
and the one of a large model that verifies, or calls of an encoder. Two things show where one ends,
and neither names a model:

* A token is chosen from the scores of a projection, and then embedded for the next pass:

      E NGAG NGSG N G T | E NGAG NGSG N G T | E NGAG NGSG NGAG NGSG N G T
                    ===   =

  Experts are chosen from scores as well, but what follows them is a feed-forward part. The choice
  of a pass follows the last norm and a projection, and is followed by an embedding and the first
  projections of a layer.

* The whole step is the same sequence several times over, and that sequence embeds something before
  its layers: an encoder that was called several times.

A single layer can be a pass (the head of a model that drafts), but not if all passes are single
layers.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from solscope.attribution.mixers import Mixer, by_layer, find_mixers, without_helpers
from solscope.attribution.sequence import FEED_FORWARD, MIXERS, NORMS, PRODUCTS, Letter, units

MIN_MIXERS = 2
"""Mixers in a pass of a whole model."""
_LANDMARKS = NORMS | PRODUCTS | MIXERS | {Letter.ACTIVATION.value}
"""What does not depend on how many tokens a pass has."""
_EMBEDS = frozenset((Letter.GATHER, Letter.CONVOLUTION, Letter.UNKNOWN))
"""What embeds tokens, or patches of an image, before the layers."""


@lru_cache(maxsize=256)
def pass_starts(sequence: str) -> tuple[int, ...]:
    """The kernel at which each pass begins, from letters; 0 alone where there is one pass."""
    parts = units(sequence)
    text = "".join(unit.letter for unit in parts)
    starts = _by_choice(text) or _by_period(text)
    return (0, *(parts[start].start for start in starts))


class Form(NamedTuple):
    """What passes of one model have in common."""

    layers: int
    """Layers, as far as each mixes tokens once."""
    text: str
    """What stands between the first mixer and the last."""
    whole: bool
    """No token is chosen in between: it is no more than one pass."""


@lru_cache(maxsize=256)
def form_of(sequence: str) -> Form:
    """The form of a pass, from the letters of its kernels."""
    text = "".join(unit.letter for unit in units(sequence))
    mixers = by_layer(text, find_mixers(text))
    if not mixers:
        return Form(0, "", whole=True)
    between = text[mixers[0][-1].end : mixers[-1][0].start]
    landmarks = "".join(letter for letter in between if letter in _LANDMARKS)
    return Form(len(mixers), landmarks, whole=Letter.SAMPLING not in between)


def _by_choice(text: str) -> list[int]:
    """Starts of all passes but the first, where chosen tokens are embedded."""
    mixers = find_mixers(text)
    starts = [cut for pair in pairwise(mixers) if (cut := _cut(text, *pair)) is not None]
    at = sorted(mixer.start for mixer in mixers)
    before = [bisect_left(at, bound) for bound in (0, *starts, len(text))]
    held = [later - earlier for earlier, later in pairwise(before)]
    return starts if max(held) >= MIN_MIXERS else []


def _cut(text: str, before: Mixer, after: Mixer) -> int | None:
    """Where between two mixers a chosen token is handed on; None where it is not.

    A largest element is a choice; so are the largest few, where there is no other.
    """
    between = _Between(text[before.end : after.start])
    for choice in (Letter.SAMPLING, Letter.TOPK):
        for place in reversed(between.places(choice)):
            if between.scored(place) and between.opens(place + 1):
                return before.end + place + 1
    return None


class _Between:
    """Units between two mixers: each question takes no longer for more of them."""

    def __init__(self, text: str) -> None:
        self._text = text

    def places(self, *letters: str) -> list[int]:
        """Where any of these letters stands, in order."""
        return [place for place, letter in enumerate(self._text) if letter in letters]

    @cached_property
    def _norms(self) -> list[int]:
        return self.places(*NORMS)

    @cached_property
    def _products(self) -> list[int]:
        return self.places(*PRODUCTS)

    @cached_property
    def _added(self) -> list[int]:
        return self.places(Letter.ADD)

    @cached_property
    def _embedded(self) -> list[int]:
        return self.places(Letter.GATHER)

    @cached_property
    def _fed_forward(self) -> list[int]:
        return self.places(*FEED_FORWARD)

    def scored(self, place: int) -> bool:
        """True where a projection follows the last norm before: scores of tokens."""
        norms, products = (bisect_left(all_, place) for all_ in (self._norms, self._products))
        return norms > 0 < products and self._products[products - 1] > self._norms[norms - 1]

    def opens(self, start: int) -> bool:
        """True where a pass begins: an embedding, then a projection, and no part of a layer before.

        A part ends with a product that is added to the stream, before the next norm.
        """
        end = len(self._text)
        embedding = _next(self._embedded, start, end)
        product = _next(self._products, embedding, end)
        if product == end or _next(self._fed_forward, start, end) < end:
            return False
        norm = _next(self._norms, embedding, end)
        return product > norm or _next(self._added, product, end) >= norm


def _next(places: list[int], start: int, end: int) -> int:
    """The first of these places from `start` on; `end` where there is none."""
    index = bisect_left(places, start)
    return places[index] if index < len(places) else end


def _by_period(text: str) -> list[int]:
    """Starts of all passes but the first, where the text is one pass several times over."""
    short, originals = without_helpers(text)
    length = _period(short)
    if length == len(short):
        return []
    mixers = find_mixers(short[:length])
    if len(mixers) < MIN_MIXERS:
        return []
    inside = set("".join(short[a.end : b.start] for a, b in pairwise(mixers)))
    around = short[mixers[-1].end : length + mixers[0].start]
    if not any(letter in _EMBEDS and letter not in inside for letter in around):
        # Layers repeat as well, in a step that shows nothing else.
        return []
    return [originals[start] for start in range(length, len(short), length)]


def _period(text: str) -> int:
    """Length of the shortest text of which this one is a repetition; its own where there is none.

    That is where it is found again in itself, written twice.
    """
    return (text + text).find(text, 1) if text else 0
