"""Adding profiles to a store: an engine reads them, batches of results are committed as they come.

A profile counts as added when the commit of its batch has returned, and is reported only then.
Adding only appends. Small files are joined by `corpus compact`, a step of its own: many processes
may add at the same time, and rewriting tables under one another would cost them all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from solscope.cores import cores
from solscope.corpus.delta import reusing_tables
from solscope.corpus.ingest.describe import is_truncated
from solscope.corpus.ingest.engines import make_engine
from solscope.corpus.ingest.engines.base import NO_LIMITS, Limits
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.ingest.inputs import find_items
from solscope.corpus.ingest.task import Outcome, Task
from solscope.corpus.rows import Extract
from solscope.corpus.store import Corpus

BATCH_PROFILES = 64
"""Profiles after which a batch is committed."""
BATCH_ROWS = 200_000
"""Rows after which it is committed, kept events included."""
BATCH_SECONDS = 5.0
"""Time after which it is committed, at the next result."""
CUT = "the file is truncated, so only its first part was added"
"""Why a file that was added is not all that was recorded."""


class FailedFile(msgspec.Struct, frozen=True):
    """A file that could not be added."""

    file: str
    reason: str


class AddResult(msgspec.Struct, frozen=True):
    """What became of the files of a run."""

    added: int
    skipped: int
    """Files whose content the store had already."""
    failed: list[FailedFile]
    ignored: int
    """Files in folders that are not profiles."""
    truncated: list[str]
    """Files among the added ones that break off before their end; only their first part counts."""


State = Literal["read", "added", "skipped", "failed", "ignored"]
Report = Callable[[str, State, "str | None", int], None]
"""Called with a file, what became of it, why, and how many files the run has.

Twice for each file: with `read` when its worker is done with it, and with what became of it in the
end; `added` comes only after the commit that adds it.
"""


@reusing_tables()
def add_profiles(
    corpus: Corpus,
    inputs: Iterable[str | os.PathLike[str]],
    options: ExtractOptions | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    report: Report | None = None,
    limits: Limits | None = None,
) -> AddResult:
    """Add the profiles behind files, folders, globs and URLs."""
    items = find_items(inputs)
    runner = make_engine(
        engine, _workers(engine, workers, len(items)), address, limits or NO_LIMITS
    )
    run = _Run(corpus, [item.path for item in items], report)
    chosen = by_policy(corpus, options or ExtractOptions())
    tasks = (Task(item, chosen) for item in items)
    for outcome in runner.run(tasks, corpus.known()):
        run.take(outcome)
    run.commit()
    failed = sorted(run.failed, key=lambda row: row.file)
    return AddResult(run.added, run.skipped, failed, run.ignored, sorted(run.truncated))


def by_policy(corpus: Corpus, options: ExtractOptions) -> ExtractOptions:
    """The options as the store demands them: whoever adds to it cannot leave redaction out."""
    return replace(options, redact=options.redact or corpus.redacts)


class _Run:
    """Counts of a run, and the batch that is not committed yet."""

    def __init__(self, corpus: Corpus, paths: Sequence[str], report: Report | None) -> None:
        self.corpus, self.total, self.report = corpus, len(paths), report
        self.place = {path: index for index, path in enumerate(paths)}
        self.added = self.skipped = self.ignored = 0
        self.failed: list[FailedFile] = []
        self.truncated: list[str] = []
        self.batch: list[tuple[str, Extract]] = []
        self.rows = 0
        self.since = time.monotonic()

    def take(self, outcome: Outcome) -> None:
        self.tell(outcome.path, "read")
        if outcome.extract is not None:
            if not self.batch:
                self.since = time.monotonic()
            self.batch.append((outcome.path, outcome.extract))
            self.rows += _rows(outcome.extract)
        elif outcome.reason is not None:
            self.failed.append(FailedFile(outcome.path, outcome.reason))
            self.tell(outcome.path, "failed", outcome.reason)
        elif outcome.known:
            self.skipped += 1
            self.tell(outcome.path, "skipped")
        else:
            self.ignored += 1
            self.tell(outcome.path, "ignored")
        waited = time.monotonic() - self.since
        full = len(self.batch) >= BATCH_PROFILES or self.rows >= BATCH_ROWS
        if self.batch and (full or waited >= BATCH_SECONDS):
            self.commit()

    def commit(self) -> None:
        batch, self.batch, self.rows = self.batch, [], 0
        if not batch:
            return
        # Workers end in any order; of two files with one content the first as named counts.
        batch.sort(key=lambda extracted: self.place[extracted[0]])
        added = set(self.corpus.append([extract for _, extract in batch]))
        for path, extract in batch:
            # The same content under two names: the first one was added.
            first = extract.profile["id"] in added
            added.discard(extract.profile["id"])
            self.added += first
            self.skipped += not first
            cut = first and is_truncated(extract.profile)
            self.truncated += [path] if cut else []
            self.tell(path, "added" if first else "skipped", CUT if cut else None)

    def tell(self, path: str, state: State, reason: str | None = None) -> None:
        if self.report is not None:
            self.report(path, state, reason, self.total)


def _workers(engine: str, wanted: int | None, files: int) -> int | None:
    """No more workers on this machine than there are files for them; a cluster knows its own."""
    if engine != "local":
        return wanted
    return min(cores() if wanted is None else wanted, max(1, files))


def _rows(extract: Extract) -> int:
    events = 0 if extract.events is None else extract.events.height
    return extract.times.height + extract.steps.height + events
