"""Layer numbers from modules, where the profile has Python stacks or ranges that name them.

A Python stack holds the modules around a launch (`nn.Module: LlamaDecoderLayer_7`). Layers are the
outermost modules that repeat under one parent and have parts of their own; they are numbered by
first use under that parent, so that the layers of two models, and layers of two classes that
alternate, are not mixed up. Names only help to tell which siblings belong to the same stack of
layers. Annotations (`model.layers.7`) state a number outright.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import polars as pl

from solscope.attribution.link import enclosing
from solscope.events import THREAD
from solscope.intervals import nest

MODULE = "nn.Module: "
_INSTANCE = re.compile(r"_\d+$")
_WORD = re.compile(r"[A-Z][a-z0-9]+$")
_RANGE = re.compile(
    r"(?:^|[.\s/])(?:layers?|blocks?|h)[._\[ ](\d+)\]?(?:$|[.\s:,/])", re.IGNORECASE
)
_FEW = 3
"""So few repeated modules may be models, each with layers of its own."""

Tree = dict[str, list[str]]
"""Modules under each module, in order of first use."""


def module_layers(
    events: pl.DataFrame, activities: pl.DataFrame, tree: Tree | None = None
) -> pl.Series:
    """For each activity the number of the layer whose module was open at its launch, or null."""
    layer = pl.Series("layer", [None], dtype=pl.Int32).new_from_index(0, activities.height)
    sources = (
        ("python", numbered_layers(module_tree(events) if tree is None else tree)),
        ("annotation", _stated(events)),
    )
    for kind, known in sources:
        if not known:
            continue
        rows = enclosing(events, activities, kind, set(known))
        names = events["name"].gather(rows).cast(pl.String)
        found = names.replace_strict(known, default=None, return_dtype=pl.Int32)
        layer = layer.zip_with(layer.is_not_null(), found)
    return layer


def numbered_layers(tree: Tree) -> dict[str, int]:
    """Number of each module that is a layer."""
    inner = {child for children in tree.values() for child in children}
    found: dict[str, int] = {}
    for root in (node for node in tree if node not in inner):
        # Towers, or encoder and decoder, of one model: no two layers have the same number.
        layers = [name for stack in _stacks(tree, root) for name in stack]
        found |= {name: number for number, name in enumerate(layers)}
    return found


def _stacks(tree: Tree, node: str, above: frozenset[str] = frozenset()) -> list[list[str]]:
    """Stacks of layers under a module: those that repeat directly under it, else deeper ones.

    A module can run under one of the same name, as compiled graphs do; `above` ends that.
    """
    above |= {node}
    parts = [child for child in tree.get(node, ()) if child in tree and child not in above]
    counts = Counter(_class(child) for child in parts)
    repeated = {name for name, count in counts.items() if count > 1}
    deeper = [stack for child in parts for stack in _stacks(tree, child, above)]
    if not repeated:
        return deeper
    stack = [child for child in parts if _belongs(child, repeated)]
    # Two models under one parent repeat as well; each then has more layers than there are models.
    models = len(stack) <= _FEW and all(
        any(len(s) > len(stack) and _has_norm(tree, s[0]) for s in _stacks(tree, child, above))
        for child in stack
    )
    return deeper if models else [stack]


def _belongs(child: str, repeated: set[str]) -> bool:
    """A sibling of the class that repeats, or of one that is named after the same thing."""
    name = _class(child)
    word = _WORD.search(name)
    return name in repeated or (
        word is not None and any(other.endswith(word.group()) for other in repeated)
    )


def _has_norm(tree: Tree, node: str, above: frozenset[str] = frozenset()) -> bool:
    above |= {node}
    return any(
        "norm" in child.lower() or (child not in above and _has_norm(tree, child, above))
        for child in tree.get(node, ())
    )


def _class(name: str) -> str:
    return _INSTANCE.sub("", name)


def module_tree(events: pl.DataFrame) -> Tree:
    """The modules of Python stacks, by who calls them."""
    frames = (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .filter(
            pl.col("kind") == "python",
            pl.col("start_ns").is_not_null(),
            pl.col("dur_ns").is_not_null(),
        )
        .filter(pl.col("name").cast(pl.String).str.starts_with(MODULE))
        .drop("kind")
        .collect()
    )
    tree: Tree = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for part in frames.sort("start_ns").partition_by(THREAD):
        start = part["start_ns"].to_numpy()
        parent = nest(start, start + part["dur_ns"].to_numpy())
        names = part["name"].cast(pl.String).to_list()
        for name, above in zip(names, parent.tolist(), strict=True):
            if above >= 0 and (pair := (names[above], name)) not in seen:
                seen.add(pair)
                tree[pair[0]].append(name)
    return dict(tree)


def _stated(events: pl.DataFrame) -> dict[str, int]:
    """Layer number of each annotation that states one."""
    names = events.lazy().filter(pl.col("kind") == "annotation").select(pl.col("name").unique())
    found = {}
    for name in names.collect()["name"].drop_nulls():
        match = _RANGE.search(name[:400])
        if match is not None and len(match.group(1)) < 6:
            found[name] = int(match.group(1))
    return found
