"""Layer numbers from modules, where the profile has Python stacks or ranges that name them.

A Python stack holds the modules around a launch (`nn.Module: LlamaDecoderLayer_7`). Layers are the
outermost modules that repeat under one parent and have parts of their own; they are numbered by
first use under that parent, so that the layers of two models, and layers of two classes that
alternate, are not mixed up. Names only help to tell which siblings belong to the same stack of
layers. A module among layers that holds another one of their class is no layer itself: it runs
several, one of which it may share with others (a block of attention before every sixth of Mamba).
Annotations (`model.layers.7`) state a number outright.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

import polars as pl

from solscope.arrays import holds
from solscope.attribution.stacks import Stacks
from solscope.events import THREAD
from solscope.intervals import nest
from solscope.patterns import lazy_pattern
from solscope.queries import collect

MODULE = "nn.Module: "
_INSTANCE = lazy_pattern(r"_\d+$")
_WORD = lazy_pattern(r"[A-Z][a-z0-9]+$")
_RANGE = lazy_pattern(
    r"(?:^|[.\s/])(?:layers?|blocks?|h)[._\[ ](\d+)\]?(?:$|[.\s:,/])", re.IGNORECASE
)
_FEW = 3
"""So few repeated modules may be models or stacks, each with layers of its own."""


class Tree(dict[str, list[str]]):
    """Modules under each module, in order of first use."""

    @cached_property
    def numbers(self) -> Numbers:
        """The number of each layer, which several questions are about."""
        return _layer_numbers(self)


Numbers = dict[tuple[str, str | None], int]
"""Number of each layer, by its module and by the one that holds it and others, if any."""


def module_layers(stacks: Stacks, tree: Tree | None = None) -> pl.Series:
    """For each activity the number of the layer whose module was open at its launch, or null."""
    numbers = (module_tree(stacks.events) if tree is None else tree).numbers
    stated = _stated(stacks.events)
    opened = pl.DataFrame(
        {
            "module": stacks.names("python", {module for module, _ in numbers}),
            "wrapper": stacks.names("python", {w for _, w in numbers if w is not None}),
            "range": stacks.names("annotation", stated.keys()),
        }
    )
    keys = opened.columns
    distinct = opened.unique()
    layer = [
        stated.get(name) if (number := numbers.get((module, wrapper))) is None else number
        for module, wrapper, name in distinct.select(pl.all().cast(pl.String)).iter_rows()
    ]
    numbered = distinct.with_columns(pl.Series("layer", layer, dtype=pl.Int32))
    joined = opened.join(numbered, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined["layer"]


def module_paths(stacks: Stacks, tree: Tree) -> pl.Series:
    """For each activity the classes of the modules that were open at its launch, outermost first.

    From below the layer where there is one (`LlamaAttention.Linear`), else from below the model.
    """
    above = {child: node for node, children in reversed(tree.items()) for child in children}
    layers = set(layer_modules(tree))
    paths_by_name = {name: _path(name, above, layers) for name in {*tree, *above}}
    names = stacks.names("python", paths_by_name.keys()).cast(pl.String)
    paths = names.replace_strict(paths_by_name, default=None, return_dtype=pl.String)
    return paths.cast(pl.Categorical).alias("module")


def _path(name: str, above: dict[str, str], layers: set[str]) -> str:
    modules = [name]
    while modules[-1] not in layers and (parent := above.get(modules[-1])) not in (None, *modules):
        modules.append(str(parent))
    inside = modules[:-1] or modules
    return ".".join(_class(module.removeprefix(MODULE)) for module in reversed(inside))


def layer_modules(tree: Tree) -> list[str]:
    """Names of all modules that are layers, in order of first use."""
    return list(dict.fromkeys(module for module, _ in tree.numbers))


def models_in(tree: Tree) -> set[str]:
    """Modules that no other calls, and that hold layers: each call is a pass."""
    layers = set(layer_modules(tree))
    return {root for root in _roots(tree) if layers & _below(tree, root)}


def _roots(tree: Tree) -> list[str]:
    inner = {child for children in tree.values() for child in children}
    return [node for node in tree if node not in inner]


def _below(tree: Tree, node: str) -> set[str]:
    found: set[str] = set()
    left = [node]
    while left:
        fresh = [child for child in tree.get(left.pop(), ()) if child not in found]
        found.update(fresh)
        left += fresh
    return found


def layer_numbers(tree: dict[str, list[str]]) -> Numbers:
    """The number of each layer of a tree; of a `Tree`, worked out once."""
    return (tree if isinstance(tree, Tree) else Tree(tree)).numbers


def _layer_numbers(tree: Tree) -> Numbers:
    numbers: Numbers = {}
    for root in _roots(tree):
        # Towers, or encoder and decoder, of one model: no two layers have the same number.
        layers = [key for stack in _stacks(tree, root) for key in _unwrapped(tree, stack)]
        numbers |= {key: number for number, key in enumerate(layers)}
    return numbers


def _unwrapped(tree: Tree, stack: list[str]) -> Iterator[tuple[str, str | None]]:
    """The layers of a stack, and the module that holds each together with others."""
    classes = {_class(child) for child in stack}
    for child in stack:
        inner = [module for module in tree[child] if module in tree and module != child]
        if any(_class(module) in classes for module in inner):
            yield from ((module, child) for module in inner if _belongs(module, classes))
        else:
            yield child, None


def _stacks(tree: Tree, node: str, above: frozenset[str] = frozenset()) -> list[list[str]]:
    """Stacks of layers under a module: those that repeat directly under it, else deeper ones.

    A module can run under one of the same name, as compiled graphs do; `above` ends that.
    """
    above |= {node}
    children = [child for child in tree.get(node, ()) if child in tree and child not in above]
    counts = Counter(_class(child) for child in children)
    repeated = {name for name, count in counts.items() if count > 1}
    deeper = [stack for child in children for stack in _stacks(tree, child, above)]
    if not repeated:
        return deeper
    stack = [child for child in children if _belongs(child, repeated)]
    if _are_heads(tree, stack, deeper):
        return deeper
    # Two models, or two stacks of one model, under one parent repeat as well.
    holders = len(stack) <= _FEW and all(
        any(_holds_layers(tree, child, s, len(stack)) for s in _stacks(tree, child, above))
        for child in stack
    )
    return deeper if holders else [stack]


def _are_heads(tree: Tree, stack: list[str], deeper: list[list[str]]) -> bool:
    """Whether what repeats in a model are its heads, without norms, beside stacks with norms."""
    layers = [inner for inner in deeper if _has_norm(tree, inner[0]) and len(inner) > len(stack)]
    return bool(layers) and not any(_has_norm(tree, child) for child in stack)


def _holds_layers(tree: Tree, module: str, inner: list[str], siblings: int) -> bool:
    """Whether what repeats in a module are layers, so that it is none itself.

    There are more of them than modules like it, or it has nothing beside them but norms.
    """
    beside = [child for child in tree[module] if child not in inner and child != module]
    alone = all("norm" in child.lower() for child in beside)
    return _has_norm(tree, inner[0]) and (len(inner) > siblings or alone)


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
    frames = collect(
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .filter(
            pl.col("kind") == "python",
            pl.col("start_ns").is_not_null(),
            pl.col("dur_ns").is_not_null(),
        )
        .drop("kind")
    )
    frames = frames.filter(holds(frames["name"], lambda texts: texts.str.starts_with(MODULE)))
    tree: defaultdict[str, list[str]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for thread in frames.sort("start_ns").partition_by(THREAD):
        start = thread["start_ns"].to_numpy()
        parent = nest(start, start + thread["dur_ns"].to_numpy())
        names = thread["name"].cast(pl.String).to_list()
        for name, above in zip(names, parent.tolist(), strict=True):
            if above >= 0 and (pair := (names[above], name)) not in seen:
                seen.add(pair)
                tree[pair[0]].append(name)
    return Tree(tree)


def _stated(events: pl.DataFrame) -> dict[str, int]:
    """Layer number of each annotation that states one."""
    names = events.lazy().filter(pl.col("kind") == "annotation").select(pl.col("name").unique())
    numbers = {}
    for name in collect(names)["name"].drop_nulls():
        match = _RANGE.search(name[:400])
        if match is not None and len(match.group(1)) < 6:
            numbers[name] = int(match.group(1))
    return numbers
