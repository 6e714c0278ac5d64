"""Confidence: how often claims with the same evidence were right, measured on recordings.

Layer, role and kind of an activity each have evidence: a short text that says how they were found
and which checks hold. `confidence.toml`, written by `scripts/calibrate_layers.py`, has for each
evidence in how many architectures it occurred and how often it was right there, judged by the
modules in Python stacks. A claim with evidence that was seen in few architectures, or in none, is
not sure, whatever speaks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from solscope.attribution.sections import Layer
from solscope.compiled import compiled, parse_toml

Model = Literal["decoder", "encoder", "unknown"]
"""Whether a model generates tokens."""
MODELS: tuple[Model, ...] = ("decoder", "encoder", "unknown")

Doubt = Literal["widths", "new", "alternating"]
"""What speaks against an interpretation of a whole pass; see `patterns.py`."""

Edge = Literal["edge", "end"]
"""Where the neighbor of a layer begins: before the first product of a layer, or right behind the
last one, where a norm can also end the layer before; and a norm that is taken for such an end."""

MEASURED_FILE = Path(__file__).with_name("confidence.toml")
UNSEEN = 0.5
"""Confidence of evidence that occurred in no recording."""
DOUBTED = 0.94
"""Most that the place of a layer is sure where something speaks against the layer or its pass.

Recordings where such a place was right are no evidence for the next: rules were written with them
at hand, and what is unlike them all is unlike them in its own way.
"""
_AGAINST = frozenset(("doubtful", "widths", "new", "alternating"))
LEAST = 0.5
"""A role or kind that is less sure is not claimed."""
MODULES_AGREE, MODULES_ALONE, MODULES_DIFFER = "modules agree", "modules alone", "modules differ"
STATED = {MODULES_AGREE: 0.99, MODULES_ALONE: 0.9, MODULES_DIFFER: 0.5}
"""Confidence where module names vote: stated, not measured.

Modules in Python stacks are the truth by which everything else is measured. Measuring what was
read from the same stacks would only show that they agree with themselves. What a stack records is
taken as nearly sure where the order of kernels says the same, and as doubtful where it does not.
"""
AGREED, CONTRADICTED = ", config agrees", ", config differs"
"""Added to evidence where a model's config was compared; see `expected.py`."""
SUBJECTS = ("layer", "role", "kind")


def same_kind(kind: str, other: str) -> bool:
    """`other` names the same mixer, or that and another, and the same feed-forward part."""
    *mixers, feed = kind.partition(",")[0].split("+")
    *named, fed = other.split("+")
    return set(mixers) <= set(named) and feed == fed


def grade(layer: Layer, model: Model, doubt: Doubt | None = None) -> str:
    """How the bounds of a layer were found, and whether it looks like one.

    Layers of models that do not generate tokens are judged apart, as are those of a second stack
    and those with two attentions: fewer of these were recorded. So are those of a pass about which
    there is a `doubt`.
    """
    special = model == "encoder" or layer.stack or layer.blocks
    suffix = "-encoder" if special else ""
    if not layer.plausible:
        return f"doubtful{suffix}"
    if doubt is not None:
        return f"{doubt}{suffix}"
    if not layer.aligned:
        return f"landmarks{suffix}"
    return f"{'both' if layer.agreed else 'repeats'}{suffix}"


def layer_evidence(place: str, grade: str, edge: Edge | None = None) -> str:
    """Evidence of the place of an activity by the order of kernels."""
    where = edge or ("inside" if place == "layer" else "outside")
    return f"{where} {grade}"


def role_evidence(role: str, grade: str, shapes: bool, named: bool = True) -> str:
    """Evidence of a role by the order of kernels; `named`: the kernel's name says what it does."""
    seen = "shapes" if shapes else "order"
    return f"{role} {grade} {seen if named else 'unnamed'}"


def kind_evidence(kind: str, grade: str) -> str:
    """Evidence of the kind of a layer by the order of kernels."""
    return f"{kind} {grade}"


def confidence(right: float, architectures: float, prior: float = UNSEEN) -> float:
    """The rule of succession over architectures: `right` is the sum of their shares of right time.

    An architecture that has the evidence only when its kernels are changed counts less than one.
    One more architecture is thought to be right for `prior` of its time: half of it where nothing
    is known, so that ten without a mistake give 0.95.
    """
    return (right + prior) / (architectures + 1)


def pool_of(evidence: str) -> str:
    """Evidence of any role, or of any kind, where the rest is the same."""
    return f"any {evidence.partition(' ')[2]}"


def confidences(rows: Mapping[str, tuple[float, float]], subject: str) -> dict[str, float]:
    """Confidence by evidence about a subject, from what was right and the architectures.

    What one role shows says something about the others that were found in the same way: a rare one
    is thought to be as good as all of them together, until more is known of it.
    """
    if subject == "layer":
        return {
            evidence: min(confidence(*row), DOUBTED if _is_doubted(evidence) else 1)
            for evidence, row in rows.items()
        }
    pools = {evidence: confidence(*row) for evidence, row in rows.items()}
    return {
        evidence: confidence(*row, pools.get(pool_of(evidence), UNSEEN))
        for evidence, row in rows.items()
    }


def _is_doubted(evidence: str) -> bool:
    """Whether something speaks against a layer, and no config speaks for it."""
    return evidence.partition(" ")[2].removesuffix("-encoder") in _AGAINST


class _Measured(NamedTuple):
    """What `confidence.toml` comes to."""

    confidences: dict[str, dict[str, float]]
    patterns: list[str]


def _compile(text: str) -> _Measured:
    table = parse_toml(text)
    rows = {
        subject: {
            evidence: (row["right"], row["architectures"])
            for evidence, row in table.get(subject, {}).items()
        }
        for subject in SUBJECTS
    }
    sure = {subject: confidences(of_subject, subject) for subject, of_subject in rows.items()}
    return _Measured(sure, table.get("patterns", []))


@cache
def _measured() -> _Measured:
    return _Measured(*compiled(MEASURED_FILE, __file__, _compile))


def measured() -> dict[str, dict[str, float]]:
    """Confidence by subject and evidence."""
    return _measured().confidences


@cache
def known_patterns() -> frozenset[str]:
    """Patterns of parts that were right in recordings."""
    return frozenset(_measured().patterns)


def lookup(evidence: pl.Series, subject: str) -> pl.Series:
    """Confidence of each evidence; null where there is none."""
    table = evidence.alias(f"{subject}_evidence").to_frame()
    return table.select(confidence_columns(table, [subject])).to_series().alias(evidence.name)


def confidence_columns(table: pl.DataFrame, subjects: Sequence[str] = SUBJECTS) -> list[pl.Expr]:
    """`{subject}_confidence` for the `{subject}_evidence` of a table; null where there is none."""
    texts = {subject: pl.col(f"{subject}_evidence").cast(pl.String) for subject in subjects}
    seen = table.select(text.unique().implode().alias(subject) for subject, text in texts.items())
    return [
        text.replace_strict(
            _sure(seen[subject][0].to_list(), subject), default=None, return_dtype=pl.Float32
        ).alias(f"{subject}_confidence")
        for subject, text in texts.items()
    ]


def _sure(evidence: Iterable[str | None], subject: str) -> dict[str, float]:
    """Confidence by evidence."""
    shares = measured()[subject]
    return {
        text: STATED.get(text, shares.get(text, UNSEEN)) for text in evidence if text is not None
    }
