"""Which pages a report has: what there is to show of these profiles, or of these results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from solscope.attribution import Attributed
from solscope.hardware import Hardware
from solscope.pages.profile import ProfilePage, profile_page
from solscope.views.lanes.levels import IN_REPORT

if TYPE_CHECKING:
    from typing import TypeAlias

    from solscope.bench.base import ShapeResult
    from solscope.operators.from_config import Model
    from solscope.pages.bench import BenchPage
    from solscope.pages.comparison import ComparisonPage
    from solscope.pages.diagnosis import DiagnosisPage
    from solscope.pages.ranks import RanksPage
    from solscope.pages.single import SinglePage

Page: TypeAlias = (
    "ProfilePage | ComparisonPage | RanksPage | DiagnosisPage | SinglePage | BenchPage"
)


def pages_of_profiles(
    profiles: Sequence[Attributed],
    labels: Sequence[str],
    *,
    diagnose: bool = False,
    hardware: Hardware | None = None,
    model: Model | None = None,
) -> list[Page]:
    """A page per profile, after a diagnosis, runs of several ranks, and a comparison of several.

    `labels` name the profiles on the pages that show more than one. `diagnose` takes one profile,
    or two, the normal one first.
    """
    pages: list[Page] = []
    if diagnose and len(profiles) == 1:
        from solscope.pages.single import single_page

        pages.append(single_page(profiles[0]))
    elif diagnose:
        from solscope.pages.diagnosis import diagnosis_page

        pages.append(diagnosis_page(profiles, labels))
    if len(profiles) > 1:
        from solscope.pages.comparison import comparison_page
        from solscope.pages.ranks import ranks_pages

        pages += ranks_pages(profiles)
        pages.append(comparison_page(profiles, labels))
    most = IN_REPORT // max(1, len(profiles))
    pages += [
        profile_page(profile, hardware, model, most_events=most, whole=True) for profile in profiles
    ]
    return pages


def pages_of_results(
    results: Sequence[ShapeResult], title: str, ignored: Sequence[str] = ()
) -> list[Page]:
    """A page per suite that benchmark results are of; `ignored` says what does not count."""
    from solscope.pages.bench import bench_page

    suites = sorted({line.suite for line in results})
    titles = [title] if len(suites) == 1 else [f"{title}: {suite}" for suite in suites]
    return [
        bench_page(results, name, suite=suite, ignored=ignored)
        for suite, name in zip(suites, titles, strict=True)
    ]
