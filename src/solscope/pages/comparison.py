"""The page of several profiles side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from solscope.attribution import Attributed
from solscope.compare.kernels import KernelComparison, compare_kernels
from solscope.compare.profiles import Comparison, compare_profiles
from solscope.errors import InputError, UsageError
from solscope.pages.headline import Headline, of_comparison
from solscope.views.layers import LayerTable, layers
from solscope.views.summary import Summary, summarize

MOST_KERNELS = 500
"""Rows of a phase: those that differ most. `solscope compare --kernels --json` has all."""


class ComparisonPage(msgspec.Struct, frozen=True, tag="comparison", tag_field="kind"):
    """Several profiles side by side."""

    title: str
    headline: Headline
    comparison: Comparison
    layers: LayerTable | None
    no_layers: str | None
    """Why there is no table of layers."""
    kernels: KernelComparison | None
    """Two profiles kernel by kernel; null for more, and for summaries."""
    summaries: list[Summary]


def comparison_page(profiles: Sequence[Attributed], labels: Sequence[str]) -> ComparisonPage:
    """Several profiles, aligned by phase, layer and role; what the headline is about first."""
    table, reason = _layers(profiles, labels)
    comparison = compare_profiles(profiles, labels)
    return ComparisonPage(
        title=" · ".join(labels),
        headline=of_comparison(comparison),
        comparison=comparison,
        layers=table,
        no_layers=reason,
        kernels=_kernels(profiles, comparison.phases[0].phase),
        summaries=[summarize(profile) for profile in profiles],
    )


def _layers(
    profiles: Sequence[Attributed], labels: Sequence[str]
) -> tuple[LayerTable | None, str | None]:
    try:
        return layers(profiles, labels), None
    except (InputError, UsageError) as error:
        return None, str(error)


def _kernels(profiles: Sequence[Attributed], first: str | None) -> KernelComparison | None:
    if len(profiles) != 2 or any(each.profile.is_aggregate for each in profiles):
        return None
    comparison = compare_kernels(profiles[0], profiles[1])
    return msgspec.structs.replace(
        comparison,
        phases=[
            msgspec.structs.replace(phase, rows=phase.rows[:MOST_KERNELS])
            for phase in sorted(comparison.phases, key=lambda phase: phase.phase != first)
        ],
    )
