"""Names of profiles in reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_ENDINGS = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite|csv|txt)(\.gz|\.zst)?$")


def short_labels(paths: Sequence[str]) -> list[str]:
    """`distinct_names` without file endings, where that still tells them apart."""
    names = distinct_names(paths)
    short = [_ENDINGS.sub("", name) for name in names]
    return short if len(set(short)) == len(short) else names


def distinct_names(paths: Sequence[str]) -> list[str]:
    """The shortest endings of the paths that tell them apart."""
    for depth in range(1, 6):
        names = ["/".join(Path(path).parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)
