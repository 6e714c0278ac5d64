"""Boundaries of layers from what repeats around their mixers.

Between two mixers lies the rest of one layer (its *tail*) and the beginning of the next (its
*head*). Before the first mixer stands the prologue and a head, after the last a tail and the
epilogue. Neither prologue nor epilogue looks like a layer, so the longest text that stands both
before the first mixer and before another one is the head of the first layer:

    E e c  N G R K | A | G N G S G  N G R K | A | G N G S G  N G T
           =======                  =======
              head                     head

From one head all tails before equal heads are known, from these the heads after equal tails, and
so on. No vocabulary is needed: norms and activations may be unknown, follow the feed-forward part,
or be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from solscope.attribution.mixers import Mixer, without_helpers
from solscope.attribution.sequence import FEED_FORWARD, NORMS, PRODUCTS, Letter

_LEADING = frozenset((Letter.ADD, Letter.COMMUNICATION))
"""Letters that end a layer or the prologue, and never begin a layer."""


def align(text: str, mixers: Sequence[Mixer]) -> list[int] | None:
    """Where each layer begins, and the end of the last; None where nothing repeats.

    `mixers` has one entry per layer.
    """
    short, originals = without_helpers(text)
    index_of = {place: index for index, place in enumerate(originals)}
    spans = [_span(index_of, originals, mixer) for mixer in mixers]
    before = short[: spans[0][0]]
    gaps = [short[end:start] for (_, end), (start, _) in pairwise(spans)]
    after = short[spans[-1][1] :]
    head = _first_head(before, gaps)
    first = len(before) - len(head)
    if not head:
        head, first = _longer_first_head(before, gaps)
    if not head:
        return None
    if _follows_norm(head, gaps):
        head = Letter.NORM + head
        norm = before.rfind(Letter.NORM, 0, first)
        if norm < 0 and Letter.GATHER not in before:
            return None
        # A first layer without a norm of its own begins at its projection: what the prologue
        # computes after the norm of the embedding, products included, is no part of it. A norm
        # right before a product is that of the layer, whatever follows in between.
        between = before[norm + 1 : first]
        if norm >= 0 and (
            between[:1] in PRODUCTS or not any(letter in PRODUCTS for letter in between)
        ):
            first = norm
    elif head[0] not in NORMS and first > 0 and before[first - 1] == Letter.NORM:
        # The first layer has a norm of its own where the others have it fused into an all-reduce.
        first -= 1
    cuts = _cut_gaps(gaps, head)
    if cuts is None:
        return None
    tails = {gap[:cut] for gap, cut in zip(gaps, cuts, strict=True)}
    last = _last_tail(after, tails)
    if last is None and not any(letter in FEED_FORWARD for letter in head):
        last = _cut_tail(after, tails)
    if last is None:
        return None
    starts = [first]
    starts += [end + cut for (_, end), cut in zip(spans, cuts, strict=False)]
    bounds = [*starts, spans[-1][1] + last]
    return [_original(text, originals, bound) for bound in bounds]


def _span(index_of: dict[int, int], originals: list[int], mixer: Mixer) -> tuple[int, int]:
    inside = [index_of[i] for i in range(mixer.start, mixer.end) if i in index_of]
    if inside:
        return inside[0], inside[-1] + 1
    place = next((index_of[i] for i in originals if i >= mixer.end), len(originals))
    return place, place


def _original(text: str, originals: list[int], bound: int) -> int:
    """A boundary in the whole text: fills belong to the product after them, all else before."""
    if bound >= len(originals):
        return len(text)
    place = originals[bound]
    while place > 0 and text[place - 1] == Letter.FILL and text[originals[bound]] in PRODUCTS:
        place -= 1
    return place


def _first_head(before: str, gaps: Sequence[str]) -> str:
    """The head of the first layer; empty when none with a projection repeats."""
    head = max((_common_suffix(before, gap) for gap in gaps), key=len, default="")
    product = next((position for position, letter in enumerate(head) if letter in PRODUCTS), -1)
    norm = next((position for position in range(max(product, 0)) if head[position] in NORMS), -1)
    if norm >= 0:
        # What stands before the norm ends the prologue as it ends a layer: additions, copies.
        return head[norm:]
    while head and head[0] in _LEADING:
        head = head[1:]
    return head if product >= 0 else ""


def _longer_first_head(before: str, gaps: Sequence[str]) -> tuple[str, int]:
    """The head of the other layers, and where the first begins, where that computes more.

    A first layer can compute what all use, relative positions say, in the middle of its head:

        before  E  NGGG nIni..eiE cccuucc      gap  ccGiNGeGi  NGGG cccuucc
    """
    best, first = "", 0
    for gap in set(gaps):
        suffix = _common_suffix(before, gap)
        rest, earlier = gap[: len(gap) - len(suffix)], before[: len(before) - len(suffix)]
        length = next((n for n in range(len(rest), 0, -1) if rest[-n:] in earlier), 0)
        opening = rest[len(rest) - length :].lstrip("".join(_LEADING))
        if any(letter in PRODUCTS for letter in opening) and len(opening) > len(best):
            best, first = opening + suffix, earlier.rfind(opening)
    return best, first


def _follows_norm(head: str, gaps: Sequence[str]) -> bool:
    """True when all heads that begin with a projection stand right behind a norm."""
    if head[0] in NORMS:
        return False
    places = [len(gap) - len(head) - 1 for gap in gaps if gap.endswith(head)]
    before = {gap[len(gap) - len(head) - 1 :][:1] for gap in gaps if gap.endswith(head)}
    return min(places, default=-1) >= 0 and before == {Letter.NORM.value}


def _cut_gaps(gaps: Sequence[str], head: str) -> list[int] | None:
    """Where in each gap the next layer begins: by known heads, by known tails, by likeness."""
    cuts: dict[int, int] = {}
    heads, tails = {head}, set[str]()
    while True:
        fresh = {
            number: cut
            for number, gap in enumerate(gaps)
            if number not in cuts and (cut := _known_cut(gap, heads, tails)) is not None
        }
        if not fresh:
            break
        cuts |= fresh
        tails |= {gaps[number][:cut] for number, cut in fresh.items()}
        heads |= {gaps[number][cut:] for number, cut in fresh.items()}
    for number, gap in enumerate(gaps):
        if number not in cuts:
            cut = _alike(gap, head)
            if cut is None:
                return None
            cuts[number] = cut
    return [cuts[number] for number in range(len(gaps))]


def _known_cut(gap: str, heads: set[str], tails: set[str]) -> int | None:
    """The cut of a gap that ends with a known head or begins with a known tail, longest first."""
    for head in sorted(heads, key=len, reverse=True):
        if gap.endswith(head) and len(head) < len(gap):
            return len(gap) - len(head)
    for tail in sorted(tails, key=len, reverse=True):
        rest = gap[len(tail) :]
        if gap.startswith(tail) and any(letter in PRODUCTS for letter in rest):
            return len(tail)
    return None


def _alike(gap: str, head: str) -> int | None:
    """Where a gap looks most like the beginning of a layer: norm and first projections."""
    first = next(position for position, letter in enumerate(head) if letter in PRODUCTS) + 1
    best = max(
        range(len(gap)),
        key=lambda position: (_common_prefix(gap[position:], head), position),
        default=0,
    )
    return best if gap and _common_prefix(gap[best:], head) >= first else None


def _last_tail(after: str, tails: set[str]) -> int | None:
    """Length of the last layer's tail: a known one, else up to where it ends as others end."""
    # A cast at the end of a tail may be the input of the next norm.
    ends = tails | {tail.rstrip(Letter.COPY) for tail in tails}
    repeated = [tail for tail in ends if tail and after.startswith(tail)]
    if repeated:
        return len(max(repeated, key=len))
    endings = [end for tail in tails if (end := _same_ending(after, tail)) is not None]
    return max(endings)[1] if endings else None


def _cut_tail(after: str, tails: set[str]) -> int | None:
    """Length of what is there of a tail in whose middle the recording ends.

    A recording that also begins in the middle of a layer has a feed-forward part in what would be
    the head of the first: such heads are not asked about.
    """
    return len(after) if after and any(tail.startswith(after) for tail in tails) else None


def _same_ending(after: str, tail: str) -> tuple[int, int] | None:
    """The longest ending of a tail that occurs, and where it ends; with two products at least."""
    for start in range(len(tail)):
        ending = tail[start:]
        if sum(letter in PRODUCTS for letter in ending) < 2:
            return None
        if (position := after.rfind(ending)) >= 0:
            return len(ending), position + len(ending)
    return None


def _common_prefix(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def _common_suffix(a: str, b: str) -> str:
    length = _common_prefix(a[::-1], b[::-1])
    return b[len(b) - length :]
