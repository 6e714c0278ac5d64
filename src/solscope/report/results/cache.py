"""`solscope cache` in the terminal."""

from __future__ import annotations

from solscope.cache.report import CacheInfo, Cleared
from solscope.report.forms import Screen, form
from solscope.text import clean


@form("cache_info", CacheInfo)
def cache_text(found: CacheInfo, _: Screen) -> str:
    """Where it is, how full it is, and whether it is used."""
    state = "on" if found.on else f"off ({clean(found.reason or '')})"
    return "\n".join(
        (
            f"folder     {clean(found.folder or 'none')}",
            f"state      {state}",
            f"profiles   {_count(found.entries, 'entry', 'entries')}, {size(found.bytes)} "
            f"of at most {size(found.max_bytes)}",
            f"dashboard  {_count(found.answers, 'answer', 'answers')}, {size(found.answer_bytes)}",
            f"caches     files of {size(found.min_bytes)} and more",
        )
    )


@form("cache_clear", Cleared)
def cleared_text(removed: Cleared, _: Screen) -> str:
    """What is gone."""
    if not removed.entries + removed.answers:
        return "the cache was empty"
    entries = _count(removed.entries, "entry", "entries")
    answers = _count(removed.answers, "answer", "answers")
    return f"removed {entries} and {answers}, {size(removed.bytes)}"


def size(count: int) -> str:
    """A number of bytes for people: the largest unit that leaves at least one."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return _count(count, "byte", "bytes")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
