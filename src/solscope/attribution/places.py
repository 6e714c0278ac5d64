"""Places: step, pass, phase, layer, group and role of every GPU activity.

One walk over the kernels of each run through the model, in the order in which they ran; see
`sequence.py`, `layers.py` and `roles.py` for how. Activities whose place is not seen keep nulls,
and so does everything in a profile of training, whose backward pass has no such order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import positions, series, take
from solscope.attribution.confidence import (
    LEAST,
    MODELS,
    MODULES_AGREE,
    MODULES_ALONE,
    MODULES_DIFFER,
    SUBJECTS,
    Edge,
    Model,
    confidence_columns,
    grade,
    kind_evidence,
    layer_evidence,
    role_evidence,
)
from solscope.attribution.layers import find_layers, model_of, stack_models
from solscope.attribution.module_kinds import with_module_kinds
from solscope.attribution.module_roles import module_votes
from solscope.attribution.modules import Tree, module_layers, module_paths
from solscope.attribution.patterns import doubts_about
from solscope.attribution.products import Product, products_of
from solscope.attribution.role_names import OTHER
from solscope.attribution.roles import Named, epilogue_roles, layer_roles, prologue_roles
from solscope.attribution.sections import Layer
from solscope.attribution.sequence import PRODUCTS, Letter, units
from solscope.attribution.stacks import Stacks
from solscope.attribution.steps import Steps
from solscope.attribution.structure import is_training
from solscope.intervals import Int64s

FOUND_BY = pl.Enum(["sequence", "module", "both"])
"""How the layer of an activity was found: by the order of kernels, by module names, by both."""

PLACES = ("layer", "prologue", "epilogue")


class _Label(NamedTuple):
    """What is known of a unit besides the number of its layer."""

    place: str
    layer_kind: str | None
    group: str
    role: str
    layer_evidence: str
    role_evidence: str
    kind_evidence: str | None


_COLUMNS = {
    "place": pl.Enum(PLACES),
    "layer_kind": pl.Categorical(),
    "group": pl.Categorical(),
    "role": pl.Categorical(),
    "layer_evidence": pl.Categorical(),
    "role_evidence": pl.Categorical(),
    "kind_evidence": pl.Categorical(),
}


def find_places(
    stacks: Stacks, steps: Steps, sequence: pl.Series, tree: Tree, decoder: bool = True
) -> pl.DataFrame:
    """Activities with `step`, `pass`, `phase`, `layer` and the columns of a label."""
    events, activities = stacks.events, stacks.activities
    labels: dict[_Label, int] = {}
    code = np.full(activities.height, -1, dtype=np.int64)
    generates = np.full(activities.height, -1, dtype=np.int64)
    layer = np.full(activities.height, -1, dtype=np.int64)
    table = activities.with_columns(
        steps.step.alias("step"), steps.pass_id.alias("pass"), steps.pass_phase.alias("phase")
    )
    products = products_of(events, activities, sequence)
    whole = set(steps.table["found_by"]) == {"whole_profile"} and steps.pass_id.n_unique() < 2
    if decoder and not is_training(activities):
        for rows, text in _passes(table, sequence):
            shapes = tuple(products[row] for row in rows)
            placed_pass = _place_pass(tuple(text), shapes, cut=not whole)
            if placed_pass is not None:
                numbers = [labels.setdefault(label, len(labels)) for label in placed_pass.labels]
                code[rows] = np.array([*numbers, -1])[placed_pass.code]
                layer[rows] = placed_pass.layer
                generates[rows] = MODELS.index(placed_pass.model)
        _place_transfers(table, sequence, labels, code, generates)
    placed = table.with_columns(
        positions("layer", layer).cast(pl.Int32),
        take(pl.Series("model", MODELS, dtype=pl.Enum(MODELS)), positions("model", generates)),
        *_decode(labels, code),
    )
    module = module_layers(stacks, tree)
    named = _with_modules(placed, module if decoder else module.clear(activities.height))
    if tree and decoder:
        named = _with_module_roles(named, module_votes(stacks, tree, named["role"]))
    return _with_confidence(with_module_kinds(named, stacks, tree)).with_columns(
        module_paths(stacks, tree)
    )


def _with_module_roles(table: pl.DataFrame, votes: pl.DataFrame) -> pl.DataFrame:
    """Confirm roles by module names; products take the role that their module gives them."""
    fits, by_module = pl.col("module_fits"), pl.col("module_role").is_not_null()
    return (
        pl.concat([table, votes], how="horizontal")
        .with_columns(
            pl.coalesce("module_role", pl.col("role").cast(pl.String))
            .cast(pl.Categorical)
            .alias("role"),
            pl.when(fits)
            .then(pl.lit(MODULES_AGREE))
            .when(fits.not_())
            .then(pl.lit(MODULES_DIFFER))
            .when(by_module)
            .then(pl.lit(MODULES_ALONE))
            .otherwise(pl.col("role_evidence").cast(pl.String))
            .alias("role_evidence"),
        )
        .drop("module_role", "module_fits")
    )


def _with_confidence(table: pl.DataFrame) -> pl.DataFrame:
    """Evidence as measured confidence; `confidence` is the lower one of layer and role.

    What was wrong more often than right is not claimed.
    """
    named = pl.col("role").is_not_null() & (pl.col("role_confidence") < LEAST)
    return table.with_columns(confidence_columns(table)).with_columns(
        pl.min_horizontal("layer_confidence", "role_confidence").alias("confidence"),
        pl.when(named)
        .then(pl.lit(OTHER))
        .otherwise(pl.col("role").cast(pl.String))
        .cast(pl.Categorical)
        .alias("role"),
        pl.when(pl.col("kind_confidence") >= LEAST).then("layer_kind").alias("layer_kind"),
        *(pl.col(f"{subject}_evidence").cast(pl.Categorical) for subject in SUBJECTS),
    )


def _with_modules(table: pl.DataFrame, module: pl.Series) -> pl.DataFrame:
    """Confirm layer numbers by module names, and take theirs where the two differ."""
    named, seen = pl.col("module").is_not_null(), pl.col("layer").is_not_null()
    agree = named & seen & (pl.col("module") == pl.col("layer"))
    return (
        table.with_columns(module.alias("module"))
        .with_columns(
            pl.when(agree)
            .then(pl.lit("both", FOUND_BY))
            .when(named)
            .then(pl.lit("module", FOUND_BY))
            .when(pl.col("place").is_not_null())
            .then(pl.lit("sequence", FOUND_BY))
            .alias("found_by"),
            pl.when(agree)
            .then(pl.lit(MODULES_AGREE))
            .when(named & seen)
            .then(pl.lit(MODULES_DIFFER))
            .when(named)
            .then(pl.lit(MODULES_ALONE))
            .otherwise(pl.col("layer_evidence").cast(pl.String))
            .alias("layer_evidence"),
            pl.when(named).then(pl.lit("layer", pl.Enum(PLACES))).otherwise("place").alias("place"),
            pl.coalesce("module", "layer").alias("layer"),
            # What it would be before or after the layers says nothing inside one.
            *(
                pl.when(~(named & seen.not_())).then(name).alias(name)
                for name in ("group", "role", "role_evidence")
            ),
        )
        .drop("module")
    )


def _place_transfers(
    table: pl.DataFrame,
    sequence: pl.Series,
    labels: dict[_Label, int],
    code: Int64s,
    generates: Int64s,
) -> None:
    """Copies between host and device before the layers of a pass are prologue, after them epilogue.

    Between layers they belong to none: they run beside the model (offloaded weights, say). What an
    encoder hands to the host is no token.
    """
    if not (sequence == Letter.TRANSFER.value).any():
        return
    place_of = {number: label.place for label, number in labels.items()}
    place = pl.Series("place", [place_of.get(number) for number in code.tolist()], dtype=pl.String)
    unit = ["rank", "device", "pass"]
    inside = pl.col("start_ns").filter(pl.col("place") == "layer")
    moved = (
        table.select(*unit, "start_ns", pl.int_range(pl.len()).alias("at"))
        .with_columns(place, sequence, series("model", generates))
        .with_columns(
            inside.min().over(unit).alias("first"),
            inside.max().over(unit).alias("last"),
            (pl.col("model").max().over(unit) == MODELS.index("encoder")).alias("encodes"),
        )
        .filter(pl.col("letter") == Letter.TRANSFER)
    )
    before, after = pl.col("start_ns") < pl.col("first"), pl.col("start_ns") > pl.col("last")
    for side, role, where in (
        ("prologue", OTHER, before),
        ("epilogue", OTHER, after & pl.col("encodes")),
        ("epilogue", "sampler", after & ~pl.col("encodes")),
    ):
        rows = moved.filter(where)["at"].to_numpy()
        label = _outside(side, role, "transfer")
        code[rows] = labels.setdefault(label, len(labels))


def _passes(table: pl.DataFrame, sequence: pl.Series) -> list[tuple[Int64s, list[str]]]:
    """Rows and letters of each pass on each device, in the order in which the kernels ran."""
    moves = sequence != Letter.TRANSFER.value
    timed = pl.col("pass").is_not_null() & pl.col("start_ns").is_not_null()
    work = table.select(
        "rank", "device", "pass", "start_ns", sequence, pl.int_range(pl.len()).alias("at")
    )
    ordered = work.filter(timed, moves).sort("start_ns", maintain_order=True)
    return [
        (of_pass["at"].to_numpy(), of_pass["letter"].to_list())
        for of_pass in ordered.partition_by(["rank", "device", "pass"])
    ]


class _Pass(NamedTuple):
    """What was found in a pass: label and number of the layer of each kernel."""

    labels: list[_Label]
    code: Int64s
    """Where in `labels` that of a kernel is; -1 for none."""
    layer: Int64s
    model: Model


@lru_cache(maxsize=128)
def _place_pass(
    sequence: tuple[str, ...], products: tuple[Product | None, ...], *, cut: bool
) -> _Pass | None:
    """Labels and layers of the kernels of a pass; None without layers.

    `cut` says that the pass was cut out of the profile, and does not stand for all of it. Steps of
    decoding run the same kernels again and again, and so do ranks: each sequence is placed once.
    """
    parts = units(sequence)
    layers = find_layers(parts)
    text = "".join(unit.letter for unit in parts)
    if not layers:
        return None
    model = model_of(text, layers)
    shapes = [products[unit.start] for unit in parts]
    models = stack_models(text, layers)
    roles = [layer_roles(text, x, shapes, cached=models[x.stack] == "decoder") for x in layers]
    doubts = doubts_about(text, layers, roles, shapes)
    seen = [grade(x, model, doubt) for x, doubt in zip(layers, doubts, strict=True)]
    first, last = layers[0].start, layers[-1].end
    named: list[_Label | None] = [None] * len(parts)
    numbers = [-1] * len(parts)
    # Where no steps were found, much work around the layers need not belong to the same run.
    if cut or len(parts) < 2 * (last - first):
        named[:first] = [_outside("prologue", r, seen[0]) for r in prologue_roles(text[:first])]
        end = last + _edge(text[last:])
        for position, role in enumerate(
            epilogue_roles(text[last:], decoder=model == "decoder"), last
        ):
            named[position] = _outside(
                "epilogue", role, seen[-1], "edge" if position < end else None
            )
    for number, layer in enumerate(layers):
        labeled = _layer_labels(text, layer, roles[number], seen[number], shapes)
        named[layer.start : layer.end] = labeled
        numbers[layer.start : layer.end] = [number] * (layer.end - layer.start)
    lengths = [unit.end - unit.start for unit in parts]
    labels: dict[_Label, int] = {}
    codes = [-1 if label is None else labels.setdefault(label, len(labels)) for label in named]
    return _Pass(list(labels), np.repeat(codes, lengths), np.repeat(numbers, lengths), model)


def _outside(place: str, role: str, seen: str, edge: Edge | None = None) -> _Label:
    """A label before or after the layers, whose bounds were found as `seen` says."""
    named = role_evidence(role, seen, shapes=False)
    return _Label(place, None, place, role, layer_evidence(place, seen, edge), named, None)


def _edge(text: str) -> int:
    """How many units stand before the first product."""
    return next((position for position, letter in enumerate(text) if letter in PRODUCTS), len(text))


def _layer_labels(
    text: str,
    layer: Layer,
    roles: Sequence[Named],
    seen: str,
    products: Sequence[Product | None],
) -> Iterator[_Label]:
    """Labels of the units of a layer, whose bounds were found as `seen` says."""
    shapes = any(shape is not None for shape in products)
    label = layer.label
    kind, inside = kind_evidence(layer.kind, seen), text[layer.start : layer.end]
    edge = _edge(inside)
    last = len(inside) - 1 if layer.norm_behind else len(inside)
    for position, (letter, named) in enumerate(zip(inside, roles, strict=True)):
        place = layer_evidence(
            "layer", seen, "end" if position == last else "edge" if position < edge else None
        )
        role = role_evidence(named.role, seen, shapes, letter != Letter.UNKNOWN)
        yield _Label("layer", label, named.group, named.role, place, role, kind)


def _decode(labels: dict[_Label, int], code: Int64s) -> list[pl.Series]:
    """Columns of labels from their codes."""
    index = positions("code", code).cast(pl.UInt32)
    rows = list(labels)
    return [
        take(pl.Series(name, [getattr(label, name) for label in rows], dtype=dtype), index)
        for name, dtype in _COLUMNS.items()
    ]
