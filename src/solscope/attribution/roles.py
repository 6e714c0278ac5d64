"""Roles: what each kernel of a layer is for, from its place relative to the layer's landmarks.

The landmarks of a layer are its mixer (attention), the projection after it (o_proj) and the start
of the feed-forward part. Everything else takes its role from the section it stands in and from what
it is. Helper kernels (split-K reductions, fills before an accumulating product, quantization of an
input) take the role of the product they serve. `feed_forward.py` has the roles of that part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from solscope.attribution.feed_forward import dense_roles, moe_roles
from solscope.attribution.modulation import is_modulated, modulation_end, with_modulation
from solscope.attribution.products import Product, closing_role, product_role, served_role
from solscope.attribution.role_names import OTHER
from solscope.attribution.sections import Layer, earlier_feed_forward
from solscope.attribution.sequence import MIXERS, NORMS, Letter
from solscope.patterns import lazy_pattern

GROUP_OF_ROLE = {
    **dict.fromkeys(("router", "topk"), "gate"),
    **dict.fromkeys(("dispatch", "combine"), "moe"),
    "shared_expert": "shared",
}
"""Groups that a role decides alone; the others depend on the section (attention, mlp or moe)."""


class Named(NamedTuple):
    """Role and group of one unit."""

    role: str
    group: str


def layer_roles(
    text: str, layer: Layer, products: Sequence[Product | None], *, cached: bool = True
) -> list[Named]:
    """Roles of the units of one layer; `products`: shapes of products, where known.

    `cached` says that the model generates tokens: only then does it write to a cache, and only then
    can its attention be MLA, which makes that smaller.
    """
    if layer.blocks:
        return [
            named
            for block in layer.blocks
            for named in layer_roles(text, block, products, cached=cached)
        ]
    out = [Named(OTHER, "attention")] * (layer.end - layer.start)

    def put(start: int, names: list[str], group: str) -> None:
        for position, role in enumerate(names):
            place = GROUP_OF_ROLE.get(role, group)
            out[start - layer.start + position] = Named(role, place)

    start, linear = layer.start, False
    for mixer in layer.mixers:
        if start > layer.start:
            # The output projection of the mixer before, on the same input.
            middle = _output_end(text, start, mixer.start)
            put(start, _after(text, start, middle, linear, cached, products), "attention")
            start = middle
        linear = mixer.kind == "linear_attention"
        shapes = products[start : mixer.start]
        put(start, _before(text[start : mixer.start], shapes, linear, cached), "attention")
        put(mixer.start, _mixer(text[mixer.start : mixer.end], linear), "attention")
        start = mixer.end
    end = layer.feed_start
    earlier = [end] if linear else earlier_feed_forward(text, start, end)
    put(start, _after(text, start, earlier[0], linear, cached, products), "attention")
    for begin, stop in pairwise(earlier):
        put(begin, dense_roles(text[begin:stop]), "mlp")
    feed = text[layer.feed_start : layer.end]
    moe = layer.feed_forward == "moe"
    shapes = products[layer.feed_start : layer.end]
    names = moe_roles(feed, shapes) if moe else dense_roles(feed)
    put(layer.feed_start, names, "moe" if moe else "mlp")
    if moe:
        # The norm before the router is part of the gate, as engineers draw it.
        for position, role in enumerate(names):
            if role == "post_norm":
                out[layer.feed_start - layer.start + position] = Named(role, "gate")
    return out


def prologue_roles(text: str) -> list[str]:
    """Roles before the first layer: the embedding, and preparation that has no role."""
    # A model begins with the embedding; an engine prepares its inputs before. Compiled models fuse
    # it into an elementwise kernel.
    embedding = 0 if text.startswith(Letter.GATHER) else text.rfind(Letter.GATHER)
    if embedding < 0:
        embedding = text.rfind(Letter.ELEMENTWISE)
    shared = (Letter.COMMUNICATION, Letter.REDUCE_WITH_NORM)
    return [
        "embedding" if position == embedding or (embedding >= 0 and letter in shared) else OTHER
        for position, letter in enumerate(text)
    ]


def epilogue_roles(text: str, *, decoder: bool = True) -> list[str]:
    """Roles after the last layer: final norm, lm_head, then everything of the sampler.

    A head may transform its input first (dense, activation, norm); samplers have no products, so
    the last one is that of the head. What follows the norm of a model that is not seen to generate
    tokens has no role: it pools, or projects to another space.
    """
    head = text.rfind(Letter.GEMM)
    if not decoder:
        end = text.find(Letter.NORM) + 1
        return ["final_norm" if position < end else OTHER for position in range(len(text))]
    helpers = f"{Letter.GEMM_HELPER}{Letter.COMMUNICATION}{Letter.COPY}"
    names = []
    for position, letter in enumerate(text):
        if letter == Letter.NORM and (head < 0 or position < head):
            names.append("final_norm")
        elif head >= 0 and (
            position <= head
            or (
                letter in (Letter.GEMM_HELPER, Letter.COMMUNICATION)
                and text[head:position].strip(helpers) == Letter.GEMM
            )
        ):
            names.append("lm_head")
        else:
            names.append("sampler")
    return names


_PICKS = frozenset((Letter.TOPK, Letter.MOE_TOPK, Letter.SORT))
_MOST_OUTPUTS = 2
"""Products between attention and the feed-forward part: the output projection and MLA's kv_b, or
the output projections of text and image."""


def _output_end(text: str, start: int, end: int) -> int:
    """One past the output projection of a mixer that another one follows in the same layer."""
    marks = (Letter.ACTIVATION, Letter.LINEAR_ATTENTION, Letter.NORM)
    last = max(
        (position for position in range(start, end) if text[position] in marks), default=start
    )
    product = text.find(Letter.GEMM, last, end)
    position = product + 1 if product >= 0 else start
    while position < end and text[position] == Letter.GEMM_HELPER:
        position += 1
    return position


def _before(text: str, shapes: Sequence[Product | None], linear: bool, cached: bool) -> list[str]:
    """Roles between the start of the layer and its mixer."""
    made = modulation_end(text)
    if made:
        # The condition is projected before the first norm that it scales.
        rest = _before(text[made:], shapes[made:], linear, cached)
        return ["modulation"] * made + with_modulation(text[made:], rest)
    first = text.find(Letter.GEMM)
    if first < 0:
        return ["input_norm" if letter == Letter.NORM else "attention" for letter in text]
    if not linear and any(letter in _PICKS for letter in text[first:]):
        # Attention that chooses among projections is not recognized.
        return ["input_norm" if position < first else OTHER for position in range(len(text))]
    products = _projections(text, shapes, cached)
    aside = _aside(shapes, products)
    norm = text.find(Letter.NORM, 0, first)
    write, ready = _cache_write(text, first) if cached else (len(text), _rotated(text, first))
    names: list[str] = []
    for position, letter in enumerate(text):
        if first <= position < aside:
            names.append(OTHER)
        elif role := product_role(text, position, products):
            names.append(role)
        elif position < first:
            residual = letter == Letter.ADD and norm < 0
            scaled = 0 <= norm < position and letter != Letter.NORM
            names.append("residual" if residual else "qkv" if scaled else "input_norm")
        elif linear:
            names.append("conv")
        elif letter == Letter.NORM or _is_cast_of_norm(text, position):
            names.append("qk_norm")
        elif letter == Letter.QUANT or position >= ready:
            names.append("attention")
        else:
            names.append("kv_write" if position >= write else "rope")
    return with_modulation(text, names) if is_modulated(text, norm) else names


def _is_cast_of_norm(text: str, position: int) -> bool:
    """A copy right before a norm in one kernel makes its input contiguous."""
    return text[position] == Letter.COPY and text[position + 1 : position + 2] == Letter.NORM


_POSITIONS = f"{Letter.INDICES}{Letter.ADD}{Letter.ADD_SCALAR}{Letter.ELEMENTWISE}"


def _cache_write(text: str, first: int) -> tuple[int, int]:
    """Where the write to the cache begins, and one past it; what follows prepares attention.

    A write by index computes its positions first; a cache that grows is concatenated, keys and
    values each once, after everything that belongs to the rotary embedding.
    """
    last = text.rfind(Letter.KV_WRITE)
    if last >= 0:
        start = text.find(Letter.KV_WRITE)
        positions = text.rfind(Letter.INDICES, first, start)
        if positions >= 0 and not text[positions:start].strip(_POSITIONS):
            start = positions
        end = last + 1
        while end < len(text) and text[end] in (Letter.ADD, Letter.ADD_SCALAR):
            end += 1
        return start, end
    grown = text.rfind(2 * Letter.CONCATENATION)
    if grown >= 0:
        # Keys and values, one after the other. The rotary embedding concatenates one at a time.
        # MLA caches latents and expands them after that: what else it joins comes later.
        if Letter.GEMM in text[grown:]:
            grown = len(text[:grown].rstrip(Letter.CONCATENATION))
            # Keys are rotated as queries are: one more concatenation where those have it.
            grown += f"{text[grown - _ROTATION : grown]}{Letter.CONCATENATION}" in text[:grown]
        return grown, grown + 2
    rotated = max(text.rfind(letter) for letter in (Letter.MULTIPLY, Letter.ADD, Letter.GEMM))
    joins = [
        position
        for position in range(rotated + 1, len(text))
        if text[position] == Letter.CONCATENATION
    ]
    if not joins:
        return len(text), _prepared(text, first)
    end = joins[-1] + 1
    run = len(text[:end]) - len(text[:end].rstrip(Letter.CONCATENATION))
    return end - min(run, 2), end


def _prepared(text: str, first: int) -> int:
    """Where copies, and a mask that is made, prepare attention."""
    return max(len(text.rstrip(f"{Letter.COPY}{Letter.FILL}{Letter.ELEMENTWISE}")), first)


_ROTATION = 3
"""Kernels at the end of a rotation that show how it ends: two products and their sum."""
_TURNED_TWICE = lazy_pattern(r"(?:u[ce]*u[ce]*i[^G]*){2}")
"""Queries and keys, each times the cosine, plus its other half times the sine."""


_CAST_AND_TURNED = lazy_pattern(r"(?:cu[^uiG]*u[^uiG]*i){2}c{0,2}")
"""Queries and keys, each cast before it is rotated, and perhaps cast back behind both."""


def _rotated(text: str, first: int) -> int:
    """One past the rotary embedding of a model without a cache, which may have none."""
    turns = (Letter.ROPE, Letter.CONCATENATION)
    turned = any(x in turns for x in text[first:]) or _TURNED_TWICE.search(text, first)
    if not turned:
        return first
    cast = _CAST_AND_TURNED.search(text, first)
    return max(_prepared(text, first), 0 if cast is None else cast.end())


def _projections(text: str, shapes: Sequence[Product | None], cached: bool) -> dict[int, str]:
    """Roles of the products before the mixer: one projection, or the chain of MLA."""
    products = [i for i, letter in enumerate(text) if letter == Letter.GEMM]
    read = [shapes[i] for i in products]
    if not cached:
        return dict.fromkeys(products, "qkv")
    if all(shape is not None for shape in read):
        chained = _chain_by_shapes(products, [shape for shape in read if shape is not None])
    else:
        chained = _chain_by_order(text, products)
    roles = dict.fromkeys(products, "q_a_kv_a" if chained else "qkv")
    # Queries may do without a latent: then they are projected beside that of keys and values.
    direct = len(chained) == 1 and len(products) > 2
    for order, i in enumerate(chained):
        roles[i] = "q_b" if order == 0 and not direct else "kv_b"
    return roles


def _aside(shapes: Sequence[Product | None], products: Mapping[int, str]) -> int:
    """One past what stands before the projections to queries, keys and values, if anything does.

    Products that read something narrower than the residual stream, before others that read the
    stream itself, mix streams or add adapters: what attention projects comes after them.
    """
    recorded = {i: shape for i in products if (shape := shapes[i]) is not None}
    if "qkv" not in products.values() or not recorded:
        return 0
    stream = recorded[min(recorded)].inner
    reads = {i: shape.inner == stream and shape.batch == 1 for i, shape in recorded.items()}
    last = max((i for i, read in reads.items() if read), default=-1)
    aside = max((i for i, read in reads.items() if not read and i < last), default=-1)
    return min(i for i in products if i > aside) if aside >= 0 else 0


def _chain_by_shapes(products: list[int], shapes: list[Product]) -> list[int]:
    """Up-projections of MLA: they widen a latent that a narrower projection made.

    One of them is the last before attention: keys and values come from a latent.
    """
    hidden = shapes[0].inner
    latents = [s.outer for s in shapes if s.inner == hidden and s.outer < hidden]
    chained = [i for i, s in zip(products, shapes, strict=True) if s.inner < min(hidden, s.outer)]
    return chained if latents and chained[-1:] == products[-1:] else []


def _chain_by_order(text: str, products: list[int]) -> list[int]:
    """Products behind a norm of a latent, where norms do not stand as those of q and k do.

    A product that a norm follows makes a latent; those of q and k follow both first products.
    """
    inside = [i for i in range(products[0], len(text)) if text[i] in (Letter.GEMM, Letter.NORM)]
    order = "".join(text[i] for i in inside)
    last = order.rfind(Letter.GEMM)
    if Letter.NORM not in order[:last] or order.startswith("GNGN") or order == "GGNGN":
        return []
    norm = text.find(Letter.NORM, products[0])
    normed = [i for i, j in pairwise(inside) if text[j] == Letter.NORM]
    return [i for i in products if i > norm and i not in normed]


def _mixer(text: str, linear: bool) -> list[str]:
    if linear and not any(letter in MIXERS for letter in text):
        # What mixes tokens here is not recognized.
        return [OTHER] * len(text)
    if linear:
        roles = {Letter.CONVOLUTION.value: "conv", Letter.GATE.value: "gating"}
        return [roles.get(letter, "delta_rule") for letter in text]
    first = max(text.find(Letter.ATTENTION), 0)
    return [
        "attention_combine"
        if letter == Letter.ATTENTION_HELPER and position > first
        else "attention"
        for position, letter in enumerate(text)
    ]


def _after(
    text: str,
    start: int,
    end: int,
    linear: bool,
    cached: bool,
    products: Sequence[Product | None],
) -> list[str]:
    """Roles between a mixer and the feed-forward part: output projection, residual."""
    if not linear:
        return _attention_tail(text[start:end], cached)
    convolved = text[start - 1] == Letter.CONVOLUTION
    return _linear_tail(text[start:end], products[start:end], convolved)


def _attention_tail(text: str, cached: bool) -> list[str]:
    last = text.rfind(Letter.GEMM)
    products = {
        i: "kv_b" if cached else "o_proj" for i, letter in enumerate(text) if letter == Letter.GEMM
    }
    if len(products) > _MOST_OUTPUTS:
        return [
            OTHER if position <= last else closing_role(text, position)
            for position in range(len(text))
        ]
    if last >= 0:
        products[last] = "o_proj"
    gate = text.find(Letter.GATE)
    names = []
    for position in range(len(text)):
        if role := product_role(text, position, products):
            names.append(role)
        elif position < last:
            names.append(_inside_attention(text, position, gate, cached))
        else:
            names.append(closing_role(text, position))
    return names


def _inside_attention(text: str, position: int, gate: int, cached: bool) -> str:
    """Role of a unit between attention and its output projection."""
    if not cached and text[position] == Letter.ACTIVATION:
        # Attention and feed-forward part share their projections.
        return "activation"
    gated = (Letter.GATE, Letter.MULTIPLY, Letter.ELEMENTWISE)
    if 0 <= gate <= position and text[position] in gated:
        return "gating"
    if text[position] == Letter.NORM:
        return "qk_norm"
    # Attention ends with its result in the layout that was asked for; a product in between starts
    # the preparation of the next.
    return "o_proj" if Letter.GEMM in text[:position] else "attention"


def _linear_tail(text: str, shapes: Sequence[Product | None], convolved: bool) -> list[str]:
    """Roles between the mixer of linear attention and the next norm.

    `convolved`: the mixer ends with its convolution, whose activation may follow.
    """
    last = text.rfind(Letter.GEMM)
    rules = (Letter.L2_NORM, Letter.LINEAR_ATTENTION)
    rule = next((i for i, letter in enumerate(text) if letter in rules), None)
    gate = _output_gate(text, max(last, 0), int(convolved))
    products = {last: "o_proj"} if last >= 0 else {}
    first = text.find(Letter.GEMM)
    if first < last and not text[: max(first, 0)].strip(f"{Letter.ACTIVATION}{Letter.COPY}"):
        # Mamba projects the convolved input to its step sizes and gates.
        products[first] = "qkv"
        second = text.find(Letter.GEMM, first + 1)
        if second < last and not text[first + 1 : second].strip(f"{Letter.NORM}{Letter.COPY}"):
            products[second] = "qkv"
    for position in range(max(last, 0)):
        if text[position] == Letter.GEMM and _projects(text, shapes, position, gate):
            products[position] = "qkv"
    names = []
    for position, letter in enumerate(text):
        if position in products:
            names.append(products[position])
        elif letter == Letter.FILL and (served := served_role(text, position, products)):
            names.append(served)
        elif position > last:
            helper = letter == Letter.GEMM_HELPER
            names.append("o_proj" if helper else closing_role(text, position))
        elif position >= gate:
            names.append("gating")
        elif letter == Letter.CONVOLUTION or (letter == Letter.ACTIVATION and position < convolved):
            names.append("conv")
        elif letter in (Letter.NORM, Letter.GATE) or (
            # Norms of step sizes and gates, as these.
            rule is not None and position < rule and "s" in text[position:rule]
        ):
            names.append("gating")
        else:
            names.append("delta_rule")
    return names


_TO_GATE = f"{Letter.COPY}{Letter.GEMM_HELPER}{Letter.ADD}"


def _projects(text: str, shapes: Sequence[Product | None], position: int, gate: int) -> bool:
    """A product of linear attention that projects its input, and is no part of its state update.

    Updates are batched over heads. Without shapes, projections are those whose result is a gate:
    right before the activation of one, or before the gated norm of the output.
    """
    if (shape := shapes[position]) is not None:
        return shape.batch == 1
    following = text[position + 1 :].lstrip(_TO_GATE)[:1]
    before_norm = position < gate and text[gate : gate + 1] in NORMS
    return following == Letter.GATE or (before_norm and not text[position:gate].strip(Letter.GEMM))


def _output_gate(text: str, last: int, first: int) -> int:
    """Where the gate or norm of the output begins, from `first` on; `last` when there is none."""
    norm = text.rfind(Letter.NORM, 0, last)
    activation = text.rfind(Letter.ACTIVATION, first, norm if norm >= 0 else last)
    if activation >= 0 and Letter.GEMM not in text[activation : norm if norm >= 0 else last]:
        return activation
    return norm if norm >= 0 else last
