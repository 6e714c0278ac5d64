"""One event of a damaged Chrome trace, read as the native scanner reads it.

Profilers write broken JSON: control characters and invalid UTF-8 in texts, inf and nan, trailing
commas. Each function here is the twin of one in `_native/scanner.cpp`, so that both scanners keep
the same events of a damaged file.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from solscope.readers.kineto_columns import NULL, NUMBER, Numbers
from solscope.readers.kineto_events import Args, Event
from solscope.readers.kineto_text import decode_text


class MoreError(Exception):
    """The text ends inside a value."""


class BadError(Exception):
    """The text is not a value."""


SPACE = b" \n\r\t"
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BARE = re.compile(rb'[^,}\] \n\r\t"{\[:]*')
_BRACKET = re.compile(rb'["{}\[\]]')
_SPACES = re.compile(rb"[ \n\r\t]*")
_ENDS = b",}] \n\r\t"
EVENT_START = re.compile(rb'\}\s*,\s*(\{)\s*"(?:ph|name|cat|ts|pid|tid|id|args|dur)"')
"""Where an event seems to begin; `\\s` also has vertical tabs, which `find_event` rules out."""
_NEXT_EVENT = re.compile(
    rb'\}[ \n\r\t]*,[ \n\r\t]*(\{)[ \n\r\t]*"(?:ph|name|cat|ts|pid|tid|id|args|dur)"'
)

_EVENT_FIELDS = {b"cat": "cat", b"name": "name", b"pid": "pid", b"tid": "tid", b"ts": "ts",
                 b"dur": "dur"}  # fmt: skip
_ARGS = {field.encode_name.encode(): field for field in msgspec.structs.fields(Args)}
_TEXT_FIELDS = frozenset({"cat", "name", "collective", "group", "group_ranks", "launched"})


def skip_space(text: bytes, offset: int) -> int:
    """The first place from `at` on that is no white space."""
    spaces = _SPACES.match(text, offset)
    assert spaces is not None
    return spaces.end()


def find_event(text: bytes, start: int) -> int | None:
    """Where the next event seems to begin, if one does."""
    event = _NEXT_EVENT.search(text, start)
    return None if event is None else event.start(1)


def text_end(text: bytes, offset: int) -> int:
    """Where the text whose opening quote is at `at` ends."""
    string = _TEXT.match(text, offset)
    if string is None:
        raise MoreError
    return string.end()


def value_end(text: bytes, offset: int) -> int:
    """Where the value that begins at `at` ends."""
    first = text[offset : offset + 1]
    if not first:
        raise MoreError
    if first == b'"':
        return text_end(text, offset)
    if first not in b"{[":
        return _bare_end(text, offset)
    depth = 0
    while bracket := _BRACKET.search(text, offset):
        offset = bracket.end()
        mark = bracket.group()
        if mark == b'"':
            offset = text_end(text, offset - 1)
        elif mark in b"{[":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return offset
    raise MoreError


def _bare_end(text: bytes, offset: int) -> int:
    bare = _BARE.match(text, offset)
    assert bare is not None
    end = bare.end()
    if end == len(text):
        raise MoreError
    if end == offset or text[end] not in _ENDS:
        raise BadError
    return end


def read_event(text: bytes, offset: int) -> tuple[Event, int]:
    """The event whose brace is at `at`, and where it ends."""
    event = Event()
    offset, more = _first_key(text, offset)
    while more:
        key, offset = _key(text, offset)
        if key == b"args" and text[offset : offset + 1] == b"{":
            event.args, offset = _read_args(text, offset)
        else:
            end = value_end(text, offset)
            if key == b"ph":
                event.ph = "X" if text[offset:end] == b'"X"' else ""
            elif name := _EVENT_FIELDS.get(key):
                setattr(event, name, _scalar(name, text[offset:end]))
            offset = end
        offset, more = _next_key(text, offset)
    return event, offset + 1


def _read_args(text: bytes, offset: int) -> tuple[Args, int]:
    args = Args()
    offset, more = _first_key(text, offset)
    while more:
        key, offset = _key(text, offset)
        end = value_end(text, offset)
        if field := _ARGS.get(key):
            raw = text[offset:end]
            is_raw = field.type is msgspec.Raw
            setattr(args, field.name, msgspec.Raw(raw) if is_raw else _scalar(field.name, raw))
        offset, more = _next_key(text, end)
    return args, offset + 1


def _scalar(name: str, raw: bytes) -> Any:
    """What a column takes: a text, or a number as it is written."""
    if raw[:1] == b'"':
        return decode_text(raw[1:-1])
    number = raw.decode("latin-1")
    if name in _TEXT_FIELDS or not NUMBER.fullmatch(number):
        return None
    # A process or thread without a number that fits has no label either: it is not in quotes.
    if name in ("pid", "tid") and Numbers().scaled(number, 1, 2**63 - 1, False) == NULL:
        return None
    return number


def _first_key(text: bytes, offset: int) -> tuple[int, bool]:
    offset = skip_space(text, offset + 1)
    return offset, text[offset : offset + 1] != b"}"


def _key(text: bytes, offset: int) -> tuple[bytes, int]:
    """The key at `at`, and where its value begins."""
    if text[offset : offset + 1] != b'"':
        raise MoreError if offset >= len(text) else BadError
    end = text_end(text, offset)
    colon = skip_space(text, end)
    if text[colon : colon + 1] != b":":
        raise MoreError if colon >= len(text) else BadError
    begin = skip_space(text, colon + 1)
    if begin >= len(text):
        raise MoreError
    return text[offset + 1 : end - 1], begin


def _next_key(text: bytes, offset: int) -> tuple[int, bool]:
    """Where the next key or the closing brace is; a comma may stand before that brace."""
    offset = skip_space(text, offset)
    if text[offset : offset + 1] == b",":
        offset = skip_space(text, offset + 1)
    elif text[offset : offset + 1] != b"}":
        raise MoreError if offset >= len(text) else BadError
    return offset, text[offset : offset + 1] != b"}"
