"""Configs of models, for costs where a profile has no shapes.

They are files of served folders, or given by the browser. Files are addressed by id, never by path.
What the browser gives is checked, reduced to the fields that costs depend on, and held in memory
as text: parsed, it can take many times as much.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from solscope.corpus.location import is_store
from solscope.errors import InputError, LimitError, UsageError
from solscope.report.layout.labels import short_labels
from solscope.text import encodable
from solscope.web.sources import folders_in, stamp

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

MAX_CONFIG_BYTES = 1 << 20
"""Of one config; published ones have a few thousand."""
MAX_HELD_BYTES = 1 << 17
"""Of one config from a browser, reduced to what costs depend on."""
MAX_GIVEN = 32
"""Configs given by browsers that are held at a time; beyond that the oldest is dropped."""
MAX_LISTED = 200
"""Files that are offered."""
MAX_LOOKED_AT = 2_000
"""Files of JSON that are looked into."""
HEAD_BYTES = 1 << 16
_SIGN = b'"hidden_size"'
"""What every config has, and hardly another file of JSON."""
_COUNTS = range(1, (1 << 32) + 1)


class ModelEntry(msgspec.Struct, frozen=True):
    """One config that can be chosen."""

    id: str
    label: str


class Models:
    """Configs by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[ModelEntry, str]] = {}
        self._given: OrderedDict[str, tuple[ModelEntry, bytes]] = OrderedDict()

    def offer(self, paths: Iterable[str]) -> None:
        """Offer these files, in place of those before."""
        listed = list(paths)[:MAX_LISTED]
        labels = short_labels(list(map(encodable, listed)))
        files = {
            name: (ModelEntry(name, label), path)
            for name, path, label in zip(map(_path_id, listed), listed, labels, strict=True)
        }
        with self._lock:
            self._files = files

    @property
    def entries(self) -> list[ModelEntry]:
        """All that can be chosen: files first, then what browsers gave."""
        with self._lock:
            return [entry for entry, _ in (*self._files.values(), *self._given.values())]

    def give(self, name: str, data: bytes) -> ModelEntry:
        """Take a config from a browser; `InputError` when it is none.

        The same config under another name is another entry: nobody renames what others chose.
        """
        from solscope.operators.from_config import parse_model

        held = msgspec.json.encode(parse_model(data, name).config)
        if len(held) > MAX_HELD_BYTES:
            raise LimitError(
                f"too large for a model's config: more than {MAX_HELD_BYTES:,} bytes"
                " in the fields that costs depend on"
            )
        entry = ModelEntry(_digest(name.encode() + b"\0" + data), name)
        with self._lock:
            self._given[entry.id] = entry, held
            self._given.move_to_end(entry.id)
            while len(self._given) > MAX_GIVEN:
                self._given.popitem(last=False)
        return entry

    def state(self, name: str) -> object:
        """Changes with what the config says."""
        with self._lock:
            file = self._files.get(name)
        return None if file is None else stamp(file[1])

    def chosen(self, query: Mapping[str, str]) -> Model | None:
        """The model that a question names with `model`, `batch` and `context`, if any."""
        batch, context = (_count(name, query.get(name)) for name in ("batch", "context"))
        if "model" in query:
            return replace(self._open(query["model"]), batch=batch, context=context)
        if batch is not None or context is not None:
            raise UsageError("batch and context need a model's config")
        return None

    def _open(self, name: str) -> Model:
        from solscope.operators.from_config import load_model, parse_model

        with self._lock:
            file, given = self._files.get(name), self._given.get(name)
        if file is not None:
            return load_model(file[1])
        if given is None:
            raise InputError("this model's config is no longer here: choose it again")
        entry, held = given
        return parse_model(held, entry.label)


def find_configs(sources: Iterable[str], profiles: Iterable[str]) -> list[str]:
    """Files in the folders among the sources that look like a model's config."""
    roots = [Path(source) for source in sources if Path(source).is_dir() and not is_store(source)]
    files = (file for root in roots for folder in folders_in(root) for file in _json_in(folder))
    read = set(profiles)
    others = (file for file in files if str(file) not in read)
    return [str(file) for file in islice(others, MAX_LOOKED_AT) if _is_config(file)]


async def read_config(pieces: AsyncIterator[bytes]) -> bytes:
    """What a client sends; `LimitError` when it is too large for a config."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > MAX_CONFIG_BYTES:
            raise LimitError(
                f"too large for a model's config: more than {MAX_CONFIG_BYTES:,} bytes"
            )
    return bytes(data)


def _json_in(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(folder.glob("*.json"))
    return []


def _is_config(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size <= MAX_CONFIG_BYTES:
            with path.open("rb") as file:
                return _SIGN in file.read(HEAD_BYTES)
    return False


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) in _COUNTS):
        raise UsageError(f"{name}: {text[:40]!r} is not a number from 1 to {_COUNTS[-1]:,}")
    return int(text)


def _path_id(path: str) -> str:
    return _digest(os.fsencode(Path(path).absolute()))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
