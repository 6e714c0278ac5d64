"""Norms that are written out in single kernels, found in a sequence of letters.

    c      p       M     I        q      u      c     u
    cast   square  mean  add eps  rsqrt  scale  cast  weight        (RMSNorm)

A LayerNorm subtracts the mean first (`Mi`). What follows the scale differs from model to model
(cast before or after the weight, one plus the weight, a bias) and may be followed by casts of the
next operation. Norms right before a product show where they end, and all norms of a model are
written alike: so the most common ending before products is taken for the others too.
"""

from __future__ import annotations

import re
from collections import Counter

# Cast, mean and its subtraction (twice where the code computes it twice), square, mean, epsilon.
_NORM = re.compile(r"c?(?:Mi)?[pu]Mi?[iI]?qu")
_L2_NORM = re.compile(r"ur[iI]qu")
# Cast, one plus the weight, weight, bias, cast.
_ENDING = re.compile(r"(?:c?[iI]?ui?)?c?")
# One plus the weight of a norm that is one kernel.
_SCALED = re.compile(r"I+N")


def find_chains(text: str) -> list[tuple[int, int, str]]:
    """Start, end and letter (`N`, `l`) of each norm in several kernels, in order."""
    cores = [(m.start(), m.end()) for m in _NORM.finditer(text)]
    ending = _common_ending(text, [end for _, end in cores])
    found = [(start, _end(text, end, ending), "N") for start, end in cores]
    found += [(m.start(), m.end(), "l") for m in _L2_NORM.finditer(text)]
    found += [(m.start(), m.end(), "N") for m in _SCALED.finditer(text)]
    out: list[tuple[int, int, str]] = []
    for chain in sorted(found):
        if not out or chain[0] >= out[-1][1]:
            out.append(chain)
    return out


def _common_ending(text: str, ends: list[int]) -> str:
    """What norms that stand before a product have after the scale; the shortest of the commonest.

    Without any such norm, the longest ending that is possible at each.
    """
    seen: Counter[str] = Counter()
    for end in ends:
        match = _ENDING.match(text, end)
        if match is not None and text[match.end() : match.end() + 2].lstrip("m").startswith("G"):
            seen[match.group()] += 1
    return min(seen, key=lambda e: (-seen[e], len(e))) if seen else "cu"


def _end(text: str, end: int, ending: str) -> int:
    """The end of a norm: its scale and as much of the common ending as is there."""
    for letter in ending:
        if end >= len(text) or text[end] != letter:
            break
        end += 1
    return end
