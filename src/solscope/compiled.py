"""Data files of the package in a form that loads fast, kept as Python keeps bytecode.

Parsing a TOML file of a thousand lines takes longer than importing most modules. What was made of
it is written to `__pycache__` beside it, and used as long as neither the data file nor the module
that reads it has changed, by size and modification time. Where nothing can be written, or bytecode
is not wanted, the file is parsed each time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from solscope.errors import UsageError
from solscope.files import new_file


def compiled(source: Path, made_by: str, make: Callable[[str], Any]) -> Any:
    """`make(text of source)`, or what it returned before, which must be plain JSON.

    `made_by` is the file of the module that defines `make`.
    """
    key = [*_identity(source), *_identity(Path(made_by))]
    return kept(source, key, lambda: make(source.read_text(encoding="utf-8")))


def kept(beside: Path, key: Any, make: Callable[[], Any]) -> Any:
    """`make()`, or what it returned before for the same `key`; both must be plain JSON."""
    place = beside.parent / "__pycache__" / f"{beside.name}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):  # msgspec errors are ValueErrors
        stamp, value = msgspec.json.decode(place.read_bytes())
        if stamp == key:
            return value
    value = make()
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError, UsageError):
            place.parent.mkdir(exist_ok=True)
            with new_file(place) as work:
                work.write_bytes(msgspec.json.encode((key, value)))
    return value


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document; its parser is imported only where it is needed."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    return tomllib.loads(text)
