"""The pages of runs whose ranks are files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from solscope.attribution import Attributed
from solscope.pages.headline import Headline, of_ranks
from solscope.ranks.analysis import analyze
from solscope.ranks.facts import rank_facts
from solscope.ranks.read import make_run
from solscope.ranks.skew import collective_calls
from solscope.views.rank_lanes import RankLanes, rank_lanes
from solscope.views.ranks import RunRanks, rank_table
from solscope.views.runs import Run, computes_longest, runs
from solscope.views.summary import Summary, summarize


class RanksPage(msgspec.Struct, frozen=True, tag="ranks", tag_field="kind"):
    """The ranks of one run, one file each."""

    title: str
    headline: Headline
    run: Run
    table: RunRanks
    """Who waits for whom, and why."""
    lanes: RankLanes | None
    """All ranks on one time line; null where they have no common clock."""
    summaries: list[Summary]
    """Of the files, in the order of the ranks."""


def ranks_pages(profiles: Sequence[Attributed]) -> list[RanksPage]:
    """One page for each run whose ranks are files among these profiles."""
    ranked = [attributed for attributed in profiles if attributed.profile.metadata.rank is not None]
    if len(ranked) < 2:
        return []
    summaries = {attributed.profile.path: summarize(attributed, top=0) for attributed in ranked}
    calls = {attributed.profile.path: collective_calls(attributed) for attributed in ranked}
    candidates = runs(list(summaries.values()), calls)
    by_path = {attributed.profile.path: attributed for attributed in ranked}
    return [
        _page(run, by_path, [summaries[row.path] for row in run.ranks])
        for run in candidates
        # One file that merges its ranks lists them on its own page.
        if len({row.path for row in run.ranks}) > 1
    ]


def _page(run: Run, profiles: Mapping[str, Attributed], summaries: list[Summary]) -> RanksPage:
    facts = [rank for row in run.ranks for rank in rank_facts(profiles[row.path], row.rank)]
    analysis = analyze(make_run(run.name, facts))
    table = rank_table(analysis)
    return RanksPage(
        title=_title(run),
        headline=of_ranks(run, table, computes_longest(run)),
        run=run,
        table=table,
        lanes=rank_lanes(analysis),
        summaries=summaries,
    )


def _title(run: Run) -> str:
    """The folder of the ranks where a pattern names them."""
    name = Path(run.name)
    return name.parent.name if "*" in name.name and name.parent.name else name.name
