"""Norms that are written out in single kernels, found in a sequence of letters.

    c      p       M     I        q      u      c     u
    cast   square  mean  add eps  rsqrt  scale  cast  weight        (RMSNorm)

A LayerNorm subtracts the mean first (`Mi`). What follows the scale differs from model to model
(cast before or after the weight, one plus the weight, a bias) and may be followed by casts of the
next operation. Norms right before a product show where they end, and all norms of a model are
written alike: so the most common ending before products is assumed for the others too.
"""

from __future__ import annotations

from collections import Counter

from solscope.patterns import lazy_pattern

# Cast, mean and its subtraction (twice where the code computes it twice), square, mean, epsilon.
_NORM = lazy_pattern(r"c?(?:Mi)?[pu]Mi?[iI]?qu")
_L2_NORM = lazy_pattern(r"ur[iI]qu")
# Cast, one plus the weight, weight, bias (of a LayerNorm), cast.
_ENDING = {
    False: lazy_pattern(r"(?:c?[iI]?u)?c?"),
    True: lazy_pattern(r"(?:c?[iI]?ui?)?c?"),
}
# One plus the weight of a norm that is one kernel.
_SCALED = lazy_pattern(r"I+N")


def find_chains(text: str) -> list[tuple[int, int, str]]:
    """Start, end and letter (`N`, `l`) of each norm in several kernels, in order."""
    cores = [(m.start(), m.end()) for m in _NORM.finditer(text)]
    before_product = [_ending_before_product(text, start, end) for start, end in cores]
    common = _common(before_product)
    chains = [
        (start, _end(text, end, common, own), "N")
        for (start, end), own in zip(cores, before_product, strict=True)
    ]
    chains += [(m.start(), m.end(), "l") for m in _L2_NORM.finditer(text)]
    chains += [(m.start(), m.end(), "N") for m in _SCALED.finditer(text)]
    chains += _cast_norms(text)
    out: list[tuple[int, int, str]] = []
    for chain in sorted(chains):
        if not out or chain[0] >= out[-1][1]:
            out.append(chain)
    return out


def _cast_norms(text: str) -> list[tuple[int, int, str]]:
    """Norms in one kernel that compute in another type: casts stand before them, or around them."""
    norms = [position for position, letter in enumerate(text) if letter == "N"]
    if len(norms) < 2:
        return []
    if all(text[max(position - 1, 0) : position + 2] == "cNc" for position in norms):
        return [(position - 1, position + 2, "N") for position in norms]
    # Or only before them, in nearly all: one of another width may do without. A copy behind
    # communication takes its result out of a buffer.
    cast = [
        position
        for position in norms
        if text[max(position - 1, 0) : position] == "c" and text[position - 2 : position - 1] != "C"
    ]
    if 10 * len(cast) < 9 * len(norms):
        # One of two stacks may compute in another type. A copy of a sum is made for the norm.
        cast = [position for position in cast if text[position - 2 : position - 1] == "i"]
    return [(position - 1, position + 1, "N") for position in cast]


def _ending_before_product(text: str, start: int, end: int) -> str | None:
    """What a norm has after its scale, when a product follows; None when something else does."""
    centered = text[start:end].lstrip("c").startswith("Mi")
    match = _ENDING[centered].match(text, end)
    if match is None or not text[match.end() : match.end() + 2].lstrip("m").startswith("G"):
        return None
    return match.group()


def _common(endings: list[str | None]) -> str:
    """The most common ending of norms before products, the shortest of several."""
    seen = Counter(ending for ending in endings if ending is not None)
    return min(seen, key=lambda e: (-seen[e], len(e))) if seen else "cu"


def _end(text: str, end: int, common: str, own: str | None) -> int:
    """The end of a norm: its own ending where a product shows it, else the common one.

    A cast more than usual before a product belongs to that.
    """
    ending = common if own is None or own == f"{common}c" else own
    for letter in ending:
        if end >= len(text) or text[end] != letter:
            break
        end += 1
    return end
