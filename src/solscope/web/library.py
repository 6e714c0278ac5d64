"""What there is to show: profiles on disk, opened when asked for, and one profile store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from solscope.bench.results.digest import describe_edited, read_intact
from solscope.bench.results.files import is_results
from solscope.corpus.location import is_store
from solscope.errors import InputError, SolscopeError, UsageError
from solscope.report.layout.labels import short_labels
from solscope.text import encodable
from solscope.web.answer_cache import DiskCache, MemoryCache, Value
from solscope.web.cards import Cards, ProfileCard
from solscope.web.idle import IdleMonitor
from solscope.web.models import Models, find_configs
from solscope.web.sources import find_results, find_sources, held, read_from, stamp
from solscope.web.store_view import StoreView

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.bench.base import ShapeResult
    from solscope.views.lanes.levels import Levels

Query = Mapping[str, str]
"""Names and values of a question."""
MAX_CACHED_PROFILES = 4
"""Attributed profiles in memory at a time: enough for two comparisons; each can take a GB."""
MAX_CACHED_ANSWERS = 128
"""Encoded answers in memory at a time."""
MAX_CACHED_TIMELINES = 2
"""Time lines in memory at a time: one of a million events takes about 100 MB."""
MAX_CACHED_TABLES = 8
"""Whole tables of which answers are parts, in memory at a time."""


class NotShownError(InputError):
    """What was asked about is not one of the things that this dashboard shows."""


class ProfileEntry(msgspec.Struct, frozen=True):
    """One profile that can be shown."""

    id: str
    """Stable as long as its path is."""
    label: str
    path: str
    """As text: the name of a file need not be."""
    bytes: int | None
    """Size of the file; null for a demo."""
    card: ProfileCard | None
    """What is known of it; null until it has been read."""


class Working(msgspec.Struct, frozen=True):
    """A profile that is being worked on."""

    id: str
    stage: str
    """What is being done."""
    seconds: float
    """How long the whole has taken so far."""


class Library:
    """Profiles by id, and a store."""

    def __init__(self, sources: Sequence[str], disk_cache: DiskCache | None = None) -> None:
        stores = [source for source in sources if is_store(source)]
        if len(stores) > 1:
            raise UsageError(f"{len(stores)} profile stores given; the dashboard shows one")
        self.disk_cache = disk_cache or DiskCache(None)
        """Answers of earlier starts."""
        self._store = StoreView(stores[0], self.disk_cache) if stores else None
        self._named_results = [source for source in sources if is_results(source)]
        self.result_files = self._named_results
        """Files of benchmark results, those in folders as well."""
        others = {*stores, *self._named_results}
        self._sources = [source for source in sources if source not in others]
        self.takes_uploads = False
        """Whether the server lets the browser add profiles."""
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._looked: list[object] = []
        self._entries: dict[str, ProfileEntry] = {}
        self._paths: dict[str, str] = {}
        self._profiles: MemoryCache[Attributed] = MemoryCache(MAX_CACHED_PROFILES)
        self._timelines: MemoryCache[Levels] = MemoryCache(MAX_CACHED_TIMELINES)
        self.pages: MemoryCache[bytes] = MemoryCache(MAX_CACHED_ANSWERS)
        """Encoded answers."""
        self.tables: MemoryCache[Any] = MemoryCache(MAX_CACHED_TABLES)
        """Results of which pages show a part."""
        self.cards = Cards(self.disk_cache)
        """What the list of profiles says about each."""
        self.models = Models()
        """Configs of models, for costs where a profile has no shapes."""
        self.skipped: list[tuple[str, str]] = []
        """Files of a folder that are not profiles, with the reason."""
        self._working: dict[str, tuple[str, float]] = {}
        self.idle = IdleMonitor()
        """When requests come; work that can wait does."""
        self.refresh()

    def look_again(self) -> None:
        """See whether folders hold other files than before; what is wrong with them can wait."""
        if self._looked != list(map(held, self._sources)):
            with contextlib.suppress(SolscopeError):
                self.refresh()

    def refresh(self) -> None:
        """Look again what the folders hold."""
        with self._looking:
            self._looked = list(map(held, self._sources))
            self._refresh()

    def _refresh(self) -> None:
        paths, skipped = find_sources(self._sources, self.disk_cache)
        by_id = {profile_id(path): path for path in paths}
        shown = [encodable(path) for path in by_id.values()]
        entries = {
            name: ProfileEntry(name, label, text, _size(path), None)
            for (name, path), text, label in zip(
                by_id.items(), shown, short_labels(shown), strict=True
            )
        }
        results = find_results([*self._named_results, *self._sources])
        self.models.offer(find_configs(self._sources, paths))
        with self._lock:
            self._entries, self._paths, self.result_files = entries, by_id, results
            self.skipped = [(encodable(path), encodable(why)) for path, why in skipped]

    def add(self, path: Path) -> ProfileEntry:
        """Take one more file."""
        self._sources.append(str(path))
        self.refresh()
        return self.entry(profile_id(str(path)))

    @property
    def has_store(self) -> bool:
        """Whether a store is shown."""
        return self._store is not None

    @property
    def store(self) -> StoreView:
        """The store; `NotShownError` when none is shown."""
        if self._store is None:
            raise NotShownError("no profile store is shown here; start with `solscope serve DIR`")
        return self._store

    def results(self) -> list[ShapeResult]:
        """All benchmark results but edited lines; `NotShownError` when there are none."""
        return self._results()[0]

    def ignored_results(self) -> list[str]:
        """What is said about edited lines, which do not count."""
        return [encodable(result) for result in describe_edited(self._results()[1])]

    def _results(self) -> tuple[list[ShapeResult], dict[str, list[int]]]:
        if not self.result_files:
            raise NotShownError(
                "no benchmark results are shown here; start with a results file (.jsonl)"
            )
        key = ("results", *self.result_stamps())
        read: tuple[list[ShapeResult], dict[str, list[int]]]
        read = self.tables.get(key, lambda: read_intact(self.result_files))
        return read

    def unreadable_results(self) -> list[tuple[str, str]]:
        """Files of benchmark results that cannot be read, with the reason."""
        faults = [(path, _fault(path)) for path in self.result_files]
        return [(encodable(path), encodable(why)) for path, why in faults if why is not None]

    def result_stamps(self) -> list[tuple[str, str, object]]:
        """Result files: the name given, the path, and a stamp that changes with them."""
        return [(name, str(Path(name).absolute()), stamp(name)) for name in self.result_files]

    def solutions(self) -> list[str]:
        """Names of the solutions in the results."""
        key = ("solutions", *self.result_stamps())

        def make() -> bytes:
            return msgspec.json.encode(sorted({line.solution for line in self.results()}))

        if not self.result_files:
            return []
        cached = self.pages.get(key, lambda: self.disk_cache.get(key, make))
        return msgspec.json.decode(cached, type=list[str])

    @property
    def entries(self) -> list[ProfileEntry]:
        """All profiles, in the order they were named."""
        with self._lock:
            return list(self._entries.values())

    def with_cards(self) -> list[ProfileEntry]:
        """All profiles, with their cards as far as they are known."""
        return [
            msgspec.structs.replace(entry, card=self.cards.get(self.path(entry.id)))
            for entry in self.entries
        ]

    def without_card(self) -> str | None:
        """The path of the next profile whose card must be made."""
        with self._lock:
            paths = list(self._paths.values())
        return next((path for path in paths if self.cards.is_due(path)), None)

    def entry(self, name: str) -> ProfileEntry:
        """The profile with this id."""
        return _find(self._entries, name)

    def path(self, name: str) -> str:
        """Path of the profile with this id."""
        return _find(self._paths, name)

    def profile(self, name: str) -> Attributed:
        """The profile with this id, opened and attributed; `done` ends what `working` reports."""
        from solscope.attribution.opening import open_attributed

        path = self.path(name)

        def make() -> Attributed:
            return open_attributed(
                path,
                after_reading=lambda: self._stage(name, "finding steps, layers and operators"),
            )

        with self._lock:
            self._working.setdefault(name, ("reading the file", time.monotonic()))
        profile = self._profiles.get((path, *read_from(path)), make)
        self._stage(name, "working out what to show")
        return profile

    def timeline(self, name: str) -> Levels:
        """The time line of the profile with this id, at every level of detail."""
        from solscope.views.lanes.levels import levels_of

        path = self.path(name)
        key = (path, *read_from(path))
        return self._timelines.get(key, lambda: levels_of(self.profile(name)))

    def _stage(self, name: str, stage: str) -> None:
        with self._lock:
            if name in self._working:
                self._working[name] = (stage, self._working[name][1])

    def done(self, *names: str) -> None:
        """Nothing is left to do for these profiles."""
        with self._lock:
            for name in names:
                self._working.pop(name, None)

    @property
    def working(self) -> list[Working]:
        """What is being done for profiles that were asked for."""
        now = time.monotonic()
        with self._lock:
            return [
                Working(name, what, now - begun) for name, (what, begun) in self._working.items()
            ]


def _find(by_id: Mapping[str, Value], name: str) -> Value:
    value = by_id.get(name)
    if value is None:
        raise NotShownError(f"no profile {name!r} here")
    return value


def _fault(results: str) -> str | None:
    """Why a file of results cannot be read; null when it can."""
    try:
        read_intact([results])
    except (SolscopeError, OSError) as error:
        return str(error)
    return None


def profile_id(path: str) -> str:
    """A short name that is valid in a URL."""
    where = path if path.startswith("demo:") else os.fspath(Path(path).absolute())
    return hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _size(path: str) -> int | None:
    changed = stamp(path)
    return None if changed is None else changed[1]
