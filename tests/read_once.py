"""Profiles that many commands are run on: each process of a test run reads and attributes one once.

For tests of what commands do with a profile, not of reading. A test that changes readers, rules or
attribution must not use this: what it reads would be given to others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from solscope.attribution import Attributed, opening
from solscope.attribution.opening import Companions
from solscope.attribution.rule_set import RuleSet
from solscope.readers.find import metrics_beside
from solscope.readers.opening import Opening

_SEEN: dict[tuple[object, ...], Attributed] = {}


def remember(patch: pytest.MonkeyPatch) -> None:
    """Attribute no file twice, as long as it stays the same."""
    attribute_opened = opening.attribute_opened

    def remembered(
        main: Opening,
        rules: RuleSet,
        companions: Companions | None = None,
        after_reading: Callable[[], None] | None = None,
    ) -> Attributed:
        key = _key(main, rules)
        if companions is not None or key is None:
            return attribute_opened(main, rules, companions, after_reading)
        if key not in _SEEN:
            _SEEN[key] = attribute_opened(main, rules)
        if after_reading is not None:
            after_reading()
        return _SEEN[key]

    patch.setattr(opening, "attribute_opened", remembered)
    # A file that is not going to be read needs no thread that begins with it.
    patch.setattr(Opening, "start", lambda _: None)


def _key(main: Opening, rules: RuleSet) -> tuple[object, ...] | None:
    """All that the result depends on; null for what is no file, or may be in the cache."""
    path = main._path
    if main.entries is not None or not path.is_file():
        return None
    beside = metrics_beside(path)
    files = (_state(path), None if beside is None else _state(beside))
    about = (main._asked, main._options.max_expansion, os.environ.get("SOLSCOPE_CORE"))
    return (*files, *about, msgspec.json.encode(rules.rules))


def _state(path: Path) -> tuple[str, int, int, int]:
    stat = path.stat()
    return (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
