"""From events to kernels that are understood.

`attribute` links, classifies and places them (`stages.py`); its result is what every view takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from solscope.attribution.classify import load_rules
from solscope.attribution.rule_set import RuleSet
from solscope.profile import Profile


@dataclass(frozen=True)
class Attributed:
    """A profile whose GPU activities are linked, classified and placed."""

    profile: Profile
    activities: pl.DataFrame = field(repr=False)
    """GPU activities in file order, with `columns.COLUMNS`; empty for an aggregate profile."""
    aggregates: pl.DataFrame = field(repr=False)
    """The aggregate table plus the columns of `classify`."""
    steps: pl.DataFrame = field(repr=False)
    """One row per step (`steps.STEP_SCHEMA`)."""
    rules: RuleSet = field(repr=False)
    """The rules that classified it."""


def attribute(
    profile: Profile,
    rules: RuleSet | None = None,
    companion: Profile | Sequence[Profile] | None = None,
) -> Attributed:
    """Link, classify and place everything that ran on the GPU.

    `companion` is an eager profile of the same program, or one or more recordings of the capture of
    its graphs: kernels of a graph take operators and inputs from it.
    """
    from solscope.attribution.stages import run_stages

    given = [companion] if isinstance(companion, Profile) else companion or []
    return run_stages(profile, rules or load_rules(), given)
