"""Names of profiles in reports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from solscope.patterns import lazy_pattern
from solscope.text import shorten

_ENDINGS = lazy_pattern(r"(\.pt)?(\.trace)?\.(json|sqlite|csv|txt)(\.gz|\.zst|\.xz)?$")
_WORDS = lazy_pattern(r"(?<=[-_./ ])")


def short_labels(paths: Sequence[str]) -> list[str]:
    """`distinct_names` without file endings, if they stay distinct."""
    names = distinct_names(paths)
    short = [_ENDINGS.sub("", name) for name in names]
    return short if len(set(short)) == len(short) else names


def distinct_names(paths: Sequence[str]) -> list[str]:
    """The shortest endings of the paths that are distinct."""
    for depth in range(1, 6):
        names = ["/".join(Path(path).parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def headings(names: Sequence[str], room: int) -> list[str]:
    """Names cut to `room` in their middle; those that look alike then, less what they share."""
    cut = [shorten(name, room) for name in names]
    return [
        short if cut.count(short) == 1 else shorten(_own(name, names, cut), room)
        for name, short in zip(names, cut, strict=True)
    ]


def _own(name: str, names: Sequence[str], cut: Sequence[str]) -> str:
    """The words of a name that distinguish it from names shortened to the same text."""
    short = cut[names.index(name)]
    alike = [_WORDS.split(other) for other, its in zip(names, cut, strict=True) if its == short]
    most = min(map(len, alike)) - 1
    before = min(most, _shared(alike))
    after = min(most - before, _shared([words[::-1] for words in alike]))
    words = _WORDS.split(name)
    own = "".join(words[before : len(words) - after])
    return "…" * bool(before) + (own.rstrip("-_./ ") + "…" if after else own)


def _shared(lists: Sequence[Sequence[str]]) -> int:
    """How many first words all of them have."""
    return sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, zip(*lists, strict=False)))
