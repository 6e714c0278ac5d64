"""Roles of the feed-forward part: up, activation, down; or router, experts, combine."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.attribution.modulation import with_modulation
from solscope.attribution.products import (
    Product,
    closing_role,
    is_copy_for_communication,
    product_role,
    served_role,
)
from solscope.attribution.sequence import CHOICES, PRODUCTS, Letter
from solscope.patterns import lazy_pattern

# One expert, or a dense part: up (and gate), activation, perhaps up after it, down.
_GROUP = lazy_pattern(
    r"G[^GPSN]*(?:G[^GPSN]*)?[Ss][^GPN]*?(?:G[^GPSKEiN]*?u[^GPSKEiN]*?)?G|G[^GPN]*?G"
)
_WEIGHTING = frozenset(
    (
        *(Letter.GATHER, Letter.REDUCTION, Letter.ADD, Letter.ADD_SCALAR, Letter.MULTIPLY),
        *(Letter.GATE, Letter.SOFTMAX, Letter.SORT, Letter.ELEMENTWISE, Letter.CONCATENATION),
    )
)
"""What turns chosen scores into weights."""
_SHARED = frozenset(
    (Letter.GEMM, Letter.GEMM_HELPER, Letter.ACTIVATION, Letter.GATE, Letter.MULTIPLY, "e")
)


_ACTIVATIONS = frozenset((Letter.ACTIVATION, Letter.GATE))
MIN_STAGED = 3
"""Products on each side of an activation that are more than gate and up."""


def dense_roles(text: str) -> list[str]:
    """Roles of a dense feed-forward part, its norm included."""
    last = text.rfind(Letter.GEMM)
    first = text.find(Letter.GEMM)
    products = {i: "up_gate" for i, letter in enumerate(text) if letter == Letter.GEMM}
    if last >= 0:
        products[last] = "down"
    names = []
    for position, letter in enumerate(text):
        if role := product_role(text, position, products):
            names.append(role)
        elif position < first:
            names.append("residual" if letter == Letter.ADD else "post_norm")
        elif position < last:
            names.append("activation")
        else:
            names.append(closing_role(text, position))
    return with_modulation(text, names)


def moe_roles(text: str, shapes: Sequence[Product | None]) -> list[str]:
    """Roles of a MoE: router, top-k, dispatch, experts, combine, shared expert."""
    choice = next((i for i, letter in enumerate(text) if letter in CHOICES), -1)
    if choice < 0:
        # Top-k is part of the dispatch kernels.
        sends = (Letter.MOE_DISPATCH, Letter.EXPERT_SEND, Letter.GROUPED_GEMM)
        choice = next((i for i, letter in enumerate(text) if letter in sends), len(text))
    router = text.rfind(Letter.GEMM, 0, choice)
    experts = _experts(text, choice, shapes)
    first, last = (experts[0], experts[-1]) if experts else (len(text), -1)
    chosen = _end_of_choice(text, choice, first)
    back = _way_back(text, router, first, last)
    names = []
    for position in range(len(text)):
        if position <= router:
            names.append(_gate(text, position, router))
        elif position < first:
            names.append(_routed(text, position, chosen, router))
        elif position <= last:
            names.append(_expert(text, position, experts))
        elif position in back:
            names.append("combine")
        else:
            names.append(_returned(text, position, last))
    return names


def _way_back(text: str, router: int, first: int, last: int) -> range:
    """Communication that brings tokens back from the experts that communication took them to.

    Whatever it is built from (send and receive, all-to-all, all-gather and reduce-scatter), what
    is sent between router and experts comes back right behind the experts; a reduction over ranks
    that share each expert has no such counterpart. Kernels that say what they are need no guess.
    """
    sent = Letter.COMMUNICATION in text[router + 1 : first]
    start = text.find(Letter.COMMUNICATION, last + 1)
    ends = text.find(Letter.GEMM, last + 1)
    if not sent or start < 0 or Letter.EXPERT_RETURN in text[last + 1 :] or 0 <= ends < start:
        return range(0)
    carries = (Letter.COMMUNICATION, Letter.COPY)
    while start - 1 > last and text[start - 1] in carries:
        start -= 1
    end = start + 1
    while end < len(text) and text[end] in carries:
        end += 1
    return range(start, end)


def _experts(text: str, choice: int, shapes: Sequence[Product | None]) -> list[int]:
    """Products of the experts: grouped ones, else batched ones, else those behind a gather."""
    grouped = [i for i, letter in enumerate(text) if letter == Letter.GROUPED_GEMM]
    if grouped:
        return grouped
    behind = [i for i in range(choice, len(text)) if text[i] == Letter.GEMM]
    batched = [i for i in behind if (shape := shapes[i]) is not None and shape.batch > 1]
    if batched:
        return batched
    if _is_staged(text, behind):
        return behind
    groups = [(m.start() + choice, m.end() + choice) for m in _GROUP.finditer(text[choice:])]
    sent = (Letter.GATHER, Letter.SORT, Letter.EXPERT_SEND, Letter.MOE_DISPATCH)
    before = choice
    gathered = []
    for start, end in groups:
        if any(letter in sent for letter in text[before:start]):
            gathered.append((start, end))
        before = end
    chosen = gathered or groups[:1]
    return [i for i in behind if any(start <= i < end for start, end in chosen)]


def _is_staged(text: str, products: list[int]) -> bool:
    """True when all experts go up, one activation follows, and all go down: `GGGG S GGGG`."""
    if len(products) < 2 * MIN_STAGED:
        return False
    stages = [i for i in range(products[0], products[-1]) if text[i] in _ACTIVATIONS]
    if len(stages) != 1:
        return False
    before = sum(product < stages[0] for product in products)
    return 2 * before == len(products)


def _end_of_choice(text: str, choice: int, first: int) -> int:
    """One past the kernels that choose experts and weigh them, up to the last top-k."""
    picks = (Letter.TOPK, Letter.MOE_TOPK, Letter.GATE, Letter.SOFTMAX)
    last = max((i for i in range(choice, first) if text[i] in picks), default=-1)
    position = last + 1 if last >= 0 else choice
    while position < first and text[position] in _WEIGHTING:
        position += 1
    if position == first and text[position - 1 : position] == Letter.GATHER:
        # Right before the experts it gathers tokens, not scores.
        position -= 1
    # The weights are cast to the type of the tokens.
    return position + (text[position : position + 1] == Letter.COPY)


def _gate(text: str, position: int, router: int) -> str:
    letter = text[position]
    helper = letter == Letter.GEMM_HELPER and text[router:position].strip(letter) == Letter.GEMM
    if position == router or helper:
        return "router"
    if letter == Letter.NORM:
        return "post_norm"
    if letter == Letter.ADD and Letter.GEMM not in text[:position]:
        return "residual"
    # Only an activation tells a shared expert from a router in several kernels.
    shared = next((m for m in _GROUP.finditer(text, 0, router) if "S" in m.group()), None)
    return "shared_expert" if shared and shared.start() <= position < shared.end() else "router"


def _routed(text: str, position: int, chosen: int, router: int) -> str:
    """Roles between the router and the first product of the experts."""
    letter = text[position]
    if letter == Letter.GEMM_HELPER and not text[router + 1 : position + 1].strip(letter):
        return "router"
    if letter == Letter.QUANT:
        return "up_gate"
    if letter in (Letter.SOFTMAX, Letter.MOE_TOPK):
        return "topk"
    if position < chosen and letter not in (Letter.MOE_DISPATCH, Letter.EXPERT_SEND):
        return "topk"
    if letter in (Letter.GEMM, Letter.ACTIVATION):
        return "shared_expert"
    return "dispatch"


def _expert(text: str, position: int, experts: list[int]) -> str:
    """Roles from the first to the last product of the experts, one after another in loops."""
    letter = text[position]
    if position in experts:
        acts = (Letter.ACTIVATION, Letter.GATE)
        activation = next((i for i in range(experts[0], experts[-1]) if text[i] in acts), -1)
        if text[position] == Letter.GROUPED_GEMM:
            before = position < activation if activation >= 0 else position == experts[0]
            return "up_gate" if before else "down"
        if _is_staged(text, experts):
            return "up_gate" if position < activation else "down"
        after = [i for i in experts if i > position]
        ends = not after or any(
            text[i] in (Letter.GATHER, Letter.KV_WRITE) for i in range(position, after[0])
        )
        return "down" if ends else "up_gate"
    if letter == Letter.MOE_DISPATCH:
        following = next(i for i in experts if i > position)
        return _expert(text, following, experts)
    # A fill that no product follows makes room for what the product before it goes on with.
    filled = letter == Letter.FILL and text[position:].lstrip(letter)[:1] not in PRODUCTS
    if letter == Letter.GEMM_HELPER or filled:
        return _expert(text, max(i for i in experts if i < position), experts)
    return "activation"


def _returned(text: str, position: int, last: int) -> str:
    """Roles after the experts' last product: combine, shared expert, communication, residual."""
    letter = text[position]
    if letter == Letter.GEMM_HELPER and not text[last + 1 : position + 1].strip(letter):
        return "down"
    shared = text.find(Letter.GEMM, last + 1)
    sent = (Letter.COMMUNICATION, Letter.REDUCE_WITH_NORM, Letter.EXPERT_SEND)
    if letter in sent or is_copy_for_communication(text, position):
        return "all_reduce"
    if letter == Letter.NORM:
        return "post_norm"
    if shared >= 0 and position >= shared and letter in _SHARED:
        return "shared_expert"
    shared_products = {
        i: "shared_expert" for i in range(last + 1, len(text)) if text[i] in PRODUCTS
    }
    if served := served_role(text, position, shared_products):
        return served
    rest = text[position + (letter == Letter.MULTIPLY) :]
    return "residual" if rest.startswith(Letter.ADD) and rest.count(Letter.ADD) == 1 else "combine"
