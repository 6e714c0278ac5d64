"""Which files a companion profile consists of."""

from __future__ import annotations

import os
from pathlib import Path

from solscope.patterns import lazy_pattern
from solscope.profile import is_saved_profile
from solscope.readers import find_profiles

CAPTURE_FOLDER = "capture_traces"
"""Where vLLM and SGLang write recordings of their graph captures, beside the profiles."""
_RANK = lazy_pattern(r"rank_?(\d{1,7})(?!\d)")


def captures_beside(path: str) -> Path | None:
    """The folder with recordings of graph captures beside a profile, if there is one."""
    folder = Path(path).parent / CAPTURE_FOLDER
    try:
        return folder if folder.is_dir() and any(folder.iterdir()) else None
    except OSError:
        return None


def companion_files(given: str | os.PathLike[str], rank: int | None) -> list[str]:
    """The profiles that `given` means: a file, or a folder of captures, of one rank if they say."""
    path = Path(given)
    if not path.is_dir() or is_saved_profile(path):
        return [os.fspath(given)]
    files = find_profiles([given])
    ranks = [_RANK.search(Path(file).name) for file in files]
    same = [f for f, m in zip(files, ranks, strict=True) if m is not None and int(m[1]) == rank]
    return same or files
