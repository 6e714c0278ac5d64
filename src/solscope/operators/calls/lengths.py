"""Lengths of the requests in a step, where its name states sums over them.

vLLM and SGLang can name a step after its requests: how many prefill (`context`) and how many decode
(`generation`), with sums over their queries (sq), keys (sk), squares (sqsq) and products (sqsk).
Attention needs no more: its work depends on these sums, not on the single lengths.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_SUMS = r"{}_(\d{{1,9}})\(sq(\d{{1,18}})sk(\d{{1,18}})sqsq(\d{{1,18}})sqsk(\d{{1,18}})\)"
_CONTEXT, _GENERATION = (re.compile(_SUMS.format(kind)) for kind in ("context", "generation"))


class Sums(msgspec.Struct, frozen=True):
    """Requests of one kind in a step, and sums over them: queries q, keys k, q², q k."""

    requests: int
    q: int
    k: int
    qq: int
    qk: int

    @property
    def pairs(self) -> int:
        """Query-key pairs that a causal mask leaves: Σ q k - q (q-1) / 2."""
        return self.qk - (self.qq - self.q) // 2

    @property
    def means(self) -> tuple[int, int]:
        """Queries and keys of a request, rounded down."""
        return self.q // self.requests, self.k // self.requests


class Lengths(msgspec.Struct, frozen=True):
    """Requests of a step that prefill and that decode, as its name states them."""

    prefilling: Sums | None
    decoding: Sums | None

    @property
    def axes(self) -> dict[str, Any]:
        """The axes of attention over all requests; empty where no request is stated.

        Pairs are exact; lengths are means, rounded down, of which only sums count.
        """
        present = [s for s in (self.prefilling, self.decoding) if s is not None and s.requests]
        if not present:
            return {}
        groups = [[q, max(q, k), sums.requests] for sums in present for q, k in [sums.means]]
        return {"sequences": groups, "pairs": max(0, sum(sums.pairs for sums in present))}


def stated_lengths(step: str | None) -> Lengths:
    """What the name of a step says about its requests."""
    matches = (kind.search(step or "") for kind in (_CONTEXT, _GENERATION))
    return Lengths(*(None if m is None else Sums(*map(int, m.groups())) for m in matches))
