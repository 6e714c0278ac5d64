"""Sections of a layer: where its feed-forward part begins and what kind of one it is.

A feed-forward part has at least two products, up and down. With a norm between it and the mixer it
begins at that norm; where both work side by side on the same input, it begins after the mixer's
output projection.
"""

from __future__ import annotations

from typing import Literal

from solscope.attribution.mixers import Mixer
from solscope.attribution.sequence import (
    CHOICES,
    EXPERT_KERNELS,
    NORMS,
    PRODUCTS,
    Letter,
)

FeedForward = Literal["dense", "moe", "none"]


def feed_forward_start(text: str, mixer: Mixer, end: int) -> int:
    """Index where the feed-forward part begins; `end` when there is none."""
    products = [at for at in range(mixer.end, end) if text[at] in PRODUCTS]
    fused = any(letter in EXPERT_KERNELS for letter in text[mixer.end : end])
    needed = 1 if fused else 2
    for at in range(end - 1, mixer.end - 1, -1):
        if text[at] in NORMS and sum(product > at for product in products) >= needed:
            if products[0] > at:
                # A norm before the output projection belongs to the mixer.
                break
            while at > mixer.end and text[at - 1] in NORMS:
                at -= 1
            return at
    # Without a norm of its own it works beside the mixer: all products after the output projection.
    side_by_side = mixer.kind == "attention" and len(products) >= 3
    return products[1] if side_by_side else end


def feed_forward_kind(text: str) -> FeedForward:
    """The kind of a feed-forward part: experts have a router and a choice among its scores."""
    router = next((at for at, letter in enumerate(text) if letter in PRODUCTS), -1)
    if router < 0:
        return "none"
    if any(letter in EXPERT_KERNELS for letter in text):
        return "moe"
    chosen = any(letter in CHOICES and letter != Letter.SOFTMAX for letter in text[router:])
    return "moe" if chosen else "dense"
