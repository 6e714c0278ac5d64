"""The changelog follows Keep a Changelog, so that people and tools can read it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from solscope._version import __version__

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
RELEASE = re.compile(r"\[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>\d{4}-\d{2}-\d{2})")
SIMILAR = 0.7
"""Two entries that share this part of their words say the same thing twice."""


def problems(text: str, version: str) -> list[str]:
    """What a reader of a changelog would stumble over."""
    preamble, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    titles = [section.partition("\n")[0].strip() for section in sections]
    found = [] if preamble.startswith("# Changelog\n") else ["does not begin with '# Changelog'"]
    if titles[:1] != ["[Unreleased]"]:
        found.append("the first section is not '## [Unreleased]'")
    releases = []
    for title in titles[1:]:
        if match := RELEASE.fullmatch(title):
            releases.append((_numbers(match["version"]), date.fromisoformat(match["date"])))
        else:
            found.append(f"'## {title}' is not '## [X.Y.Z] - YYYY-MM-DD'")
    if any(
        newer[0] <= older[0] or newer[1] < older[1] for newer, older in itertools.pairwise(releases)
    ):
        found.append("releases are not in descending order")
    if _numbers(version) not in [number for number, _ in releases]:
        found.append(f"version {version} has no section")
    for title, section in zip(titles, sections, strict=True):
        found += [f"{title}: {problem}" for problem in _section_problems(section)]
    return found + _repeated(entries(text))


def entries(text: str) -> list[str]:
    """All entries, each on one line."""
    return [
        " ".join(entry.split())
        for entry in re.findall(r"^- (.+(?:\n  .+)*)", text, flags=re.MULTILINE)
    ]


def _section_problems(section: str) -> list[str]:
    headings = re.findall(r"^### (.*)$", section, flags=re.MULTILINE)
    found = [f"unknown heading '### {name}'" for name in headings if name not in CHANGES]
    found += [f"'### {name}' occurs twice" for name, n in Counter(headings).items() if n > 1]
    before, *kinds = re.split(r"^### .*$", section, flags=re.MULTILINE)
    if re.search(r"^- ", before, flags=re.MULTILINE):
        found.append("an entry stands under no heading")
    for name, body in zip(headings, kinds, strict=True):
        if not entries(body):
            found.append(f"'### {name}' has no entry")
    return found


def _repeated(listed: list[str]) -> list[str]:
    words = [set(re.findall(r"[\w`.-]+", entry.lower())) for entry in listed]
    return [
        f"said twice: {first!r}, {second!r}"
        for (first, left), (second, right) in itertools.combinations(
            zip(listed, words, strict=True), 2
        )
        if len(left & right) >= SIMILAR * min(len(left), len(right)) and min(len(left), len(right))
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def test_changelog_of_this_project() -> None:
    assert problems(CHANGELOG.read_text(encoding="utf-8"), __version__) == []


GOOD = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-11-16

### Added

- `solscope show` prints a verdict on a usual step.
- A reader of rocprofv3 files.

### Fixed

- Damaged files end in one line.

## [0.1.0] - 2026-10-01

### Added

- The first release.
"""


def test_good_changelog_has_no_problem() -> None:
    assert problems(GOOD, "0.2.0") == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# Changelog\n", "# News\n", "does not begin"),
        ("## [Unreleased]\n", "", "first section"),
        ("[0.2.0] - 2026-11-16", "0.2.0 (November)", "is not '## [X.Y.Z]"),
        ("[0.1.0] - 2026-10-01", "[0.3.0] - 2026-10-01", "descending"),
        ("[0.1.0] - 2026-10-01", "[0.1.0] - 2026-12-01", "descending"),
        ("[0.2.0]", "[0.1.9]", "version 0.2.0 has no section"),
        ("### Fixed", "### Improved", "unknown heading"),
        ("### Fixed", "### Added", "occurs twice"),
        ("- Damaged files end in one line.\n", "", "has no entry"),
        ("## [Unreleased]\n", "## [Unreleased]\n\n- Loose.\n", "under no heading"),
        (
            "- Damaged files end in one line.\n",
            "- `solscope show` now prints a verdict on a usual\n  step.\n",
            "said twice",
        ),
    ],
)
def test_problem_is_named(old: str, new: str, problem: str) -> None:
    assert GOOD.count(old) == 1
    assert any(problem in found for found in problems(GOOD.replace(old, new), "0.2.0"))
