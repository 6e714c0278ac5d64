"""From events to kernels that are understood: link -> classify -> steps -> places.

Each stage takes a table and returns it with more columns; `attribute` runs them all, and its result
is what every view takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from solscope.attribution.classify import RuleSet, classify, load_rules
from solscope.attribution.link import link
from solscope.attribution.places import find_places
from solscope.attribution.steps import find_steps
from solscope.profile import Profile


@dataclass(frozen=True)
class Attributed:
    """A profile whose GPU activities are linked, classified and placed."""

    profile: Profile
    activities: pl.DataFrame = field(repr=False)
    """GPU activities in file order; empty for an aggregate profile. Event columns, plus

    - `row`, `launch_row`, `op_row`, `op_link`, `op`: where they come from, - `category`, `rule`,
    `detail`, `generic`, `operator`: what they are, - `step`, `pass`, `phase`, `place`, `layer`,
    `layer_kind`, `group`, `role`, `confidence`: where in
      the model they stand.
    """
    aggregates: pl.DataFrame = field(repr=False)
    """The aggregate table plus `category`, `rule`, `detail`, `generic`."""
    steps: pl.DataFrame = field(repr=False)
    """One row per step (`steps.STEP_SCHEMA`)."""


def attribute(profile: Profile, rules: RuleSet | None = None) -> Attributed:
    """Link, classify and place everything that ran on the GPU."""
    rules = rules or load_rules()
    linked = link(profile.events)
    linked = linked.with_columns(profile.events["name"].gather(linked["op_row"]).alias("op"))
    activities = classify(linked, rules)
    steps = find_steps(profile.events, activities)
    helpers: dict[str, str] = {r.id: r.helper for r in rules.rules if r.helper is not None}
    operators = {rule.id: rule.operator for rule in rules.rules if rule.operator is not None}
    named = activities["rule"].cast(pl.String).replace_strict(operators, default=None)
    activities = activities.with_columns(named.cast(pl.Categorical).alias("operator"))
    return Attributed(
        profile=profile,
        activities=find_places(profile.events, activities, steps, helpers),
        aggregates=classify(profile.aggregates, rules),
        steps=steps.table,
    )
