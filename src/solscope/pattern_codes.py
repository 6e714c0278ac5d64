"""Compiled regular expressions of the package, kept as Python keeps bytecode.

Compiling the expressions that one command uses takes longer than all searches with them. Python
turns an expression into a list of numbers first; that list is kept in `__pycache__` beside this
module, for this very build of Python, and used for the same expression later. Only a list that
gives what `re.compile` gives is kept. Where nothing can be read or written, or bytecode is not
wanted, expressions are compiled each time.
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found]
import contextlib
import re
import sys
import threading
from array import array
from pathlib import Path
from typing import Any

import msgspec

MOST = 4_000
"""Expressions that are kept; the package has some hundreds."""

_Key = tuple[str, int]
_Parts = tuple[bytes, int, int, dict[str, int]]
"""The numbers, all flags, the number of groups, and those with a name."""
_Stamp = tuple[str, int, int, str]
_File = tuple[_Stamp, list[tuple[_Key, _Parts]]]
_lock = threading.Lock()
_made: dict[_Key, re.Pattern[str]] = {}
_new: dict[_Key, _Parts] = {}
"""What was compiled here, and is not on disk."""
_known: dict[_Key, _Parts] | None = None
"""What is on disk; null until it is first needed."""


def compiled_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(expression, flags)`, for expressions of the package itself."""
    key = (expression, int(flags))
    if key not in _made:
        _made[key] = _from_disk(key) or _compile(key)
    return _made[key]


def _from_disk(key: _Key) -> re.Pattern[str] | None:
    parts = _kept().get(key)
    if parts is not None:
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
            return _pattern(key[0], parts)
    return None


def _compile(key: _Key) -> re.Pattern[str]:
    pattern = re.compile(*key)
    # Another version of Python may do this in another way: then nothing is kept. Nor is an
    # expression about halves of characters, which no file can hold as text.
    with contextlib.suppress(Exception):
        key[0].encode()
        parts = _parts(*key)
        if _pattern(key[0], parts) == pattern:
            with _lock:
                _new[key] = parts
    return pattern


def unkept() -> tuple[Path, bytes] | None:
    """A file to write, if anything was compiled that is not on disk."""
    with _lock:
        new = dict(_new)
        _new.clear()
    if not new or sys.dont_write_bytecode:
        return None
    known = {**_read(), **new}
    if len(known) > MOST:
        return None
    return _place(), msgspec.msgpack.encode((_stamp(), list(known.items())))


def _kept() -> dict[_Key, _Parts]:
    global _known
    if _known is None:
        _known = _read()
    return _known


def _read() -> dict[_Key, _Parts]:
    with contextlib.suppress(OSError, ValueError):  # msgspec errors are ValueErrors
        stamp, known = msgspec.msgpack.decode(_place().read_bytes(), type=_File)
        if stamp == _stamp():
            return dict(known)
    return {}


def _place() -> Path:
    file = Path(__file__)
    return file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.codes"


def _stamp() -> _Stamp:
    """What the numbers depend on besides the expression."""
    return sys.version, _sre.MAGIC, _sre.CODESIZE, sys.byteorder


def _parts(expression: str, flags: int) -> _Parts:
    """What `re.compile` hands to the engine, as plain values."""
    compiler: Any = re._compiler  # type: ignore[attr-defined]
    parsed = compiler._parser.parse(expression, flags)
    code = array("I", compiler._code(parsed, flags)).tobytes()
    names = dict(parsed.state.groupdict)
    return code, int(flags | parsed.state.flags), parsed.state.groups - 1, names


def _pattern(expression: str, parts: _Parts) -> re.Pattern[str]:
    code, flags, groups, names = parts
    named: list[str | None] = [None] * (groups + 1)
    for name, number in names.items():
        named[number] = name
    numbers = memoryview(code).cast("I").tolist()
    made: re.Pattern[str] = _sre.compile(expression, flags, numbers, groups, names, tuple(named))
    return made
