"""Layers as ranges, and their sections: where the feed-forward part begins, and its kind.

A feed-forward part has at least two products, up and down. With a norm between it and the mixer it
begins at that norm; where both work side by side on the same input, it begins after the mixer's
output projection.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from solscope.attribution.mixers import Mixer, MixerKind
from solscope.attribution.sequence import (
    CHOICES,
    EXPERT_KERNELS,
    NORMS,
    PRODUCTS,
    Letter,
)

FeedForward = Literal["dense", "moe", "none"]
_TRAILING = f"{Letter.COPY}{Letter.FILL}{Letter.GEMM_HELPER}"
_ACTIVATIONS = frozenset((Letter.ACTIVATION, Letter.GATE))


class Layer(NamedTuple):
    """One layer of a pass, as a range of units."""

    start: int
    end: int
    mixers: tuple[Mixer, ...]
    feed_start: int
    """Where its feed-forward part begins; its end when it has none."""
    feed_forward: FeedForward
    aligned: bool = False
    """Its bounds come from what repeats."""
    agreed: bool = False
    """Landmarks give the same bounds."""
    plausible: bool = False
    """It has what a layer has, as often as the others of its kind."""
    blocks: tuple[Layer, ...] = ()
    """The two halves of a layer with two attentions, each with a norm of its own."""
    stack: int = 0
    """Which stack of layers it belongs to: encoder and decoder, or towers, are two."""
    norm_behind: bool = False
    """It ends with the norm of its last residual addition; see `norm_placement.py`."""

    @property
    def mixer(self) -> MixerKind | Literal["none"]:
        """Attention, where a layer has both; `none` for a feed-forward part of its own."""
        return min((mixer.kind for mixer in self.mixers), default="none")

    @property
    def kind(self) -> str:
        """What tells kinds of layers apart, e.g. `attention+moe`."""
        return "+".join(
            (*(block.mixer for block in self.blocks[1:]), self.mixer, self.feed_forward)
        )

    @property
    def label(self) -> str:
        """Its kind, and its stack where there are several."""
        return f"{self.kind}, stack {self.stack + 1}" if self.stack else self.kind

    def between(self, start: int, end: int) -> Layer:
        """The same layer with other bounds."""
        blocks = self.blocks
        if blocks:
            blocks = (blocks[0]._replace(start=start), *blocks[1:])
            blocks = (*blocks[:-1], blocks[-1].between(blocks[-1].start, end))
        feed = min(self.feed_start, end)
        return self._replace(start=start, end=end, feed_start=feed, blocks=blocks)


def feed_forward_start(text: str, mixer: Mixer, end: int) -> int:
    """Index where the feed-forward part begins; `end` when there is none."""
    products = [position for position in range(mixer.end, end) if text[position] in PRODUCTS]
    fused = any(letter in EXPERT_KERNELS for letter in text[mixer.end : end])
    needed = 1 if fused else 2
    added = mixer.kind == "linear_attention" and text[:end].rstrip(_TRAILING)[-1:] == Letter.ADD
    for position in range(end - 1, mixer.end - 1, -1):
        if text[position] in NORMS and sum(product > position for product in products) >= needed:
            if products[0] > position:
                # A norm before the output projection belongs to the mixer.
                break
            following = text[position + 1 :].lstrip(Letter.COPY)[:1]
            if added and Letter.ADD not in text[mixer.end : position] + following:
                # Nor is one before the residual addition that of a feed-forward part: Mamba norms
                # its step sizes and gates.
                continue
            while position > mixer.end and text[position - 1] in NORMS:
                position -= 1
            return position
    # Without a norm of its own it works beside the mixer: all products after the output projection.
    side_by_side = mixer.kind == "attention" and len(products) >= 3
    return products[1] if side_by_side else end


def earlier_feed_forward(text: str, start: int, end: int) -> list[int]:
    """Where feed-forward parts before the last one begin, and `end`.

    Text and image side by side with one attention have two: each with a norm, two products at least
    and an activation between them.
    """
    starts = [end]
    for position in range(end - 1, start - 1, -1):
        between = text[position : starts[0]]
        products = [i for i, letter in enumerate(between) if letter in PRODUCTS]
        if (
            text[position] in NORMS
            and len(products) >= 2
            and any(letter in _ACTIVATIONS for letter in between[products[0] : products[-1]])
            and any(letter in PRODUCTS for letter in text[start:position])
        ):
            starts.insert(0, position)
    return starts


def feed_forward_kind(text: str) -> FeedForward:
    """The kind of a feed-forward part: experts have a router and a choice among its scores."""
    router = next((position for position, letter in enumerate(text) if letter in PRODUCTS), -1)
    if router < 0:
        return "none"
    if any(letter in EXPERT_KERNELS for letter in text):
        return "moe"
    chosen = any(letter in CHOICES and letter != Letter.SOFTMAX for letter in text[router:])
    return "moe" if chosen else "dense"
