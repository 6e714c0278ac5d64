"""One damaged event of a Chrome trace made valid JSON again, where that can be done."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

from solscope.readers.kineto_columns import NUMBER
from solscope.readers.kineto_events import BROKEN, decode_event

MAX_REPAIR_BYTES = 1 << 16
"""A damaged event larger than this is given up: repairing looks at it many times."""

# Strings, trailing commas and bare words, of which only JSON's own are sound.
_REPAIRABLE = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])|[^\s,:"{}\[\]]+', re.DOTALL)
_JSON_WORD = re.compile(
    r"true|false|null|-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][-+]?\d{1,2})?", re.ASCII
)
_encode = msgspec.json.Encoder(decimal_format="number").encode


def repair(piece: bytes) -> bytes | None:
    """One event as valid JSON; None when it is hopeless.

    Control characters, invalid UTF-8, lone surrogates, inf, nan and trailing commas are repaired.
    """
    try:
        decode_event(piece)
    except BROKEN:
        pass
    else:
        return piece
    if len(piece) > MAX_REPAIR_BYTES:
        return None
    text = _REPAIRABLE.sub(_mend, piece.decode("utf-8", errors="replace"))
    try:
        event = _sound(json.loads(text, strict=False, parse_float=Decimal))
        if isinstance(event, dict) and not isinstance(event.get("args", {}), dict):
            del event["args"]
        clean = _encode(event)
        decode_event(clean)
    except (ValueError, RecursionError, ArithmeticError):
        return None
    return clean


def _mend(found: re.Match[str]) -> str:
    word = found.group()
    if word[0] == '"' or _JSON_WORD.fullmatch(word):
        return word
    if word == ",":
        return ""
    return f'"{word}"' if NUMBER.fullmatch(word) else "null"


def _sound(value: Any) -> Any:
    """`value` without lone surrogates, which nothing can encode."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, list):
        return [_sound(item) for item in value]
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    return value
