"""Questions about the time line of a profile."""

from __future__ import annotations

import msgspec

from solscope.errors import UsageError
from solscope.views.lanes.base import EventBlock, EventTimeline
from solscope.views.lanes.levels import IN_ANSWER, timeline_of
from solscope.views.lanes.ranges import Found, RangeSums, next_event, range_sums
from solscope.web.handlers.profiles import watched
from solscope.web.library import Library, Query


def whole(library: Library, query: Query) -> EventTimeline:
    """The lanes of one profile, and what there is room for at once."""
    with watched(library, query["id"]):
        levels = library.timeline(query["id"])
        return timeline_of(levels, library.profile(query["id"]), IN_ANSWER)


def events(library: Library, query: Query) -> EventBlock:
    """The events of a range."""
    level = _number(query, "level") if "level" in query else 0
    with watched(library, query["id"]):
        return library.timeline(query["id"]).block(level, *_range(query))


def sums(library: Library, query: Query) -> RangeSums:
    """What ran in a range."""
    with watched(library, query["id"]):
        return range_sums(library.timeline(query["id"]), *_range(query))


class NextEvent(msgspec.Struct, frozen=True):
    """Where a search leads; null when there is no other."""

    event: Found | None


def following(library: Library, query: Query) -> NextEvent:
    """The next event with one of these labels, or the one before."""
    labels = [_int("labels", label) for label in query["labels"].split(",")]
    with watched(library, query["id"]):
        levels = library.timeline(query["id"])
        return NextEvent(next_event(levels, labels, _number(query, "from"), "back" in query))


def _range(query: Query) -> tuple[int, int]:
    start, end = _number(query, "from"), _number(query, "to")
    if end < start:
        raise UsageError(f"the range ends before it starts: {start} to {end} ns")
    return start, end


def _number(query: Query, name: str) -> int:
    return _int(name, query[name])


def _int(name: str, text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise UsageError(f"{name}: too many digits")
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}: {text!r} is not a whole number") from None


MAX_DIGITS = 18
"""What fits into 64 bits."""
