"""From events to kernels that are understood: link -> classify.

Each stage takes a table and returns it with more columns.

`attribute` runs the stages; its result is what every view takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from solscope.attribution.classify import RuleSet, classify, load_rules
from solscope.attribution.link import link
from solscope.profile import Profile


@dataclass(frozen=True)
class Attributed:
    """A profile whose GPU activities are linked and classified."""

    profile: Profile
    activities: pl.DataFrame = field(repr=False)
    """GPU activities in file order: event columns plus `row`, `launch_row`, `op_row`, `op_link`,
    `op`,
    `category`, `rule`, `detail`, `generic`. Empty for an aggregate profile."""
    aggregates: pl.DataFrame = field(repr=False)
    """The aggregate table plus `category`, `rule`, `detail`, `generic`."""


def attribute(profile: Profile, rules: RuleSet | None = None) -> Attributed:
    """Link and classify everything that ran on the GPU."""
    rules = rules or load_rules()
    linked = link(profile.events)
    linked = linked.with_columns(profile.events["name"].gather(linked["op_row"]).alias("op"))
    return Attributed(
        profile=profile,
        activities=classify(linked, rules),
        aggregates=classify(profile.aggregates, rules),
    )
