"""Layers as a model's config states them: a check of what was found, and evidence for it.

A config can veto. Where a pass has another number of layers, or layers of other kinds, than it
states, nothing about these layers is sure. Where number and kinds are the same, that is evidence of
its own, measured as all other evidence is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from solscope.attribution.confidence import AGREED, CONTRADICTED, lookup, same_kind

RUN = ["rank", "device", "pass"]
"""One run through the model on one device."""


class Expected(NamedTuple):
    """Kinds of the layers of a model, in order; None where the config does not say."""

    kinds: tuple[str | None, ...]


class Verdict(NamedTuple):
    """What a pass shows, beside what was expected."""

    layers: int
    kinds: tuple[str | None, ...]
    differing: tuple[int, ...]
    """Layers of another kind than expected, where their number is right."""

    def agrees(self, expected: Expected) -> bool:
        """True when number and kinds are as expected."""
        return self.layers == len(expected.kinds) and not self.differing


def verdicts(activities: pl.DataFrame, expected: Expected) -> dict[tuple[object, ...], Verdict]:
    """By pass: its layers compared with the expected ones."""
    seen = activities.filter(pl.col("layer").is_not_null()).select(
        *RUN, "layer", pl.col("layer_kind").cast(pl.String)
    )
    passes: dict[tuple[object, ...], dict[int, str | None]] = defaultdict(dict)
    for *run, layer, kind in seen.unique(maintain_order=True).iter_rows():
        passes[tuple(run)].setdefault(layer, kind)
    return {run: _verdict(kinds, expected.kinds) for run, kinds in passes.items()}


def _verdict(kind_of_layer: dict[int, str | None], expected: Sequence[str | None]) -> Verdict:
    kinds = tuple(kind_of_layer[number] for number in sorted(kind_of_layer))
    pairs = zip(kinds, expected, strict=False)
    differing = tuple(
        number
        for number, (kind, wanted) in enumerate(pairs)
        if kind is not None and wanted is not None and not same_kind(kind, wanted)
    )
    return Verdict(len(kinds), kinds, differing if len(kinds) == len(expected) else ())


def with_expected(activities: pl.DataFrame, expected: Expected) -> pl.DataFrame:
    """`activities` with the confidence that agreement or contradiction leaves."""
    verdict_of = verdicts(activities, expected)
    if not verdict_of:
        return activities
    votes = pl.DataFrame(
        [(*run, verdict.agrees(expected)) for run, verdict in verdict_of.items()],
        schema={**{name: activities.schema[name] for name in RUN}, "agrees": pl.Boolean},
        orient="row",
    )
    agrees = activities.select(RUN).join(
        votes, on=RUN, how="left", nulls_equal=True, maintain_order="left"
    )["agrees"]
    named = [
        _voted(activities[f"{subject}_evidence"], agrees).alias(f"{subject}_evidence")
        for subject in ("layer", "kind")
    ]
    table = activities.with_columns(named)
    sure = [
        pl.max_horizontal(lookup(table[f"{s}_evidence"], s), pl.col(f"{s}_confidence"))
        for s in ("layer", "kind")
    ]
    low = pl.Series("agrees", agrees.fill_null(True))
    return (
        table.with_columns(
            pl.when(low).then(sure[0]).otherwise(_capped("layer")).alias("layer_confidence"),
            pl.when(low).then(sure[1]).otherwise(_capped("kind")).alias("kind_confidence"),
            pl.when(low)
            .then("role_confidence")
            .otherwise(_capped("role"))
            .alias("role_confidence"),
        )
        .with_columns(
            pl.min_horizontal(*(f"{s}_confidence" for s in ("layer", "role"))).alias("confidence"),
        )
        .with_columns(pl.col("layer_evidence", "kind_evidence").cast(pl.Categorical))
    )


def with_doubt(activities: pl.DataFrame, about: pl.Expr) -> pl.DataFrame:
    """`activities` with no role sure among those that a contradiction is about."""
    low = pl.when(about.fill_null(value=False))
    return activities.with_columns(
        low.then(_capped("role")).otherwise("role_confidence").alias("role_confidence")
    ).with_columns(pl.min_horizontal("layer_confidence", "role_confidence").alias("confidence"))


def _voted(evidence: pl.Series, agrees: pl.Series) -> pl.Series:
    texts = evidence.cast(pl.String)
    frame = pl.DataFrame({"text": texts, "agrees": agrees})
    return frame.select(
        pl.when(pl.col("text").is_null() | pl.col("agrees").is_null())
        .then("text")
        .when("agrees")
        .then(pl.col("text") + AGREED)
        .otherwise(pl.col("text") + CONTRADICTED)
    ).to_series()


def _capped(subject: str) -> pl.Expr:
    return pl.min_horizontal(f"{subject}_confidence", pl.lit(0.5, pl.Float32))
