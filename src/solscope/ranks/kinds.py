"""What sort of collective a kernel is: by its record where there is one, else by its name.

RCCL runs every collective as `ncclDevKernel_Generic`; only the record tells them apart.
"""

from __future__ import annotations

import re

SYNCHRONIZING = frozenset(
    ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "dispatch", "combine"]
)
"""Kinds in which every rank needs something of every other, so that none ends before all began."""
EVEN = frozenset(["all_reduce", "all_gather", "reduce_scatter", "barrier", "broadcast", "reduce"])
"""Kinds whose messages have the same size on all ranks."""
POINT_TO_POINT = frozenset(["send", "receive"])

_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"get_dispatch_layout|notify|_clean|layout", None),
        (r"all_?reduce|cross_device_reduce|quick_?reduce|lamport", "all_reduce"),
        (r"all_?gather", "all_gather"),
        (r"reduce_?scatter", "reduce_scatter"),
        (r"all_?to_?all|all2all", "all_to_all"),
        (r"dispatch", "dispatch"),
        (r"combine", "combine"),
        (r"barrier", "barrier"),
        (r"broadcast", "broadcast"),
        (r"^_?recv|^receive", "receive"),
        (r"^_?send(?!recv)", "send"),
        (r"SendRecv", "send_receive"),
        (r"reduce(?!\w*scatter)", "reduce"),
        (r"gather", "gather"),
        (r"scatter", "scatter"),
    )
)


def kind_of(record: str | None, kernel: str) -> str | None:
    """The kind of a collective; null for a kernel that only prepares one, or of no known kind."""
    for text in (record, kernel):
        if text is None:
            continue
        for pattern, kind in _PATTERNS:
            if pattern.search(text):
                return kind
    return None
