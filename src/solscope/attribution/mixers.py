"""Mixers: where in a pass tokens are mixed, by attention or by linear attention.

They are the anchors of layers. Kernels of one call stand next to each other; attention that is
written out is a softmax between two products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from solscope.attribution.sequence import HELPERS, MIXERS, NORMS, PRODUCTS, Letter

MixerKind = Literal["attention", "linear_attention"]

REACH = 10
"""Units between a softmax and the products before and after it, at most."""


_CHOSEN = frozenset((Letter.SORT, Letter.TOPK, Letter.SAMPLING))
"""What chooses experts or tokens by a softmax, which is no attention then."""


class Mixer(NamedTuple):
    """One call that mixes tokens, as a range of units."""

    start: int
    end: int
    kind: MixerKind


def find_mixers(text: str) -> list[Mixer]:
    """All mixers of a pass, in order."""
    written_out = _softmax_mixers(text)
    ranges: list[tuple[int, int]] = []
    for position in (position for position, letter in enumerate(text) if letter in MIXERS):
        if ranges and _same_call(text, ranges[-1][1], position):
            ranges[-1] = (ranges[-1][0], position + 1)
        else:
            ranges.append((position, position + 1))
    if not ranges or len(written_out) > 1:
        ranges = sorted({*ranges, *(x for x in written_out if not _overlaps(x, ranges))})
    return [_mixer(text, start, end) for start, end in ranges]


def by_layer(text: str, mixers: Sequence[Mixer]) -> list[tuple[Mixer, ...]]:
    """Mixers by layer: those with no norm between them work on the same input and share one.

    Where no norm is recognized at all, every mixer has a layer of its own.
    """
    groups: list[tuple[Mixer, ...]] = []
    normed = any(letter in NORMS for letter in text)
    for mixer in mixers:
        between = text[groups[-1][-1].end : mixer.start] if groups else ""
        if groups and normed and not any(letter in NORMS for letter in between):
            groups[-1] = (*groups[-1], mixer)
        else:
            groups.append((mixer,))
    return groups


def _same_call(text: str, end: int, position: int) -> bool:
    """Kernels of one mixer follow each other without a projection in between."""
    return not any(letter in PRODUCTS for letter in text[end:position])


def _overlaps(span: tuple[int, int], ranges: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in ranges)


def _softmax_mixers(text: str) -> list[tuple[int, int]]:
    """Attention written out: a softmax between two products, and no choice among its results."""
    mixers = []
    for position, letter in enumerate(text):
        if letter != Letter.SOFTMAX:
            continue
        before, after = (
            text[max(0, position - REACH) : position],
            text[position + 1 : position + 1 + REACH],
        )
        left, right = before.rfind(Letter.GEMM), after.find(Letter.GEMM)
        chosen = after[: max(right, 0)]
        if left >= 0 and right >= 0 and not _CHOSEN & set(chosen):
            mixers.append((position - len(before) + left, position + 1 + right + 1))
    return mixers


def _mixer(text: str, start: int, end: int) -> Mixer:
    """A range with the helpers of attention around it."""
    while start > 0 and text[start - 1] == Letter.ATTENTION_HELPER:
        start -= 1
    while end < len(text) and text[end] == Letter.ATTENTION_HELPER:
        end += 1
    quadratic = {Letter.ATTENTION, Letter.SOFTMAX} & set(text[start:end])
    return Mixer(start, end, "attention" if quadratic else "linear_attention")


def without_helpers(text: str) -> tuple[str, list[int]]:
    """The text without kernels whose number varies, and where each of its letters stood."""
    originals = [position for position, letter in enumerate(text) if letter not in HELPERS]
    return "".join(text[position] for position in originals), originals
