"""What module names say about roles, where the profile has Python stacks.

The class of a module says what it is for, in words that models share: attention, MLP, router,
experts, norm. Products of attention and of a feed-forward part have an order too: the last linear
module that such a module uses is its output. That is a vote beside the order of kernels:

* a product takes the role that its module gives it;
* everything else keeps its role, and its module says whether that role can stand there.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import polars as pl

from solscope.attribution.modules import MODULE, Tree, layer_modules
from solscope.attribution.stacks import Stacks
from solscope.patterns import lazy_pattern

_ATTENTION_ROLES = frozenset(
    (
        *("qkv", "q_a_kv_a", "q_b", "kv_b", "qk_norm", "rope", "kv_write", "attention"),
        *("attention_combine", "conv", "gating", "delta_rule", "o_proj", "all_reduce"),
        *("residual", "other"),
    )
)
_EXPERT_ROLES = frozenset(
    (
        *("router", "topk", "dispatch", "up_gate", "activation", "down", "combine"),
        *("shared_expert", "all_reduce", "residual", "other"),
    )
)


class _Section(NamedTuple):
    """A kind of module: its classes, the roles in it, and those of its products."""

    classes: re.Pattern[str]
    roles: frozenset[str]
    inner: str | None
    """Role of its linear modules but the last; None where the order says nothing."""
    output: str | None
    """Role of its last linear module."""


_SECTIONS = (
    _Section(
        lazy_pattern(r"Experts|MoE(?![a-z])|Moe(?:Block|Layer|MLP)?$|Router|Gating"),
        *(_EXPERT_ROLES, None, None),
    ),
    _Section(
        lazy_pattern(r"MLP|FeedForward|FFN|LayerFF|Mlp"),
        *(frozenset(("post_norm", *_EXPERT_ROLES)), "up_gate", "down"),
    ),
    _Section(
        lazy_pattern(r"Attention|Attn|Mixer|Mamba(?!.*Layer)|DeltaNet|Recurrent|ShortConv"),
        *(frozenset(("input_norm", "post_norm", *_ATTENTION_ROLES)), "qkv", "o_proj"),
    ),
    _Section(
        lazy_pattern(r"Norm"),
        *(frozenset(("input_norm", "post_norm", "qk_norm", "gating", "final_norm")), None, None),
    ),
)
_LINEAR = lazy_pattern(r"(?:Linear|Conv1D)_\d+$")
_INSTANCE = lazy_pattern(r"_\d+$")
_REFINED = {
    "qkv": frozenset(("q_a_kv_a", "q_b", "kv_b")),
    "up_gate": frozenset(("shared_expert",)),
    "down": frozenset(("shared_expert",)),
}
"""Roles that say more than what the order of linear modules tells."""


def module_votes(stacks: Stacks, tree: Tree, role: pl.Series) -> pl.DataFrame:
    """`module_role`, and `module_fits`: whether modules confirm the role by order; null: no vote.

    `tree` has the modules of the profile; `role` the roles by the order of kernels.
    """
    inside_layers = {name for layer in layer_modules(tree) for name in _below(tree, layer)}
    by_module = {
        name: of_module for name in inside_layers if (of_module := _section(name)) is not None
    }
    linear = _linear_roles(tree, by_module)
    inside = _innermost(stacks, by_module.keys())
    product = _innermost(stacks, linear.keys())
    texts = role.cast(pl.String).to_list()
    gemm = (stacks.activities["category"].cast(pl.String) == "gemm").to_list()
    rows = [
        _vote(text, by_module.get(section or ""), linear.get(leaf or "") if is_gemm else None)
        for text, section, leaf, is_gemm in zip(texts, inside, product, gemm, strict=True)
    ]
    return pl.DataFrame(
        rows, schema={"module_role": pl.String, "module_fits": pl.Boolean}, orient="row"
    )


def _vote(
    role: str | None, section: _Section | None, product: str | None
) -> tuple[str | None, bool | None]:
    """The role by modules, and whether the role by order is confirmed or contradicted."""
    if product is not None and role not in _REFINED.get(product, ()):
        return product, (None if role is None else role == product)
    # That a role can stand in a module does not make it right; that it cannot makes it doubtful.
    wrong = section is not None and role is not None and role not in section.roles
    return None, (False if wrong else None)


def _section(name: str) -> _Section | None:
    text = _INSTANCE.sub("", name.removeprefix(MODULE))
    if "Layer" in text and not re.search(r"Layer(?:FF|Norm)", text):
        return None
    return next((section for section in _SECTIONS if section.classes.search(text)), None)


def _linear_roles(tree: Tree, sections: dict[str, _Section]) -> dict[str, str]:
    """Role of each linear module below attention or a dense feed-forward part.

    The outermost module of its kind counts: its output may be in a part of its own.
    """
    inner = {
        child
        for name, section in sections.items()
        for child in _below(tree, name)
        if sections.get(child) is section
    }
    out: dict[str, str] = {}
    for name, section in sections.items():
        linears = [child for child in _below(tree, name) if _LINEAR.search(child)]
        if name in inner or section.inner is None or section.output is None or len(linears) < 2:
            continue
        out |= dict.fromkeys(linears[:-1], section.inner)
        out[linears[-1]] = section.output
    return out


def _below(tree: Tree, name: str) -> list[str]:
    """All modules below one, in order of first use."""
    out: dict[str, None] = {}
    waiting = list(reversed(tree.get(name, ())))
    while waiting:
        child = waiting.pop()
        if child not in out and child != name:
            out[child] = None
            waiting += reversed(tree.get(child, ()))
    return list(out)


def _innermost(stacks: Stacks, names: AbstractSet[str]) -> list[str | None]:
    return stacks.names("python", names).cast(pl.String).to_list()
