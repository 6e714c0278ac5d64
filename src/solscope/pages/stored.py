"""Pages of a report that was made before, taken from the cache.

An entry is found by all that the pages depend on: the profiles with their names, the options and
the files that they name, and the version of the program. None of the libraries that compute a page
is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from solscope.cache.digest import blake2b
from solscope.readers import ReadOptions, opening
from solscope.readers.opening import ONE_FILE, Opening

if TYPE_CHECKING:
    from solscope.cache.entries import Entries


@dataclass(frozen=True)
class Encoded:
    """Pages as JSON, under one title."""

    title: str
    pages: list[msgspec.Raw]


class StoredPages:
    """The place of one report in the cache; make it before the profiles are read.

    `given` is what else the pages depend on, and `files` are those that it names.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: ReadOptions,
        given: object,
        files: Sequence[Path] = (),
    ) -> None:
        self._profiles = [opening(path, options) for path in paths]
        self._given = (tuple(paths), given)
        self._files = files
        self._metrics = self._metrics_now()

    def find(self) -> Encoded | None:
        """The pages, when they are there."""
        key = self._key(Opening.known_key)
        if self._entries is None or key is None:
            return None
        return self._entries.get(key, Encoded, {})

    def store(self, pages: Encoded, formats: Iterable[str]) -> None:
        """Write the pages in the background, unless a profile or its metrics changed since.

        `formats` are those that the profiles turned out to have.
        """
        if self._entries is None or not ONE_FILE.issuperset(formats):
            return
        from solscope.cache import background

        background.submit(lambda: self._store(pages))

    def _store(self, pages: Encoded) -> None:
        key = self._key(Opening.key)
        # The key holds the metrics of this moment, the pages those that were read.
        if self._metrics_now() != self._metrics:
            return
        if self._entries is not None and key is not None:
            self._entries.put(key, pages, {})

    def _metrics_now(self) -> list[tuple[str, str | None] | None]:
        return [profile.metrics_now() for profile in self._profiles]

    @property
    def _entries(self) -> Entries | None:
        return self._profiles[0].entries

    @cached_property
    def _digests(self) -> list[str] | None:
        """Of the files that options name, before they are used; null when one cannot be read."""
        try:
            return [blake2b(file.read_bytes()).hexdigest() for file in self._files]
        except OSError:
            return None

    def _key(self, key_of: Callable[[Opening], str | None]) -> str | None:
        """Null when a profile or a file cannot be identified."""
        profiles = [key_of(profile) for profile in self._profiles]
        if None in profiles or self._digests is None:
            return None
        from solscope.cache.code import program_version
        from solscope.cache.entries import entry_key

        return entry_key("pages", program_version(), self._given, self._digests, *profiles)
