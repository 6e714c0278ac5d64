"""Boundaries of layers from landmarks: the first norm after the feed-forward part.

This needs to recognize norms and activations, so it is a second opinion beside `alignment.py`, and
the only one where nothing repeats exactly: a first layer that differs, a profile that begins in the
middle of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from solscope.attribution.mixers import Mixer
from solscope.attribution.sequence import FEED_FORWARD, NORMS, Letter


def cut_at_landmarks(text: str, mixers: Sequence[Mixer]) -> list[int]:
    """Where each layer begins, and the end of the last; `mixers` has one entry per layer."""
    starts = [_first_start(text, mixers[0].start)]
    starts += [_cut(text, before.end, after.start) for before, after in pairwise(mixers)]
    return [*starts, _last_end(text, mixers[-1].end, len(text))]


def _cut(text: str, left: int, right: int) -> int:
    """Where the next layer begins between two mixers: its input norm."""
    after = _after_feed_forward(text, left, right)
    norm = _next_norm(text, after, right)
    if norm >= 0:
        return norm + _is_fused(text, norm)
    projection = text.find(Letter.GEMM, after, right)
    return projection if projection >= 0 else right


def _next_norm(text: str, start: int, end: int) -> int:
    """The next norm, alone or fused into an all-reduce; -1 when there is none."""
    return next((position for position in range(start, end) if text[position] in NORMS), -1)


def _is_fused(text: str, norm: int) -> bool:
    """A norm that is fused into the all-reduce before it stays with that: the cut follows it."""
    return text[norm] == Letter.REDUCE_WITH_NORM


def _after_feed_forward(text: str, left: int, right: int) -> int:
    """One past the last projection or MoE kernel of the feed-forward part in a range."""
    last = max(
        (position for position in range(left, right) if text[position] in FEED_FORWARD), default=-1
    )
    if last < 0:
        return left
    if text[last] == Letter.ACTIVATION:
        down = text.find(Letter.GEMM, last, right)
        norm = _next_norm(text, last, right)
        if down >= 0 and norm < 0:
            return down + 1
        if 0 <= down < norm:
            # Gate and up may stand around the activation: the last before the norm is down.
            return text.rfind(Letter.GEMM, down, norm) + 1
    return last + 1


def _first_start(text: str, mixer: int) -> int:
    """The first layer begins at the first norm before the first mixer that a projection follows."""
    position = text.find(Letter.NORM, 0, mixer)
    while position >= 0:
        next_norm = text.find(Letter.NORM, position + 1, mixer)
        if text.find(Letter.GEMM, position, mixer) >= 0 or next_norm < 0:
            return position
        position = next_norm
    projection = text.find(Letter.GEMM, 0, mixer)
    return projection if projection >= 0 else mixer


def _last_end(text: str, mixer: int, end: int) -> int:
    """The last layer ends before the final norm, or before the lm_head when that is fused."""
    sampler = text.find(Letter.SAMPLING, mixer, end)
    after = _after_feed_forward(text, mixer, sampler if sampler >= 0 else end)
    norm = _next_norm(text, after, end)
    if norm >= 0:
        return norm + _is_fused(text, norm)
    projection = text.find(Letter.GEMM, after, end)
    return projection if projection >= 0 else end
