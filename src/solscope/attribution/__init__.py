"""From events to kernels that are understood.

The stages are link -> classify -> owners -> steps -> places -> borrow. Each takes a table and
returns it with more columns; `attribute` runs them all, and its result is what every view takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from solscope.arrays import take
from solscope.attribution.borrow import BORROWED, Companion, borrow, with_replays
from solscope.attribution.classify import classify, load_rules
from solscope.attribution.link import link
from solscope.attribution.modules import module_tree
from solscope.attribution.owners import find_owners
from solscope.attribution.places import find_places
from solscope.attribution.rule_set import RuleSet
from solscope.attribution.sequence import letters
from solscope.attribution.stacks import Stacks
from solscope.attribution.steps import find_steps
from solscope.profile import Profile

NOT_DECODERS = ("xdit", "diffusers")
"""Frameworks whose models have no decoder layers, prefill or decode."""
COLUMNS = {
    "link": ("row", "launch_row", "op_row", "op_link", "op"),
    "classify": ("category", "rule", "detail", "generic", "operator"),
    "owners": ("owner_row",),
    "places": (
        *("step", "pass", "phase", "place", "layer", "layer_kind", "group", "role", "confidence"),
        *("layer_confidence", "role_confidence", "kind_confidence"),
        *("layer_evidence", "role_evidence", "kind_evidence", "found_by", "model", "module"),
    ),
    "borrow": (*BORROWED, "borrowed_by", "borrowed_call"),
}
"""Columns that each stage adds to those of the event table."""


@dataclass(frozen=True)
class Attributed:
    """A profile whose GPU activities are linked, classified and placed."""

    profile: Profile
    activities: pl.DataFrame = field(repr=False)
    """GPU activities in file order, with `COLUMNS`; empty for an aggregate profile."""
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
    rules = rules or load_rules()
    events = profile.events
    activities = link(events)
    activities = activities.with_columns(take(events["name"], activities["op_row"]).alias("op"))
    activities = _add_operator(classify(activities, rules), rules)
    helpers: dict[str, str] = {r.id: r.helper for r in rules.rules if r.helper is not None}
    activities = activities.with_columns(find_owners(activities, helpers))
    stacks = Stacks(events, activities)
    sequence, tree = letters(activities, helpers), module_tree(events)
    steps = find_steps(stacks, sequence, tree)
    if profile.metadata.framework in NOT_DECODERS:
        steps = steps.without_phases()
    decoder = profile.metadata.framework not in NOT_DECODERS
    activities = find_places(stacks, steps, sequence, tree, decoder)
    # Only a model that generates tokens has prefill and decode.
    steps = steps.without_guesses(activities["model"] == "encoder")
    activities = activities.with_columns(steps.pass_phase.alias("phase"))
    return Attributed(
        profile=profile,
        activities=borrow(events, activities, steps.table, lenders(companion, rules)),
        aggregates=_add_operator(classify(profile.aggregates, rules), rules),
        steps=steps.table,
        rules=rules,
    )


def lenders(
    given: Profile | Sequence[Profile] | None, rules: RuleSet | None = None
) -> list[Companion]:
    """What profiles of the same program can lend."""
    if given is None:
        return []
    from solscope.attribution.captures import captured

    rules = rules or load_rules()
    profiles = [given] if isinstance(given, Profile) else given
    opened = [attribute(each, rules) for each in profiles]
    return [
        Companion(
            each.profile.events,
            with_replays(each.profile.events, each.activities, each.steps),
            captured(each.profile, rules),
        )
        for each in opened
    ]


def _add_operator(table: pl.DataFrame, rules: RuleSet) -> pl.DataFrame:
    """The catalog operator that a kernel implements, where its rule names one."""
    operators = {rule.id: rule.operator for rule in rules.rules if rule.operator is not None}
    named = (
        pl.col("rule")
        .cast(pl.String)
        .replace_strict(operators, default=None, return_dtype=pl.String)
        .cast(pl.Categorical)
    )
    return table.with_columns(
        (pl.lit(None, pl.Categorical) if table.is_empty() else named).alias("operator")
    )
