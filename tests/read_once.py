"""Recordings that many tests begin with: each process of a test run reads and attributes one once.

Only files of the repository and of the shared data are remembered: nobody writes them while tests
run. Many tests also begin with the same small profile that they make: it is attributed once, too.
Tests of reading, of attribution and of the cache read anew, as do those marked `reads_anew`,
because they change how files are read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from solscope import attribution
from solscope.attribution import Attributed
from solscope.attribution.classify import load_rules
from solscope.attribution.rule_set import RuleSet
from solscope.profile import Profile
from solscope.readers.find import metrics_beside
from solscope.readers.opening import Opening

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
ROOTS = tuple(
    os.path.realpath(root) + os.sep for root in (REPOSITORY, REPOSITORY.parent / "shared")
)
READ_ANEW = ("unit/attribution", "unit/readers", "unit/cache", "conformance", "fuzz")
"""Folders of tests that read everything anew."""

SMALL_ROWS = 1_000
"""Profiles of tests have fewer events; of others, the content is not compared."""

_Key = tuple[object, ...]


class _Memory:
    """What this process has read."""

    in_use = False
    profiles: dict[_Key, Profile] = {}  # noqa: RUF012 - one memory for all
    attributed: dict[int, Attributed] = {}  # noqa: RUF012
    """By the identity of a profile that is kept above."""
    made: dict[_Key, Attributed] = {}  # noqa: RUF012
    """By the content of a small profile that a test made."""


@contextmanager
def remembering() -> Iterator[None]:
    """Within it, no file is read or attributed twice."""
    _Memory.in_use = True
    try:
        yield
    finally:
        _Memory.in_use = False


def reads_anew(path: Path) -> bool:
    """Whether a file of tests is about reading itself."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix().startswith(READ_ANEW)


def install() -> None:
    """Put the memory in place, before test files import what it stands in front of."""
    setattr(attribution, "attribute", _remembering_attribute(attribution.attribute))  # noqa: B010
    setattr(Opening, "profile", _remembering_profile(Opening.profile))  # noqa: B010
    setattr(Opening, "start", _start_unless_known(Opening.start))  # noqa: B010


_Attribute = Callable[[Profile, "RuleSet | None", "Profile | Sequence[Profile] | None"], Attributed]


def _remembering_attribute(attribute: _Attribute) -> _Attribute:
    @functools.wraps(attribute)
    def remembered(
        profile: Profile,
        rules: RuleSet | None = None,
        companion: Profile | Sequence[Profile] | None = None,
    ) -> Attributed:
        if not _Memory.in_use or companion or not _built_in(rules):
            return attribute(profile, rules, companion)
        if any(profile is known for known in _Memory.profiles.values()):
            if id(profile) not in _Memory.attributed:
                _Memory.attributed[id(profile)] = attribute(profile, rules, companion)
            return _Memory.attributed[id(profile)]
        if max(profile.events.height, profile.aggregates.height) > SMALL_ROWS:
            return attribute(profile, rules, companion)
        content = _content(profile)
        if content not in _Memory.made:
            _Memory.made[content] = attribute(profile, rules, companion)
        return replace(_Memory.made[content], profile=profile)

    return remembered


def _content(profile: Profile) -> _Key:
    """All that attribution depends on: rows in their order, with 64 bits of hash for each."""
    tables = (profile.events, profile.aggregates)
    return (profile.metadata.framework, *(tuple(table.hash_rows()) for table in tables))


def _built_in(rules: RuleSet | None) -> bool:
    return rules is None or rules is load_rules()


def _remembering_profile(read: Callable[[Opening], Profile]) -> Callable[[Opening], Profile]:
    @functools.wraps(read)
    def profile(self: Opening) -> Profile:
        key = _key(self)
        if key is None:
            return read(self)
        if key not in _Memory.profiles:
            _Memory.profiles[key] = read(self)
        return _Memory.profiles[key]

    return profile


def _start_unless_known(start: Callable[[Opening], None]) -> Callable[[Opening], None]:
    @functools.wraps(start)
    def started(self: Opening) -> None:
        if _key(self) not in _Memory.profiles:
            start(self)

    return started


def _key(main: Opening) -> _Key | None:
    """All that a profile depends on; null for what is not remembered."""
    path = main._path
    if not _Memory.in_use or not os.path.realpath(path).startswith(ROOTS):
        return None
    if not path.is_file() or main.entries is not None:
        return None
    beside = metrics_beside(path)
    files = (_state(path), None if beside is None else _state(beside))
    return (*files, main._asked, main._options.max_expansion, os.environ.get("SOLSCOPE_CORE"))


def _state(path: Path) -> tuple[str, int, int]:
    stat = path.stat()
    return (str(path), stat.st_size, stat.st_mtime_ns)
