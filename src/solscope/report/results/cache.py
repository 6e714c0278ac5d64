"""`solscope cache` in the terminal."""

from __future__ import annotations

from solscope.cache.report import CacheInfo, Cleared
from solscope.report.forms import Screen, form
from solscope.text import clean


@form("cache_info", CacheInfo)
def cache_text(cache: CacheInfo, _: Screen) -> str:
    """Where it is, how full it is, and whether it is used."""
    state = "on" if cache.on else f"off ({clean(cache.reason or '')})"
    return "\n".join(
        (
            f"folder     {clean(cache.folder or 'none')}",
            f"state      {state}",
            f"profiles   {_count(cache.entries, 'entry', 'entries')}, {size(cache.bytes)} "
            f"of at most {size(cache.max_bytes)}",
            f"dashboard  {_count(cache.answers, 'answer', 'answers')}, {size(cache.answer_bytes)}",
            f"caches     files of {size(cache.min_bytes)} and more",
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


def _count(number: int, single: str, many: str) -> str:
    return f"{number:,} {single if number == 1 else many}"
