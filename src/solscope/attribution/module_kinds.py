"""Kinds of layers from module names, where the profile has Python stacks.

The classes below the module of a layer say what it is made of: `LlamaAttention` and `LlamaMLP` are
`attention+dense`. That is a vote beside the order of kernels. Whatever its kernels say one by one,
a layer has one kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from solscope.attribution.confidence import (
    MODULES_AGREE,
    MODULES_ALONE,
    MODULES_DIFFER,
    same_kind,
)
from solscope.attribution.modules import MODULE, Tree, layer_modules
from solscope.attribution.stacks import Stacks
from solscope.patterns import lazy_pattern

_INSTANCE = lazy_pattern(r"_\d+$")
_LINEAR_MIXER = lazy_pattern(
    r"Mixer|Mamba|DeltaNet|ShortConv|Recurrent|Retention|RWKV"
    r"|(?:Lightning|Linear|Delta)(?:Self)?Attention"
)
_ATTENTION = lazy_pattern(r"Attention|Attn")
_EXPERTS = lazy_pattern(r"Experts?(?![a-z])|MoE(?![a-z])|Moe(?:Block|Layer|MLP)?$|Router")
_DENSE = lazy_pattern(r"MLP|Mlp|FeedForward|FFN|LayerFF|Intermediate")
_LINEAR = lazy_pattern(r"^(?:Linear|Conv1D)$")
_WORDS = lazy_pattern(r"[A-Z]?[a-z0-9_]+|[A-Z0-9_]+(?![a-z])")
_LAYER = ["rank", "device", "pass", "layer"]


def with_module_kinds(table: pl.DataFrame, stacks: Stacks, tree: Tree) -> pl.DataFrame:
    """`table` with one kind per layer, and its evidence; modules vote where they are recorded."""
    if not table["found_by"].is_in(["module", "both"]).any():
        return table
    kind_of_module = {name: kind for name in layer_modules(tree) if (kind := _kind(tree, name))}
    kinds_by_activity = _by_activity(stacks, kind_of_module)
    seen = (
        table.select(
            *_LAYER,
            pl.col("dur_ns").fill_null(0),
            pl.col("layer_kind", "kind_evidence").cast(pl.String),
            kinds_by_activity.alias("by_module"),
        )
        .filter(pl.col("layer").is_not_null())
        .group_by(*_LAYER, "layer_kind", "kind_evidence", "by_module", maintain_order=True)
        .agg(pl.col("dur_ns").sum())
    )
    kinds: dict[tuple[object, ...], list[_Seen]] = defaultdict(list)
    for row in seen.sort("dur_ns", descending=True, maintain_order=True).iter_rows():
        kinds[row[: len(_LAYER)]].append(_Seen(*row[len(_LAYER) : -1]))
    votes = pl.DataFrame(
        [(*key, *_vote(parts)) for key, parts in kinds.items()],
        schema={
            **{name: table.schema[name] for name in _LAYER},
            **dict.fromkeys(("layer_kind", "kind_evidence"), pl.String),
        },
        orient="row",
    )
    joined = table.select(_LAYER).join(
        votes, on=_LAYER, how="left", nulls_equal=True, maintain_order="left"
    )
    return table.with_columns(
        joined[name].cast(pl.Categorical) for name in ("layer_kind", "kind_evidence")
    )


class _Seen(NamedTuple):
    """What some kernels of a layer say about its kind."""

    kind: str | None
    evidence: str | None
    module: str | None


def _vote(seen: list[_Seen]) -> tuple[str | None, str | None]:
    """Kind of a layer and its evidence, by the order of most of its kernels and by modules."""
    kind, evidence = next(((s.kind, s.evidence) for s in seen if s.kind), (None, None))
    module = next((s.module for s in seen if s.module), None)
    if module is None:
        return kind, evidence
    if kind is None:
        return module, MODULES_ALONE
    return (kind, MODULES_AGREE) if same_kind(kind, module) else (module, MODULES_DIFFER)


def _by_activity(stacks: Stacks, kind_of_module: dict[str, str]) -> pl.Series:
    names = stacks.names("python", kind_of_module.keys()).cast(pl.String)
    return names.replace_strict(kind_of_module, default=None, return_dtype=pl.String)


def _kind(tree: Tree, layer: str) -> str | None:
    """The kind of a layer by the classes below it; None where they name no mixer."""
    parts = list(_parts(tree, layer, _class(layer), frozenset()))
    mixers = sorted(name for name in parts if name.endswith("attention"))
    feed = "moe" if "moe" in parts else "dense" if "dense" in parts else "none"
    return "+".join((*mixers, feed)) if mixers else None


def _parts(tree: Tree, node: str, layer: str, above: frozenset[str]) -> Iterator[str]:
    """Mixers and feed-forward parts under a module, the outermost of each; `layer` is its class."""
    above |= {node}
    children = [child for child in tree.get(node, ()) if child not in above]
    classes = [_without_family(_class(child), layer) for child in children]
    if sum(bool(_LINEAR.match(name)) for name in classes) > 1:
        yield "dense"  # products of the layer's own
    for child, name in zip(children, classes, strict=True):
        below = _parts(tree, child, layer, above)
        if "Layer" in name or "Norm" in name:
            yield from below
        elif _LINEAR_MIXER.search(name):
            yield "linear_attention"
        elif _EXPERTS.search(name):
            yield "moe"
        elif _DENSE.search(name):
            # A block of experts can be named after the dense part that it replaces.
            yield "moe" if "moe" in below else "dense"
        elif _ATTENTION.search(name):
            yield "attention"
        else:
            yield from below


def _class(name: str) -> str:
    return _INSTANCE.sub("", name.removeprefix(MODULE))


def _without_family(name: str, layer: str) -> str:
    """A class without the name of its family, which may sound like a part: `MambaBlock`."""
    words, others = _WORDS.findall(name), _WORDS.findall(layer)
    shared = 0
    while shared < min(len(words), len(others)) and words[shared] == others[shared]:
        shared += 1
    return "".join(words[shared:]) or name
