"""Roles: what each kernel of a layer is for, from its place relative to the layer's landmarks.

The landmarks of a layer are its mixer (attention), the projection after it (o_proj), the norm
before the feed-forward part (post_norm) and, in a MoE, the router. Everything else takes its role
from the section it stands in and from what it is. Helper kernels (split-K reductions, fills before
an accumulating product, quantization of an input) take the role of the product they serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from solscope.attribution.layers import Layer

ROLES = {
    "input_norm": "norm at the start of the layer",
    "qkv": "projection to queries, keys and values (or of linear attention's inputs)",
    "q_a_kv_a": "MLA: down-projections of query and latent",
    "q_b": "MLA: up-projection of the query",
    "kv_b": "MLA: up-projection of the latent, or its absorbed product",
    "qk_norm": "norm of queries and keys (MLA: of the latents)",
    "rope": "rotary position embedding",
    "kv_write": "write of keys and values to the cache",
    "attention": "attention proper, with its preparation",
    "attention_combine": "reduction of partial attention results",
    "conv": "short convolution of linear attention",
    "gating": "gates: decay and output gate",
    "delta_rule": "state update and readout of linear attention",
    "o_proj": "output projection of attention",
    "all_reduce": "communication after o_proj or down",
    "residual": "residual addition",
    "post_norm": "norm before the feed-forward part",
    "router": "scores of the experts",
    "topk": "choice of the experts",
    "dispatch": "grouping or sending of tokens by expert",
    "up_gate": "up and gate projection",
    "activation": "activation and its product",
    "down": "down projection",
    "combine": "return and weighted sum of the experts' results",
    "shared_expert": "expert that every token passes",
    "embedding": "token embedding",
    "final_norm": "norm after the last layer",
    "lm_head": "projection to the vocabulary",
    "sampler": "choice of the next token",
}
"""Every role and what it means. What has none of them is `other`."""
OTHER = "other"

GROUP_OF_ROLE = {
    **dict.fromkeys(("router", "topk"), "gate"),
    **dict.fromkeys(("dispatch", "combine"), "moe"),
    "shared_expert": "shared",
}
"""Groups that a role decides alone; the others depend on the section (attention, mlp or moe)."""
GROUPS = ("attention", "gate", "moe", "shared", "mlp")


class Named(NamedTuple):
    """Role and group of one unit."""

    role: str
    group: str


def layer_roles(text: str, layer: Layer, inner: Sequence[int | None]) -> list[Named]:
    """Roles of the units of one layer; `inner`: inner dimensions of products, where known."""
    out = [Named(OTHER, "attention")] * (layer.end - layer.start)

    def put(start: int, names: list[str], group: str) -> None:
        for at, role in enumerate(names):
            place = GROUP_OF_ROLE.get(role, group)
            out[start - layer.start + at] = Named(role, place)

    norm = _post_norm(text, layer)
    before, after = text[layer.start : layer.mixer_start], text[layer.mixer_end : norm]
    linear = layer.mixer == "linear_attention"
    put(layer.start, _before(before, inner[layer.start : layer.mixer_start], linear), "attention")
    put(layer.mixer_start, _mixer(text[layer.mixer_start : layer.mixer_end], linear), "attention")
    put(layer.mixer_end, _linear_tail(after) if linear else _after(after), "attention")
    feed = text[norm : layer.end]
    moe = layer.feed_forward == "moe"
    names = _moe(feed) if moe else _dense(feed)
    put(norm, names, "moe" if moe else "mlp")
    if moe:
        # The norm before the router is part of the gate, as engineers draw it.
        for at, role in enumerate(names):
            if role == "post_norm":
                out[norm - layer.start + at] = Named(role, "gate")
    return out


def prologue_roles(text: str) -> list[str]:
    """Roles before the first layer: the embedding, and preparation that has no role."""
    # The last gather is the embedding; compiled models fuse it into an elementwise kernel.
    embedding = text.rfind("E")
    if embedding < 0:
        embedding = text.rfind("e")
    return [
        "embedding" if at == embedding or (embedding >= 0 and letter in "CY") else OTHER
        for at, letter in enumerate(text)
    ]


def epilogue_roles(text: str) -> list[str]:
    """Roles after the last layer: final norm, lm_head, then everything of the sampler."""
    head = text.find("G")
    names = []
    for at, letter in enumerate(text):
        if letter == "N" and (head < 0 or at < head):
            names.append("final_norm")
        elif head >= 0 and (at <= head or (letter in "gC" and text[head:at].strip("gCc") == "G")):
            names.append("lm_head")
        else:
            names.append("sampler")
    return names


def _post_norm(text: str, layer: Layer) -> int:
    """Index of the norm before the feed-forward part; the layer's end when there is none."""
    region = text[layer.mixer_end : layer.end]
    for at in range(len(region) - 1, -1, -1):
        if region[at] in "NY" and any(letter in "GPO" for letter in region[at + 1 :]):
            first = at
            while first > 0 and region[first - 1] == "N":
                first -= 1
            return layer.mixer_end + first
    return layer.end


def _before(text: str, inner: Sequence[int | None], linear: bool) -> list[str]:
    """Roles between the start of the layer and its mixer."""
    first = text.find("G")
    if first < 0:
        return ["input_norm" if letter == "N" else "attention" for letter in text]
    products = _projections(text, inner)
    write = text.rfind("K")
    layout = len(text.rstrip("cm"))
    append = len(text[:layout].rstrip("j"))
    names: list[str] = []
    for at, letter in enumerate(text):
        if at in products:
            names.append(products[at])
        elif letter in "gmQ" and (served := _served(text, at, products)):
            names.append(served)
        elif at < first:
            names.append("residual" if letter == "i" else "input_norm")
        elif linear:
            names.append("conv")
        elif letter == "N" or (letter == "c" and text[at:].lstrip("c")[:1] == "N"):
            names.append("qk_norm")
        elif letter == "K":
            names.append("kv_write")
        elif letter == "Q" or at >= layout or (write >= 0 and at > write):
            names.append("attention")
        else:
            names.append("kv_write" if write < 0 and at >= append else "rope")
    return names


def _projections(text: str, inner: Sequence[int | None]) -> dict[int, str]:
    """Roles of the products before the mixer: one projection, or the chain of MLA."""
    at = [i for i, letter in enumerate(text) if letter == "G"]
    hidden = inner[at[0]]
    if hidden is not None:
        chained = [i for i in at if inner[i] is not None and inner[i] != hidden]
    else:
        norm = text.find("N", at[0])
        chained = [i for i in at if 0 <= norm < i]
    roles = dict.fromkeys(at, "q_a_kv_a" if chained else "qkv")
    for order, i in enumerate(chained):
        roles[i] = "q_b" if order == 0 else "kv_b"
    return roles


def _served(text: str, at: int, products: dict[int, str]) -> str | None:
    """The role of the product that a helper serves: the one before it, or the next for fills."""
    if text[at] == "g":
        return next((products[i] for i in range(at - 1, -1, -1) if i in products), None)
    following = next((i for i in range(at + 1, len(text)) if i in products), None)
    if following is None or text[at + 1 : following].strip("mQc"):
        return None
    return products[following]


def _mixer(text: str, linear: bool) -> list[str]:
    if linear:
        return [{"V": "conv", "s": "gating"}.get(letter, "delta_rule") for letter in text]
    first = max(text.find("A"), 0)
    return [
        "attention_combine" if letter == "a" and at > first else "attention"
        for at, letter in enumerate(text)
    ]


def _after(text: str) -> list[str]:
    """Roles between attention and the next norm: output projection, communication, residual."""
    last = text.rfind("G")
    products = {i: "kv_b" for i, letter in enumerate(text) if letter == "G"}
    if last >= 0:
        products[last] = "o_proj"
    gate = text.find("s")
    names = []
    for at, letter in enumerate(text):
        if at in products:
            names.append(products[at])
        elif letter in "gmQ" and (served := _served(text, at, products)):
            names.append(served)
        elif at < last:
            names.append("gating" if 0 <= gate <= at and letter in "sue" else "o_proj")
        else:
            names.append(_closing(text, at))
    return names


def _closing(text: str, at: int) -> str:
    """Role of a unit after the last product of a section."""
    letter = text[at]
    if letter in "CYdb" or (letter == "c" and "C" in text[max(0, at - 1) : at + 2]):
        return "all_reduce"
    if letter == "i":
        return "residual"
    return "post_norm" if letter == "N" else "residual"


def _linear_tail(text: str) -> list[str]:
    """Roles between the convolution of linear attention and the next norm."""
    last = text.rfind("G")
    rule = next((i for i, letter in enumerate(text) if letter in "lL"), None)
    norm = text.rfind("N", 0, max(last, 0))
    names = []
    for at, letter in enumerate(text):
        if at == last:
            names.append("o_proj")
        elif at > last:
            names.append("o_proj" if letter == "g" else _closing(text, at))
        elif 0 <= norm <= at:
            names.append("gating")
        elif letter == "V" or (letter == "S" and at == 0):
            names.append("conv")
        elif letter == "s" or (rule is not None and at < rule and "s" in text[at:rule]):
            names.append("gating")
        else:
            names.append("delta_rule")
    return names


def _dense(text: str) -> list[str]:
    """Roles of a dense feed-forward part, its norm included."""
    last = text.rfind("G")
    products = {i: "up_gate" for i, letter in enumerate(text) if letter == "G"}
    if last >= 0:
        products[last] = "down"
    names = []
    for at, letter in enumerate(text):
        if at in products:
            names.append(products[at])
        elif letter in "gmQ" and (served := _served(text, at, products)):
            names.append(served)
        elif letter == "N" and (at < last or not names or names[-1] == "post_norm"):
            names.append("post_norm")
        elif at < last:
            names.append("activation" if any(i < at for i in products) else "post_norm")
        else:
            names.append(_closing(text, at))
    return names


def _moe(text: str) -> list[str]:
    """Roles of a MoE: router, top-k, dispatch, experts, combine, shared expert."""
    choice = next((i for i, letter in enumerate(text) if letter in "XtO"), -1)
    if choice < 0:
        # Top-k is part of the dispatch kernels.
        choice = next((i for i, letter in enumerate(text) if letter in "DdP"), len(text))
    router = text.rfind("G", 0, choice)
    experts = [i for i, letter in enumerate(text) if letter == "P"]
    first, last = (experts[0], experts[-1]) if experts else (len(text), -1)
    chosen = _end_of_choice(text, choice)
    names = []
    for at in range(len(text)):
        if at <= router:
            names.append(_gate(text, at, router))
        elif at < first:
            names.append(_routed(text, at, chosen, router))
        elif at <= last:
            names.append(_expert(text, at, experts))
        else:
            names.append(_returned(text, at, last))
    return names


def _end_of_choice(text: str, choice: int) -> int:
    """One past the kernels that choose experts: softmax or scores, then the first run of top-k."""
    at = choice
    while at < len(text) and text[at] in "XO":
        at += 1
    while at < len(text) and text[at] in "tsiX":
        at += 1
    return at


def _gate(text: str, at: int, router: int) -> str:
    letter = text[at]
    if at == router or (letter == "g" and text[router:at].strip("g") == "G"):
        return "router"
    if letter == "N":
        return "post_norm"
    # Only an activation tells a shared expert from a router in several kernels.
    shared = "S" in text[:router] and "G" in text[: at + 1]
    return "shared_expert" if shared and letter in "GgSus" else "router"


def _routed(text: str, at: int, chosen: int, router: int) -> str:
    """Roles between the router and the first product of the experts."""
    letter = text[at]
    if letter == "g" and text[router + 1 : at + 1].strip("g") == "":
        return "router"
    if letter == "Q":
        return "up_gate"
    if letter in "XO" or (at < chosen and letter not in "Dd"):
        return "topk"
    if letter == "G":
        return "up_gate" if "S" not in text[text.rfind("E", 0, at) + 1 : at] else "down"
    return "activation" if letter == "S" else "dispatch"


def _expert(text: str, at: int, experts: list[int]) -> str:
    letter = text[at]
    activation = text.find("S", experts[0], experts[-1])
    if letter == "P":
        before = at < activation if activation >= 0 else at == experts[0]
        return "up_gate" if before else "down"
    if letter == "D":
        following = next(i for i in experts if i > at)
        return _expert(text, following, experts)
    return "activation"


def _returned(text: str, at: int, last: int) -> str:
    """Roles after the experts' last product: combine, shared expert, communication, residual."""
    letter = text[at]
    shared = text.find("G", last + 1)
    if letter in "CYd" or (letter == "c" and "C" in text[max(0, at - 1) : at + 2]):
        return "all_reduce"
    if shared >= 0 and at >= shared and letter in "GgSsue":
        return "shared_expert"
    if letter == "i" and "i" not in text[at + 1 :]:
        return "residual"
    return "combine"
