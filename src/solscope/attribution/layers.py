"""Layers: which layer of the model each kernel of a pass belongs to, from their order alone.

Every decoder layer mixes tokens exactly once, by attention or by linear attention. These *mixers*
are the anchors: there are as many layers as mixers. Between two mixers lies the rest of one layer
and the beginning of the next; the cut is the first norm after the feed-forward part (activation or
MoE) of the earlier layer. What comes before the first layer is the prologue (embedding, positions);
what follows the last layer's feed-forward part, from the final norm on, is the epilogue (final
norm, lm_head, sampler).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

from solscope.attribution.sequence import Unit

FEED_FORWARD = "SPFODb"
"""Letters that only the feed-forward part of a layer has (activation, MoE)."""
MIN_LAYERS, MAX_LAYERS = 2, 200
"""Fewer mixers are no evidence of a layered model; more are several runs through it, or none."""

Place = Literal["layer", "prologue", "epilogue"]


class Layer(NamedTuple):
    """One layer of a pass, as a range of units."""

    start: int
    end: int
    mixer_start: int
    mixer_end: int
    mixer: Literal["attention", "linear_attention"]
    feed_forward: Literal["dense", "moe", "none"]

    @property
    def kind(self) -> str:
        """What tells kinds of layers apart, e.g. `attention+moe`."""
        return f"{self.mixer}+{self.feed_forward}"


def find_layers(sequence: list[Unit]) -> list[Layer]:
    """The layers of one pass; empty when no layered structure is seen."""
    text = "".join(unit.letter for unit in sequence)
    mixers = _mixers(text)
    if not MIN_LAYERS <= len(mixers) <= MAX_LAYERS:
        return []
    starts = [_first_start(text, mixers[0][0])]
    for (_, end), (start, _) in pairwise(mixers):
        starts.append(_cut(text, end, start))
    end = _last_end(text, mixers[-1][1], len(text))
    bounds = [*starts, end]
    return [
        Layer(a, b, m0, m1, _mixer_kind(text[m0:m1]), _feed_forward(text[m1:b]))
        for (a, b), (m0, m1) in zip(pairwise(bounds), mixers, strict=True)
    ]


def _mixers(text: str) -> list[tuple[int, int]]:
    """Ranges of units that mix tokens: attention calls, and linear attention as one range each."""
    marks = [at for at, letter in enumerate(text) if letter in "ALV"]
    if not any(text[at] in "AL" for at in marks) and "V" not in text:
        return _softmax_mixers(text)
    ranges: list[tuple[int, int]] = []
    for at in marks:
        if ranges and _same_call(text, ranges[-1], at):
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return [_with_helpers(text, span) for span in ranges]


def _same_call(text: str, before: tuple[int, int], at: int) -> bool:
    """Kernels of one mixer follow each other without a projection in between."""
    between = text[before[1] : at]
    return "G" not in between and "P" not in between


def _softmax_mixers(text: str) -> list[tuple[int, int]]:
    """Attention written out: a softmax between two products."""
    found = []
    for at, letter in enumerate(text):
        if letter != "X":
            continue
        before, after = text[max(0, at - 6) : at], text[at + 1 : at + 6]
        if "G" in before and "G" in after and "t" not in after:
            left = at - len(before) + before.rindex("G")
            found.append((left, at + 1 + after.index("G") + 1))
    return found


def _with_helpers(text: str, span: tuple[int, int]) -> tuple[int, int]:
    start, end = span
    while start > 0 and text[start - 1] == "a":
        start -= 1
    while end < len(text) and text[end] == "a":
        end += 1
    return start, end


def _cut(text: str, left: int, right: int) -> int:
    """Where the next layer begins between two mixers: its input norm."""
    after = _after_feed_forward(text, left, right)
    norm = _next_norm(text, after, right)
    if norm >= 0:
        return norm + _is_fused(text, norm)
    projection = text.find("G", after, right)
    return projection if projection >= 0 else right


def _next_norm(text: str, start: int, end: int) -> int:
    """The next norm, alone or fused into an all-reduce; -1 when there is none."""
    return next((at for at in range(start, end) if text[at] in "NY"), -1)


def _is_fused(text: str, norm: int) -> bool:
    """A norm that is fused into the all-reduce before it stays with that: the cut follows it."""
    return text[norm] == "Y"


def _after_feed_forward(text: str, left: int, right: int) -> int:
    """One past the last projection or MoE kernel of the feed-forward part in a range."""
    last = max((at for at in range(left, right) if text[at] in FEED_FORWARD), default=-1)
    if last < 0:
        return left
    if text[last] == "S":
        down = text.find("G", last, right)
        norm = _next_norm(text, last, right)
        if down >= 0 and norm < 0:
            return down + 1
        if 0 <= down < norm:
            # Gate and up may stand around the activation: the last before the norm is down.
            return text.rfind("G", down, norm) + 1
    return last + 1


def _first_start(text: str, mixer: int) -> int:
    """The first layer begins at the first norm before the first mixer that a projection follows."""
    at = text.find("N", 0, mixer)
    while at >= 0:
        if text.find("G", at, mixer) >= 0 or text.find("N", at + 1, mixer) < 0:
            return at
        at = text.find("N", at + 1, mixer)
    projection = text.find("G", 0, mixer)
    return projection if projection >= 0 else mixer


def _last_end(text: str, mixer: int, end: int) -> int:
    """The last layer ends before the final norm, or before the lm_head when that is fused."""
    sampler = next((at for at in range(mixer, end) if text[at] == "T"), end)
    after = _after_feed_forward(text, mixer, sampler)
    norm = _next_norm(text, after, end)
    if norm >= 0:
        return norm + _is_fused(text, norm)
    projection = text.find("G", after, end)
    return projection if projection >= 0 else end


def _mixer_kind(text: str) -> Literal["attention", "linear_attention"]:
    return "attention" if "A" in text or "X" in text else "linear_attention"


def _feed_forward(text: str) -> Literal["dense", "moe", "none"]:
    if any(letter in text for letter in "PODd") or ("t" in text and "G" in text):
        return "moe"
    return "dense" if "G" in text else "none"
