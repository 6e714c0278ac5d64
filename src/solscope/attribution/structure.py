"""Recordings without layers of a model: training, recommendation models, work without mixers."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

TRAINING = r"(?i)backward|_bwd|bwd_|multi_tensor_apply.*adam|fused_adam"
"""Kernels of a backward pass or an optimizer."""
_TABLES = r"(?i)split_embedding|embedding_?bag|\btbe_|bounds_check_indices|fbgemm.*embedding"
"""Kernels that look up the tables of a recommendation model."""
_MIXERS = ("attention", "linear_attention", "softmax")


class Unplaced(NamedTuple):
    """Why layers and roles are not reported."""

    training: bool
    reason: str


def is_training(activities: pl.DataFrame) -> bool:
    """True when a backward pass or an optimizer ran."""
    return _any(activities, TRAINING)


def why_unplaced(activities: pl.DataFrame) -> Unplaced | None:
    """The reason that a recording has no layers; None where it has, or where it is not known."""
    if activities.is_empty() or activities["layer"].null_count() < activities.height:
        return None
    if is_training(activities):
        kind = "a recommendation model" if _any(activities, _TABLES) else "a model"
        return Unplaced(
            True,
            f"this is the training of {kind} (kernels of a backward pass or an optimizer ran): "
            "no layers, roles and phases are claimed",
        )
    mixes = activities["category"].cast(pl.String).is_in(_MIXERS).any()
    if _any(activities, _TABLES) and not mixes:
        return Unplaced(
            False,
            "this looks like a recommendation model (embedding tables, and nothing that mixes "
            "tokens): no layers, roles and phases are claimed",
        )
    return None


def _any(activities: pl.DataFrame, pattern: str) -> bool:
    names = activities["name"].unique().cast(pl.String)
    return bool(names.str.contains(pattern).any())
