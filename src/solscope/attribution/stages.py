"""The stages that attribution consists of, one after the other.

They are link -> classify -> owners -> steps -> places -> borrow. Each takes a table and returns it
with more columns. Imported when a profile is attributed: one from the cache has been.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import polars as pl

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.borrow import Companion, borrow, with_replays
from solscope.attribution.classify import classify, load_rules
from solscope.attribution.link import link
from solscope.attribution.modules import module_tree
from solscope.attribution.owners import find_owners
from solscope.attribution.places import find_places
from solscope.attribution.rule_set import RuleSet
from solscope.attribution.sequence import letters
from solscope.attribution.stacks import Stacks
from solscope.attribution.steps import find_steps
from solscope.events import EVENT_SCHEMA, GPU_KINDS
from solscope.profile import Profile

NOT_DECODERS = ("xdit", "diffusers")
"""Frameworks whose models have no decoder layers, prefill or decode."""


def run_stages(profile: Profile, rules: RuleSet, companions: Sequence[Profile]) -> Attributed:
    """What `attribute` returns."""
    decoder = profile.metadata.framework not in NOT_DECODERS
    if profile.events["kind"].is_in(GPU_KINDS).any():
        activities, steps = _placed(profile.events, rules, companions, decoder)
    else:
        activities, steps = _nothing()
    return Attributed(
        profile=profile,
        activities=activities,
        aggregates=_add_operator(classify(profile.aggregates, rules), rules),
        steps=steps,
        rules=rules,
    )


@cache
def _nothing() -> tuple[pl.DataFrame, pl.DataFrame]:
    """The empty tables of profiles without GPU activities, which are those of every summary."""
    return _placed(pl.DataFrame(schema=EVENT_SCHEMA), load_rules(), [], decoder=True)


def _placed(
    events: pl.DataFrame, rules: RuleSet, companions: Sequence[Profile], decoder: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """GPU activities with all that is known of them, and the steps."""
    activities = link(events)
    activities = activities.with_columns(take(events["name"], activities["op_row"]).alias("op"))
    activities = _add_operator(classify(activities, rules), rules)
    helpers: dict[str, str] = {r.id: r.helper for r in rules.rules if r.helper is not None}
    activities = activities.with_columns(find_owners(activities, helpers))
    stacks = Stacks(events, activities)
    sequence, tree = letters(activities, helpers), module_tree(events)
    steps = find_steps(stacks, sequence, tree)
    if not decoder:
        steps = steps.without_phases()
    activities = find_places(stacks, steps, sequence, tree, decoder)
    # Only a model that generates tokens has prefill and decode.
    steps = steps.without_guesses(activities["model"] == "encoder")
    activities = activities.with_columns(steps.pass_phase.alias("phase"))
    return borrow(events, activities, steps.table, lenders(companions, rules)), steps.table


def lenders(profiles: Sequence[Profile], rules: RuleSet) -> list[Companion]:
    """What profiles of the same program can lend."""
    if not profiles:
        return []
    from solscope.attribution.captures import captured

    opened = [run_stages(each, rules, []) for each in profiles]
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
