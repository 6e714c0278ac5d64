"""What the list of profiles says about each: GPU, model, step, finding.

It takes reading the whole profile. Cards are made one at a time while nobody asks for anything, and
kept on disk until a file changes; the list shows those that are known.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from solscope.errors import SolscopeError
from solscope.text import encodable
from solscope.web.sources import read_from, stamp

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.web.answer_cache import DiskCache

MAX_FILE_BYTES = 300_000_000
"""Files beyond this are read when they are opened, not ahead of that."""
MAX_SPARK = 48
"""Steps in the small chart of a row."""


class ProfileCard(msgspec.Struct, frozen=True):
    """One profile in a line; null where the recording does not say."""

    gpu: str | None
    model: str | None
    framework: str | None
    rank: int | None
    recorded_ns: int | None
    """Unix time."""
    phase: str | None
    """Of the steps whose time is given."""
    step_ms: float | None
    """Median."""
    busy_pct: float | None
    """Of a usual step, or of the recording."""
    finding: str
    """The kind of verdict, in a word or two."""
    sentence: str
    spark_ms: list[float]
    """Times of steps along the recording, at most `MAX_SPARK`."""


def card_of(attributed: Attributed) -> ProfileCard:
    """The card of one profile."""
    from solscope.corpus.ingest.describe import describe
    from solscope.demo import resolve
    from solscope.views.operators import hardware_of
    from solscope.views.summary import summarize
    from solscope.views.timeline import timeline
    from solscope.views.verdict import KINDS

    profile = attributed.profile
    summary = summarize(attributed, top=0)
    facts = describe(profile, Path(resolve(profile.path)), {}, None, hardware_of(attributed))
    verdict = summary.verdict
    timed = [] if summary.steps.found_by == "whole_profile" else summary.steps.phases
    phase = next((times for times in timed if times.phase == verdict.phase), None) or next(
        iter(timed), None
    )
    steps = [step.time_ms for step in timeline(attributed).steps if not step.cut]
    every = max(1, -(-len(steps) // MAX_SPARK))
    return ProfileCard(
        gpu=_text(facts.columns["gpu"]) or next(iter(summary.devices), None),
        model=_text(facts.columns["model"]),
        framework=_text(facts.columns["framework"]),
        rank=summary.rank,
        recorded_ns=facts.columns["recorded_ns"],
        phase=None if phase is None else phase.phase,
        step_ms=None if phase is None else phase.p50_ms,
        busy_pct=verdict.busy_pct,
        finding=KINDS[verdict.kind],
        sentence=verdict.sentence,
        spark_ms=[round(time, 4) for time in steps[::every]],
    )


def _text(value: object) -> str | None:
    return encodable(str(value)) if value else None


class Cards:
    """Cards by path, as far as they are known."""

    def __init__(self, disk_cache: DiskCache) -> None:
        self._disk_cache = disk_cache
        self._cards: dict[str, tuple[object, ProfileCard | None]] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> ProfileCard | None:
        """The card of a profile, when it is known."""
        now = stamp(path)
        with self._lock:
            card = self._cards.get(path)
        if card is not None and card[0] == now:
            return card[1]
        cached = self._disk_cache.peek(_key(path))
        if cached is None:
            return None
        return self._note(path, now, msgspec.json.decode(cached, type=ProfileCard | None))

    def is_due(self, path: str) -> bool:
        """Whether the card must still be made, and the file is not too large for that."""
        now = stamp(path)
        with self._lock:
            if path in self._cards and self._cards[path][0] == now:
                return False
        return self.get(path) is None and (now is None or now[1] <= MAX_FILE_BYTES)

    def make(self, path: str) -> None:
        """Read a profile for its card; one that cannot be read has none."""
        from solscope.attribution.opening import open_attributed

        def read() -> bytes:
            with contextlib.suppress(SolscopeError, OSError):
                return msgspec.json.encode(card_of(open_attributed(path)))
            return b"null"

        now = stamp(path)
        made = self._disk_cache.get(_key(path), read)
        self._note(path, now, msgspec.json.decode(made, type=ProfileCard | None))

    def _note(self, path: str, now: object, card: ProfileCard | None) -> ProfileCard | None:
        with self._lock:
            self._cards[path] = (now, card)
        return card


def _key(path: str) -> tuple[object, ...]:
    return ("card", *read_from(path))
